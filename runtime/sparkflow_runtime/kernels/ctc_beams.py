"""CTC's search over prefixes: of each step the likeliest `beam_width` label sequences are kept, with the probability
that all alignments of each have together."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.ctc import lengths_of, log_softmax, sparse_rows
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

_ROOT, _NONE = 0, -1


class _Beams:
    """The prefixes of one sequence: nodes of a tree, each a label behind its parent's, of which some are kept.

    Of those that are kept: `node`, `label` and the log-probabilities of ending `in_label` or `in_blank`, likeliest
    first.
    """

    def __init__(self, width: int, dtype: Any):
        self.width = width
        self.parents, self.labels = [_NONE], [_NONE]
        self.children: dict[tuple[int, int], int] = {}
        self.node, self.label = np.array([_ROOT]), np.array([_NONE])
        self.in_label, self.in_blank = np.full(1, -np.inf, dtype), np.zeros(1, dtype)

    @property
    def total(self) -> np.ndarray:
        return np.logaddexp(self.in_label, self.in_blank)

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
        values = np.concatenate([np.logaddexp(in_label, in_blank), grown.reshape(-1)])
        order = self._best(values)
        self._keep(order, in_label, in_blank, grown.reshape(-1), blank)

    def _kept(self, scores: np.ndarray, total: np.ndarray, grown: np.ndarray) -> tuple[np.ndarray, Any]:
        """(how likely the kept prefixes end in their label now, which of `grown` are kept prefixes themselves)."""
        places = {node: i for i, node in enumerate(self.node.tolist())}
        above = np.array([places.get(self.parents[node], _NONE) for node in self.node.tolist()])
        child = np.flatnonzero(above >= 0)
        in_label = np.full(len(total), -np.inf, total.dtype)
        stays = self.label >= 0
        in_label[stays] = self.in_label[stays] + scores[self.label[stays]]
        taken = above[child], self.label[child]
        in_label[child] = np.logaddexp(in_label[child], grown[taken])
        return in_label, taken

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

    def path(self, node: int, merge: bool) -> list[int]:
        """The labels of a prefix; merge: of equal ones in a row one stays."""
        found: list[int] = []
        while node != _ROOT:
            if not merge or not found or found[-1] != self.labels[node]:
                found.append(self.labels[node])
            node = self.parents[node]
        return found[::-1]


@kernel("CTCBeamSearchDecoder", multi=True)
def _search(
    xp: Any, inputs: Any, sequence_length: Any, *, beam_width: int, top_paths: int, merge_repeated: bool = True
) -> Any:
    times = lengths_of("CTCBeamSearchDecoder", inputs, sequence_length)
    if not 1 <= top_paths <= beam_width:
        raise InvalidArgumentError(
            f"CTCBeamSearchDecoder: top_paths must be in [1, beam_width], got {top_paths} and {beam_width}"
        )
    logs = host(log_softmax(xp, inputs)) if inputs.size else host(inputs)
    found: list[list[list[int]]] = [[] for _ in range(top_paths)]
    score = np.empty((len(times), top_paths), inputs.dtype)
    for b, time in enumerate(times.tolist()):
        beams = _Beams(beam_width, inputs.dtype)
        for scores in logs[:time, b]:
            beams.step(scores)
        if len(beams.node) < top_paths:
            raise InvalidArgumentError(
                f"CTCBeamSearchDecoder: sequence {b} has {len(beams.node)} paths, less than the {top_paths} asked for"
            )
        order = np.argsort(-beams.total, kind="stable")[:top_paths]
        score[b] = beams.total[order]
        for path, node in zip(found, beams.node[order].tolist()):
            path.append(beams.path(node, merge_repeated))
    parts = zip(*(sparse_rows(rows) for rows in found))
    return (*(xp.asarray(part) for kind in parts for part in kind), xp.asarray(score))
