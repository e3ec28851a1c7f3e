"""The hot loop of CTC's search over prefixes: all steps of one sequence.

Prefixes are nodes of a tree. Of those kept, likeliest first, `logs` has the log-probabilities of ending in their
label and of ending in a blank. Logarithms are added by arithmetic alone, so that loops and numpy have the same bits.

As in TensorFlow, prefixes grow one after the other, and what they grow to takes the place of the least likely of the
best so far. If that was a prefix of the step before, it still grows in its turn, unless the one that it continues has
had its turn since: then it is forgotten.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.special_loops import polynomial

ROOT, NONE = 0, -1
PARENT, LABEL, CHILD, SIBLING, PLACE = range(5)  # the rows of `tree`: of each node; PLACE: among those that are kept
NODE, OWN, NEXT_NODE, NEXT_OWN, BEST = range(5)  # the rows of `kept`: nodes and labels, now and after the step
ABOVE, STATE = NEXT_NODE, NEXT_OWN  # what these are before: the place of the prefix that it continues, and one of
AMONG, PUSHED_OUT, FORGOTTEN = range(3)  # these, of the best so far
IN_LABEL, IN_BLANK, TOTAL, NEXT_LABEL, NEXT_BLANK, MOST, LIKELY = range(7)  # the rows of `logs`

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_ROUND = 6755399441055744.0  # 1.5 * 2 ** 52: what is added to it is rounded
_EXP = tuple(1 / math.factorial(k) for k in range(13, -1, -1))
_ATANH = tuple(2 / k for k in range(35, 0, -2))
_FARTHEST = -40.0  # what is less by so much adds nothing
_BIAS, _BITS = np.int64(1023), np.int64(52)


def added(d: Any) -> Any:
    """log(1 + exp(d)) for d from -40 to 0, of a number."""
    whole = (d * _LOG2E + _ROUND) - _ROUND
    r = (d - whole * _LN2_HIGH) - whole * _LN2_LOW
    power = np.int64((np.int64(whole) + _BIAS) << _BITS).view(np.float64)
    t = polynomial(_EXP, r) * power
    s = t / (2.0 + t)
    return polynomial(_ATANH, s * s) * s


def log_add(a: Any, b: Any) -> Any:
    more, less = (a, b) if a >= b else (b, a)
    d = less - more
    return more + added(d) if d >= _FARTHEST else more  # minus infinity twice: NaN, so itself


def child(tree: Any, nodes: Any, parent: Any, label: Any) -> Any:
    """The node of a label behind a node; `nodes` where there is none yet, which it makes."""
    found = tree[CHILD, parent]
    while found != NONE and tree[LABEL, found] != label:
        found = tree[SIBLING, found]
    if found == NONE:
        found = nodes
        tree[PARENT, found], tree[LABEL, found] = parent, label
        tree[CHILD, found], tree[PLACE, found] = NONE, NONE
        tree[SIBLING, found] = tree[CHILD, parent]
        tree[CHILD, parent] = found
    return found


def offer(logs: Any, kept: Any, count: Any, width: Any, value: Any, index: Any) -> Any:
    """Put a candidate among the best, after those that are as likely; how many there are then."""
    if not value > -np.inf or (count == width and not value > logs[MOST, width - 1]):
        return count
    at = count if count < width else width - 1
    while at > 0 and logs[MOST, at - 1] < value:
        logs[MOST, at], kept[BEST, at] = logs[MOST, at - 1], kept[BEST, at - 1]
        at -= 1
    logs[MOST, at], kept[BEST, at] = value, index
    return count + 1 if count < width else count


def forget(kept: Any, count: Any, place: Any, label: Any) -> None:
    """Of the prefixes that continue the one at `place`, by that label or by any, those that were pushed out."""
    for j in range(place + 1, count):
        if kept[STATE, j] == PUSHED_OUT and kept[ABOVE, j] == place and (label == NONE or kept[OWN, j] == label):
            kept[STATE, j] = FORGOTTEN


@compiled(
    ["int64(Array(float64, 2, 'C', readonly=True), int64[:,::1], int64[:,::1], float64[:,::1], int64[::1])"],
    parts=[polynomial, added, log_add, child, offer, forget],
)
def search(scores: Any, tree: Any, kept: Any, logs: Any, taken: Any) -> Any:
    """How many prefixes are left; they are in `kept` and `logs`. scores: log-probabilities [steps, classes], the last
    class being the blank. tree: room for 1 + steps * width nodes; kept, logs: for as many prefixes as may be kept;
    taken: zeros, for each of those times the labels."""
    blank, width = scores.shape[1] - 1, kept.shape[1]
    tree[PARENT, 0], tree[LABEL, 0], tree[CHILD, 0], tree[SIBLING, 0], tree[PLACE, 0] = NONE, NONE, NONE, NONE, NONE
    kept[NODE, 0], kept[OWN, 0], logs[IN_LABEL, 0], logs[IN_BLANK, 0] = ROOT, NONE, -np.inf, 0.0
    count, nodes = 1, 1
    for t in range(scores.shape[0]):
        row = scores[t]
        likeliest = -np.inf
        for c in range(blank):
            likeliest = row[c] if row[c] > likeliest else likeliest
        for i in range(count):
            logs[TOTAL, i] = log_add(logs[IN_LABEL, i], logs[IN_BLANK, i])
            tree[PLACE, kept[NODE, i]] = i
        best = 0
        for i in range(count):
            own, parent = kept[OWN, i], tree[PARENT, kept[NODE, i]]
            ends = logs[IN_LABEL, i] + row[own] if own >= 0 else -np.inf
            above = tree[PLACE, parent] if parent != NONE else NONE
            kept[ABOVE, i], kept[STATE, i] = above, AMONG
            if above != NONE:
                before = logs[IN_BLANK, above] if kept[OWN, above] == own else logs[TOTAL, above]
                ends = log_add(ends, before + row[own])
                taken[above * blank + own] = t + 1
            logs[NEXT_LABEL, i], logs[NEXT_BLANK, i] = ends, logs[TOTAL, i] + row[blank]
            best = offer(logs, kept, best, width, log_add(ends, logs[NEXT_BLANK, i]), i)
        for i in range(count):
            full = best == width
            if kept[STATE, i] == FORGOTTEN or (full and not logs[TOTAL, i] > logs[MOST, width - 1]):
                continue
            if full and not logs[TOTAL, i] + likeliest > logs[MOST, width - 1]:
                forget(kept, count, i, NONE)
                continue
            for c in range(blank):
                if taken[i * blank + c] == t + 1:
                    forget(kept, count, i, c)
                    continue
                value = (logs[IN_BLANK, i] if kept[OWN, i] == c else logs[TOTAL, i]) + row[c]
                if best == width:
                    if not value > logs[MOST, width - 1]:
                        continue
                    if kept[BEST, width - 1] < count:
                        kept[STATE, kept[BEST, width - 1]] = PUSHED_OUT
                best = offer(logs, kept, best, width, value, count + i * blank + c)
        for i in range(count):
            tree[PLACE, kept[NODE, i]] = NONE
        for k in range(best):
            index = kept[BEST, k]
            if index < count:
                kept[NEXT_NODE, k], kept[NEXT_OWN, k] = kept[NODE, index], kept[OWN, index]
                logs[IN_LABEL, k], logs[LIKELY, k] = logs[NEXT_LABEL, index], logs[NEXT_BLANK, index]
            else:
                above, label = (index - count) // blank, (index - count) % blank
                node = child(tree, nodes, kept[NODE, above], label)
                nodes += 1 if node == nodes else 0
                kept[NEXT_NODE, k], kept[NEXT_OWN, k] = node, label
                logs[IN_LABEL, k], logs[LIKELY, k] = logs[MOST, k], -np.inf
        for k in range(best):
            kept[NODE, k], kept[OWN, k], logs[IN_BLANK, k] = kept[NEXT_NODE, k], kept[NEXT_OWN, k], logs[LIKELY, k]
        count = best
    for i in range(count):
        logs[TOTAL, i] = log_add(logs[IN_LABEL, i], logs[IN_BLANK, i])
    return count


# ---------------------------------------------------------------------- by numpy


@np.errstate(all="ignore")
def log_add_of(a: Any, b: Any) -> Any:
    """`log_add` of arrays."""
    more, less = np.where(a >= b, a, b), np.where(a >= b, b, a)
    d = less - more
    inside = np.where(d >= _FARTHEST, d, 0.0)
    whole = (inside * _LOG2E + _ROUND) - _ROUND
    r = (inside - whole * _LN2_HIGH) - whole * _LN2_LOW
    power = ((whole.astype(np.int64) + _BIAS) << _BITS).view(np.float64)
    t = polynomial(_EXP, r) * power
    s = t / (2.0 + t)
    return np.where(d >= _FARTHEST, more + polynomial(_ATANH, s * s) * s, more)


class _Beams:
    """The prefixes of one sequence: nodes of a tree, each a label behind its parent's, of which some are kept.

    Of those that are kept: `node`, `label` and the log-probabilities of ending `in_label` or `in_blank`, likeliest
    first.
    """

    def __init__(self, width: int):
        self.width = width
        self.parents, self.labels = [NONE], [NONE]
        self.children: dict[tuple[int, int], int] = {}
        self.node, self.label = np.array([ROOT]), np.array([NONE])
        self.in_label, self.in_blank = np.full(1, -np.inf), np.zeros(1)

    @property
    def total(self) -> np.ndarray:
        return log_add_of(self.in_label, self.in_blank)

    def step(self, scores: np.ndarray) -> None:
        """scores: log-probabilities of the classes, the last being the blank."""
        blank = len(scores) - 1
        total = self.total
        grown = total[:, None] + scores[:blank]
        again = self.label >= 0  # a label after itself needs a blank between
        grown[again, self.label[again]] = self.in_blank[again] + scores[self.label[again]]
        in_label, taken = self._kept(scores, total, grown)
        grown[taken] = -np.inf
        in_blank = total + scores[blank]
        grown[self._forgotten(total, log_add_of(in_label, in_blank), grown, taken)] = -np.inf
        values = np.concatenate([log_add_of(in_label, in_blank), grown.reshape(-1)])
        order = self._best(values)
        self._keep(order, in_label, in_blank, grown.reshape(-1), blank)

    def _kept(self, scores: np.ndarray, total: np.ndarray, grown: np.ndarray) -> tuple[np.ndarray, Any]:
        """(how likely the kept prefixes end in their label now, which of `grown` are kept prefixes themselves)."""
        places = {node: i for i, node in enumerate(self.node.tolist())}
        above = np.array([places.get(self.parents[node], NONE) for node in self.node.tolist()], np.int64)
        child = np.flatnonzero(above >= 0)
        in_label = np.full(len(total), -np.inf, total.dtype)
        stays = self.label >= 0
        in_label[stays] = self.in_label[stays] + scores[self.label[stays]]
        taken = above[child], self.label[child]
        in_label[child] = log_add_of(in_label[child], grown[taken])
        return in_label, taken

    def _forgotten(self, total: np.ndarray, stays: np.ndarray, grown: np.ndarray, taken: Any) -> list[int]:
        """The places of the prefixes that are forgotten before their turn. stays: how likely each is after the step."""
        places = {node: i for i, node in enumerate(self.node.tolist())}
        after: list[dict[int, int]] = [{} for _ in places]  # of each place: labels, and the places of what they make
        for above, label in zip(*(x.tolist() for x in taken)):
            after[above][label] = places[self.children[int(self.node[above]), label]]
        best = [(value, -i, i) for i, value in enumerate(stays.tolist()) if value > -np.inf]  # of equals the last goes
        heapq.heapify(best)
        out, gone = set[int](), set[int]()
        for i, own in enumerate(total.tolist()):
            full = len(best) == self.width
            if i in gone or (full and not own > best[0][0]):
                continue
            some = np.flatnonzero(grown[i] > (best[0][0] if full else -np.inf)).tolist()
            for c in sorted({*some, *after[i]}):
                if c in after[i]:
                    gone |= {j for j in (after[i][c],) if j > i and j in out}
                    continue
                one = (float(grown[i, c]), -len(total) - i * grown.shape[1] - c, len(total))
                if len(best) < self.width:
                    heapq.heappush(best, one)
                elif one[0] > best[0][0]:
                    out.add(heapq.heapreplace(best, one)[2])
        return sorted(gone)

    def _best(self, values: np.ndarray) -> np.ndarray:
        """The places of the largest, likeliest first; impossible ones are not among them."""
        some = np.flatnonzero(values > -np.inf)
        if len(some) > self.width:
            cut = np.partition(values[some], len(some) - self.width)[len(some) - self.width]
            some = some[values[some] >= cut]
        return some[np.argsort(-values[some], kind="stable")][: self.width]

    def _keep(self, order: np.ndarray, in_label: Any, in_blank: Any, grown: Any, classes: int) -> None:
        count = len(self.node)
        old, new = order[order < count], order[order >= count] - count
        is_old = order < count
        node, label = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        ends, blanks = np.empty(len(order), in_label.dtype), np.full(len(order), -np.inf, in_label.dtype)
        node[is_old], label[is_old] = self.node[old], self.label[old]
        ends[is_old], blanks[is_old] = in_label[old], in_blank[old]
        above, label[~is_old] = np.divmod(new, classes) if classes else (new, new)
        node[~is_old] = [self._child(p, c) for p, c in zip(self.node[above].tolist(), label[~is_old].tolist())]
        ends[~is_old] = grown[new]
        self.node, self.label, self.in_label, self.in_blank = node, label, ends, blanks

    def _child(self, parent: int, label: int) -> int:
        found = self.children.setdefault((parent, label), len(self.parents))
        if found == len(self.parents):
            self.parents.append(parent)
            self.labels.append(label)
        return found


@search.otherwise
def _(scores: Any, tree: Any, kept: Any, logs: Any, taken: Any) -> int:
    beams = _Beams(kept.shape[1])
    for row in scores:
        beams.step(row)
    count = len(beams.node)
    tree[PARENT, : len(beams.parents)], tree[LABEL, : len(beams.labels)] = beams.parents, beams.labels
    kept[NODE, :count], kept[OWN, :count] = beams.node, beams.label
    logs[IN_LABEL, :count], logs[IN_BLANK, :count], logs[TOTAL, :count] = beams.in_label, beams.in_blank, beams.total
    return count
