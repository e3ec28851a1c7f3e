"""Segments that find out by themselves whether code pays for them, and threads.

What runs once is interpreted (worker/interpreted.py); code is generated at the second run. A segment then runs straight
until it is known to be long (its quickest run of a few takes a millisecond); then its calls are timed, a schedule in
lanes is made from the times, and where that promises something, both forms run by turns. The quicker one stays. What it
costs a short segment is two readings of the clock in its first runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from time import perf_counter, process_time
from typing import Any

from sparkflow_runtime.worker.codegen import Call, Segment, compile_segment, new_filename
from sparkflow_runtime.worker.interpreted import interpret
from sparkflow_runtime.worker.lane_code import compile_lanes
from sparkflow_runtime.worker.lane_schedule import Cost, schedule
from sparkflow_runtime.worker.lane_threads import meet
from sparkflow_runtime.worker.strands import Strand, dealt

LONG_S = 1e-3
_WATCHED, _TIMED, _TRIED = 8, 3, 6  # runs; of the trial, for each form
_BETTER = 0.93  # lanes stay when they take less than that of the straight time
_SPREAD = 1.3  # processor time by wall time of a call that uses several threads

Run = Callable[[list[Any]], None]


def adapting(calls: Sequence[Call], lanes: Callable[..., int], apart: Sequence[Strand] = ()) -> Segment:
    """The segment of these calls. lanes: asked when it turns out to be long, how many threads it may use. apart: of one
    that fills variables, what may be done side by side when it first runs (strands.py)."""
    return _Fresh(calls, lanes, apart).segment


class _Fresh:
    """A segment that has not run twice."""

    def __init__(self, calls: Sequence[Call], lanes: Callable[..., int], apart: Sequence[Strand]):
        self.calls, self.lanes, self.apart = calls, lanes, apart
        self.segment = Segment(self.run, new_filename(), {})
        self.lock, self.has_run = Lock(), False

    def run(self, values: list[Any]) -> None:
        with self.lock:
            is_first, self.has_run, calls = not self.has_run, True, self.calls
            if not is_first and calls:
                self._generate()
        if is_first:
            self._interpret(calls, values)
        else:
            self.segment.run(values)

    def _interpret(self, calls: Sequence[Call], values: list[Any]) -> None:
        lanes = dealt(self.apart, self.lanes(True)) if self.apart else []
        forms = [partial(self._run_lines, calls, lines) for lines in (None, *lanes)]
        if len(lanes) > 1:
            meet(values, [], forms[0], forms[1:], ())
        else:
            forms[0](values)

    def _run_lines(self, calls: Sequence[Call], lines: Sequence[int] | None, values: list[Any], *_: object) -> None:
        interpret(self.segment, calls, values, lines)

    def _generate(self) -> None:
        code = compile_segment(self.calls, self.segment.filename)
        self.segment.nodes.update(code.nodes)
        several = sum(call.is_pure for call in self.calls) > 1
        self.segment.run = _Watch(self.calls, self.segment, code.run, self.lanes).run if several else code.run
        self.calls = self.apart = ()


class _Watch:
    def __init__(self, calls: Sequence[Call], segment: Segment, straight: Run, lanes: Callable[..., int]):
        self.calls, self.segment, self.straight, self.lanes = calls, segment, straight, lanes
        self.state: Run = self._watch
        self.lock = Lock()
        self.runs, self.best = 0, float("inf")

    def run(self, values: list[Any]) -> None:
        """A run that learns; one beside it, in another thread, is a straight one."""
        if not self.lock.acquire(blocking=False):
            self.straight(values)
            return
        try:
            self.state(values)
        finally:
            self.lock.release()

    def _settle(self, run: Run) -> None:
        self.segment.run = run
        self.state = run
        self.calls = ()  # what was made for the timing can go

    def _watch(self, values: list[Any]) -> None:
        self.best = min(self.best, _seconds(self.straight, values))
        self.runs += 1
        if self.runs == _WATCHED:
            self._begin_timing()

    def _begin_timing(self) -> None:
        if self.best < LONG_S or self.lanes() < 2:
            self._settle(self.straight)
            return
        self.timers = [_Timer(call.function) for call in self.calls]
        timed = [replace(call, function=t.form) for call, t in zip(self.calls, self.timers)]
        self.timed, self.runs = compile_segment(timed, self.segment.filename), 0
        self.state = self._time

    def _time(self, values: list[Any]) -> None:
        self.timed.run(values)
        self.runs += 1
        if self.runs == _TIMED:
            self._begin_trial()

    def _begin_trial(self) -> None:
        regions = schedule(self.calls, [t.cost() for t in self.timers], self.lanes())
        if all(len(lanes) == 1 for lanes in regions):
            self._settle(self.straight)
            return
        self.forms = [self.straight, compile_lanes(self.calls, regions, self.segment)]
        self.times = [float("inf")] * 2
        self.runs, self.state = 0, self._try

    def _try(self, values: list[Any]) -> None:
        form = self.runs % 2
        self.times[form] = min(self.times[form], _seconds(self.forms[form], values))
        self.runs += 1
        if self.runs == 2 * _TRIED:
            self._settle(self.forms[self.times[1] < _BETTER * self.times[0]])


def _seconds(run: Run, values: list[Any]) -> float:
    start = perf_counter()
    run(values)
    return perf_counter() - start


class _Timer:
    """A call's function, timed. An expression of numbers counts for nothing."""

    def __init__(self, function: Callable[..., Any] | str):
        self.function = function
        self.seconds, self.busy = float("inf"), 0.0

    @property
    def form(self) -> Callable[..., Any] | str:
        return self.function if isinstance(self.function, str) else self._call

    def _call(self, *inputs: Any, **options: Any) -> Any:
        start, busy = perf_counter(), process_time()
        out = self.function(*inputs, **options)  # type: ignore[operator]
        seconds = perf_counter() - start
        if seconds < self.seconds:
            self.seconds, self.busy = seconds, process_time() - busy
        return out

    def cost(self) -> Cost:
        if isinstance(self.function, str) or self.seconds == float("inf"):
            return Cost(0.0)
        return Cost(self.seconds, self.seconds > LONG_S / 10 and self.busy > _SPREAD * self.seconds)
