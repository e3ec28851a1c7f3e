"""Which calls of a segment run beside which: lists of lines, one a thread, from the times that the calls take.

Calls with effects (updates, random numbers, queues) are done alone, in their order; the pure calls between two of them
are a region. A region that is worth it is dealt out to lanes by list scheduling: the call with the longest way to the
end goes first, to the lane where it ends soonest. Source: Topcuoglu, Hariri and Wu 2002 (HEFT).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkflow_runtime.worker.codegen import Call

Lanes = list[list[int]]  # lines in order, a list for each lane

HANDOVER_S = 40e-6  # from one thread to another that waits for it
_WORTH_S = 4 * HANDOVER_S  # a region, or what it wins, below that stays in one thread
_LIGHT_S = 20e-6  # a call that follows its heaviest input, or goes where it is needed
_GAIN = 0.9  # of the time in one thread: above that, lanes are not worth it


@dataclass(frozen=True)
class Cost:
    """What a call takes. is_spread: it works in several threads itself, so nothing is won by running others beside."""

    seconds: float
    is_spread: bool = False


def inputs_of(call: Call) -> list[int]:
    """The lines whose values a call reads."""
    return [arg[1] for arg in call.args if arg[0].lstrip("&") in ("local", "item")]


def schedule(calls: Sequence[Call], costs: Sequence[Cost], lanes: int) -> list[Lanes]:
    """The regions in order, each as its lanes; one of a single lane runs in the step's own thread."""
    found: list[Lanes] = []
    for region in _regions(calls):
        dealt = _deal(calls, costs, region, lanes) if calls[region[0]].is_pure else [region]
        if len(dealt) == 1 and found and len(found[-1]) == 1:
            found[-1][0].extend(region)
        else:
            found.append(dealt)
    return found


def _regions(calls: Sequence[Call]) -> list[list[int]]:
    """Runs of lines that are all pure or all not. What only names a variable stands before them."""
    first = [i for i, call in enumerate(calls) if call.is_name]
    found: list[list[int]] = [first] if first else []
    pure = None
    for i, call in enumerate(calls):
        if call.is_name:
            continue
        if call.is_pure is not pure:
            found.append([])
            pure = call.is_pure
        found[-1].append(i)
    return found


def _deal(calls: Sequence[Call], costs: Sequence[Cost], region: list[int], lanes: int) -> Lanes:
    total = sum(costs[i].seconds for i in region)
    if total < _WORTH_S:
        return [region]
    dealer = _Dealer(calls, costs, region, lanes)
    dealt = dealer.deal()
    makespan = max(dealer.free) + 2 * HANDOVER_S
    return dealt if len(dealt) > 1 and makespan < min(_GAIN * total, total - _WORTH_S) else [region]


class _Dealer:
    def __init__(self, calls: Sequence[Call], costs: Sequence[Cost], region: list[int], lanes: int):
        inside = set(region)
        self.costs, self.region = costs, region
        self.inputs = {i: [j for j in inputs_of(calls[i]) if j in inside] for i in region}
        self.free = [0.0] * lanes
        self.lanes: Lanes = [[] for _ in range(lanes)]
        self.lane: dict[int, int] = {}
        self.end: dict[int, float] = {}

    def deal(self) -> Lanes:
        way = self._ways()
        for line in sorted(self.region, key=lambda i: (-way[i], i)):
            if self.inputs[line] or not self._is_light(line):
                self._place(line, self._best(line))
        for line in self.region:
            if line not in self.lane:  # light, and nothing in the region reads it
                self._put(line, 0, self.free[0])
        return [lane for lane in self.lanes if lane]

    def _ways(self) -> dict[int, float]:
        """Line -> the time from its start to the end of all that follows from it."""
        after = dict.fromkeys(self.region, 0.0)
        way: dict[int, float] = {}
        for line in reversed(self.region):
            way[line] = self.costs[line].seconds + after[line]
            for j in self.inputs[line]:
                after[j] = max(after[j], way[line])
        return way

    def _is_light(self, line: int) -> bool:
        return self.costs[line].seconds < _LIGHT_S

    def _start(self, line: int, lane: int) -> float:
        """The soonest it can begin there."""
        ready = (self.end[j] + HANDOVER_S * (self.lane[j] != lane) for j in self.inputs[line] if j in self.end)
        return max([self.free[lane], *ready])

    def _best(self, line: int) -> int:
        placed = [j for j in self.inputs[line] if j in self.lane]
        if self.costs[line].is_spread:
            return 0
        if self._is_light(line) and placed:
            return self.lane[max(placed, key=lambda j: self.end[j])]
        return min(range(len(self.free)), key=lambda lane: self._start(line, lane))

    def _place(self, line: int, lane: int) -> None:
        for j in self.inputs[line]:
            if j not in self.lane:  # light and of no input: where it is first needed
                self._put(j, lane, self.free[lane])
        start = self._start(line, lane)
        if self.costs[line].is_spread:
            start = max([start, *self.free])
            self.free = [start + self.costs[line].seconds] * len(self.free)
        self._put(line, lane, start)

    def _put(self, line: int, lane: int, start: float) -> None:
        self.lanes[lane].append(line)
        self.lane[line] = lane
        self.end[line] = self.free[lane] = start + self.costs[line].seconds
