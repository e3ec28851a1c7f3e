"""One run of a plan: values, pending counts, and who runs what becomes ready.

A step has one runner at a time. A client's step is run by the thread that called `Session.run`, which sleeps while all
units wait; a step that another task asked for is run by whichever thread made a unit ready (usually the one that read
the message), so a parameter server needs no thread of its own and no hand-over. Where it takes long, or might (it
loops), it gets one: until the reader of messages reads on, nothing can end the step, and nothing else that the same
peer asks for can begin.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, RLock, Timer
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compression import narrowed
from sparkflow_runtime.wire.bundles import Bundle
from sparkflow_runtime.wire.control_flow import DEAD
from sparkflow_runtime.wire.errors import (
    DeadlineExceededError,
    InternalError,
    OpError,
    ResourceExhaustedError,
)
from sparkflow_runtime.wire.patience import Patience
from sparkflow_runtime.wire.waiting import left_of
from sparkflow_runtime.worker.cancels import call_all
from sparkflow_runtime.worker.locate import bare, failing_node, locate
from sparkflow_runtime.worker.straight import Halted, free
from sparkflow_runtime.worker.units import RECEIVE, SEGMENT, SEND, WAIT, Plan, Unit, completes, enter, got, holds, leave

Done = Callable[["OpError | None", "list[Any] | None"], None]
# (task, step id, bundles, the iteration of each loop that they are in, the step's deadline)
Sender = Callable[[str, int, Sequence[Bundle], tuple[int, ...], "float | None"], None]
Opening = Callable[[Sequence[Bundle]], None]
Elsewhere = Callable[[Callable[[], None]], None]  # has a call made by a thread that does nothing else meanwhile

_log = logging.getLogger(__name__)
_DESCRIBED = 4  # operations of a step that wait, at most
NOTHING = np.empty(0, np.uint8)  # travels where a value is dead


class Step:
    """Runs `plan` once. `finish(error, fetched)` is called exactly once, when nothing of the step runs any more."""

    def __init__(self, plan: Plan, step_id: int, feeds: list[Any], send: Sender | None, finish: Done | None = None):
        self.plan, self.step_id, self._send, self._finish = plan, step_id, send, finish
        self.values: list[Any] = [None] * plan.num_slots
        for slot, value in zip(plan.feeds, feeds, strict=True):
            if slot is not None:
                self.values[slot] = value
        self._stop: list[OpError] = []
        if plan.stop is not None:
            self.values[plan.stop] = self._stop
        self._pending = [u.pending for u in plan.units]
        self._left = len(plan.units)
        self._ready = deque(i for i, u in enumerate(plan.units) if u.pending == 0 and u.kind != RECEIVE)
        self._lock = RLock()
        self._wake = Condition(self._lock)  # of which `with` takes three calls more
        self._running = False
        self._owned = finish is None
        self._reported = False
        self._arrived: set[int] = set()
        self._waiting: dict[int, str] = {}
        self._cancels: dict[int, Callable[[OpError], None]] = {}
        self._parked: dict[int, Callable[[], str]] = {}  # token -> what it waits for
        self.whole: Callable[[], str] | None = None  # who waits for whom in all tasks of the step
        self.asker = ""  # the task that is told what is fetched, and with it
        self.parting: list[Bundle] = []  # the last bundles for it, where nothing comes after them: its caller's list
        self._openings: dict[str, Opening] = {}
        self.collectives, self.begun = list[Any](), 0  # as their kernels note them before they begin; and then
        self._next_token = 0
        self.elsewhere: Elsewhere | None = None  # where its units run, if not in the threads that make them ready
        self._longest_s = 0.0
        self._deadline: float | None = None
        self.error: OpError | None = None

    def resume(self, halted: Halted) -> None:
        """Go on from there, before anything has run."""
        self.values = halted.values
        self._ready.extend([ready for index in halted.done for ready in self._completed(index)])
        self._ready = deque(index for index in self._ready if index not in halted.done)

    def opens(self, openings: Mapping[str, Opening]) -> None:
        """Tasks whose share of the step begins with the first bundles that they get from this one, which go into these
        functions instead; with none before this step waits or ends. Before it runs."""
        self._openings.update(openings)

    def _open(self) -> None:
        while self._openings:
            self._openings.popitem()[1](())

    # ------------------------------------------------------------------ running

    def run(self, timeout_s: float | None = None) -> list[Any]:
        """Run to the end in this thread. Raises the step's first error; DeadlineExceededError says what did not
        come."""
        try:
            if timeout_s is None or self.plan.stop is None:
                return self._run(timeout_s)
            timer = Timer(left_of(timeout_s), lambda: self.cancel(self._late(timeout_s)))
            timer.daemon = True  # an interrupted program is to end before that
            try:
                timer.start()
                return self._run(timeout_s)
            finally:
                timer.cancel()
        finally:
            self._open()

    def _late(self, timeout_s: float) -> DeadlineExceededError:
        what = "It is still in a loop" if self._running and not self._waiting else self.waits() or self.describe()
        return DeadlineExceededError(f"Step {self.step_id}: not done in {timeout_s:g} s. {what}")

    def _run(self, timeout_s: float | None) -> list[Any]:
        deadline = self._deadline = None if timeout_s is None else time.monotonic() + left_of(timeout_s)
        patience, overdue = Patience(), None
        while True:
            self._drain()
            self._open()
            with self._lock:
                if self._over():
                    break
                if self._ready:
                    continue
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    overdue = self._late(timeout_s or 0.0)
                else:
                    self._wake.wait(patience.at_most(left))
            if overdue is not None:
                self.cancel(overdue)
            elif patience.is_over:
                patience.tell(self.step_id, self.whole or self.waits)
        if self.error is not None:
            raise self.error
        return self.plan.collect(self.values)

    def start(self) -> None:
        """Run as far as possible in this thread; later units run in the threads that make them ready."""
        self._advance()

    def _over(self) -> bool:
        return not self._running and (self._left == 0 or (self.error is not None and not self._waiting))

    def _advance(self) -> None:
        """Have what is ready run, or what is over reported."""
        with self._lock:
            if self._owned:
                self._wake.notify()
                return
            if self._running:
                return
        if self.elsewhere is not None:
            try:
                self.elsewhere(self._work)
                return
            except ResourceExhaustedError as error:
                _log.warning("Step %d runs where its messages are read: %s", self.step_id, error)
        self._work()

    def _work(self) -> None:
        begun_s = time.perf_counter()
        self._drain()
        self._longest_s = max(self._longest_s, time.perf_counter() - begun_s)
        self._report()

    def _drain(self) -> None:
        entered: list[Any] = []
        try:
            while True:
                with self._lock:
                    if self._running or not self._ready or self.error is not None:
                        if self.error is not None:
                            self._ready.clear()
                        return
                    index = self._ready.popleft()
                    self._running = True
                around = self._around(index)
                if len(around) > len(entered):
                    enter(around, entered)
                self._run_unit(index)
        finally:
            try:
                leave(entered)
            finally:
                leave(entered)  # where Ctrl-C came meanwhile

    def _around(self, index: int) -> tuple[Callable[[], Any], ...]:
        return self.plan.units[index].surroundings

    def _run_unit(self, index: int) -> None:
        unit = self.plan.units[index]
        done, indices = True, [index]
        try:
            if unit.kind == SEGMENT:
                unit.segment.run(self.values)  # type: ignore[union-attr]
            elif unit.kind == SEND:
                indices += self._ready_too(unit.peer)
                self._send_bundles([self.plan.units[i] for i in indices])
            elif unit.kind == WAIT:
                done = completes(unit, self.values)
                if not done:
                    self._begin_wait(index, unit)
        except BaseException as error:
            self._fail(self._located(error, unit))
            if not isinstance(error, Exception):
                self._stop_running((), False)
                raise
            done = False
        self._stop_running(indices, done)

    def _ready_too(self, peer: str) -> list[int]:
        """The other bundles that may leave for a task now: they go in the same message."""
        units = self.plan.units
        with self._lock:
            found = [i for i in self._ready if units[i].kind == SEND and units[i].peer == peer]
            for index in found:
                self._ready.remove(index)
        return found

    def _send_bundles(self, units: Sequence[Unit]) -> None:
        last = units[0].peer == self.asker and self._left == len(units)
        self._push(units, [self._outgoing(unit) for unit in units], last=last)

    def _push(
        self, units: Sequence[Unit], data: Sequence[list[Any]], iterations: tuple[int, ...] = (), last: bool = False
    ) -> None:
        """Send bundles, all to one task. last: with what it is told at the end, which is now."""
        recorder, start_ns, peer = self.plan.recorder, time.perf_counter_ns(), units[0].peer
        data = [narrowed(tensors, u.carried) if u.carried else tensors for u, tensors in zip(units, data)]
        bundles = [(u.bundle, tensors) for u, tensors in zip(units, data)]
        opening = self._openings.pop(peer, None)
        if last:
            self.parting += bundles
        elif opening is not None and not iterations:
            opening(bundles)
        else:
            if opening is not None:
                opening(())
            self._send(peer, self.step_id, bundles, iterations, self._deadline)  # type: ignore[misc]
        if recorder is not None:
            for number, tensors in bundles:
                recorder.transfer("_Send", number, peer, start_ns, tensors)

    def _outgoing(self, unit: Unit) -> list[Any]:
        if unit.members is None:
            return [got(g, self.values) for g in unit.getters]
        live = np.array([holds(tests, self.values) for tests in unit.members], np.uint8)
        values = self.values
        tensors = [NOTHING if g[0] is not None and values[g[0]] is DEAD else got(g, values) for g in unit.getters]
        return [live, *tensors]

    def _stop_running(self, indices: Sequence[int], done: bool) -> None:
        with self._lock:
            if done:
                for index in indices:
                    self._ready.extend(self._completed(index))
            self._running = False

    def _completed(self, index: int) -> list[int]:
        """Count a unit as done; the units that may run now. The caller holds the lock."""
        self._left -= 1
        free(self.values, self.plan.units[index])
        ready = []
        for successor in self.plan.units[index].successors:
            self._pending[successor] -= 1
            if self._pending[successor] == 0:
                ready.append(successor)
        return ready

    # ------------------------------------------------------------------ waiting

    def _begin_wait(self, index: int, unit: Unit) -> None:
        inputs = [got(g, self.values) for g in unit.getters]
        with self._lock:
            self._waiting[index] = unit.label

        def done(error: OpError | None, outputs: Any = ()) -> None:
            self._end_wait(index, unit, error, outputs)

        try:
            unit.function(self, done, *inputs)  # type: ignore[misc]
        except Exception as error:
            done(self._located(error, unit))

    def _end_wait(self, index: int, unit: Unit, error: OpError | None, outputs: Any) -> None:
        if error is not None:
            self._fail(self._located(error, unit))
        with self._lock:
            if self._waiting.pop(index, None) is None and error is None:
                return
            if error is None:
                unit.store(outputs, self.values)
                self._ready.extend(self._completed(index))
        self._advance()

    def receive(self, bundle: int, tensors: list[Any], iterations: tuple[int, ...] = ()) -> None:
        """A bundle has arrived. A second one of the same step is an error of the sender and fails the step."""
        index = self.plan.bundles.get(bundle)
        if index is not None:
            self._record_arrival(self.plan.units[index], tensors)
        with self._lock:
            expected = index is not None and index not in self._arrived and not iterations
            found = self.plan.units[index].unpack(tensors) if expected else None  # type: ignore[index]
            if found is not None:
                self._arrived.add(index)  # type: ignore[arg-type]
                for slot, value in found:
                    if slot is not None:
                        self.values[slot] = value
                ready = self._completed(index)  # type: ignore[arg-type]
                self._ready.extend(ready)  # with the arrival: who sees that all has come sees what may run for it
        if found is None:
            self._refuse(bundle, tensors, iterations)
        elif ready or not self._left:  # else there is nothing to wake anybody for
            self._advance()

    def _record_arrival(self, unit: Unit, tensors: list[Any]) -> None:
        if self.plan.recorder is not None:
            self.plan.recorder.transfer("_Recv", unit.bundle, unit.peer, time.perf_counter_ns(), tensors)

    def _refuse(self, bundle: int, tensors: list[Any], iterations: tuple[int, ...]) -> None:
        at = f", iteration {'/'.join(map(str, iterations))}," if iterations else ""
        self.cancel(
            InternalError(f"Step {self.step_id}: bundle {bundle}{at} of {len(tensors)} tensors is not expected here")
        )

    def on_cancel(self, callback: Callable[[OpError], None], describe: Callable[[], str] | None = None) -> int:
        """Have `callback(error)` called when the step is cancelled (now, if it already is). Returns a token for
        off_cancel. describe: says meanwhile what is waited for."""
        with self._lock:
            self._next_token += 1
            if self.error is None:
                self._cancels[self._next_token] = callback
                if describe is not None:
                    self._parked[self._next_token] = describe
                return self._next_token
        callback(self.error)
        return 0

    def off_cancel(self, token: int) -> None:
        with self._lock:
            self._cancels.pop(token, None)
            self._parked.pop(token, None)

    def cancel(self, error: OpError) -> None:
        """End the step with `error` unless it has ended: parked operations are withdrawn, nothing new starts."""
        self._fail(error)
        self._advance()

    def _fail(self, error: OpError) -> None:
        with self._lock:
            if self.error is None:
                self.error = error
                self._stop.append(error)
        call_all(self._cancels, self._lock, self.error)  # also what is left of an earlier time, if Ctrl-C came

    def _report(self) -> None:
        with self._lock:
            if self._owned or self._reported or not self._over():
                return
            self._reported = True
            finish, self._finish = self._finish, None  # which holds the step
        self.plan.took(self._longest_s)
        error, fetched = self.error, None
        if error is None:
            try:
                fetched = self.plan.collect(self.values, True)
            except Exception as raised:  # a fetch that is dead
                error = locate(raised, None)
        finish(bare(error), fetched)  # type: ignore[misc]

    def describe(self) -> str:
        """Who has not spoken: the operations that wait and the tasks whose bundles have not come."""
        with self._lock:
            waits = [f"{self.plan.nodes[name].op} {name!r}" for name in self._waiting.values()]
            units = enumerate(self.plan.units)
            missing = sorted({u.peer for i, u in units if u.kind == RECEIVE and i not in self._arrived})
        parts = [f"Waiting in {', '.join(waits)}"] if waits else []
        parts += [f"nothing yet from {', '.join(missing)}"] if missing else []
        return "; ".join(parts) or "Nothing is waiting"

    def waits(self) -> str:
        """As `describe`, with what each operation waits for; nothing where that is room in a queue alone."""
        with self._lock:
            ops = [self.plan.nodes[name].op for name in self._waiting.values()]
            parked = list(self._parked.values())
        if ops and all(op.startswith("QueueEnqueue") for op in ops):
            return ""
        return ". ".join([self.describe(), *dict.fromkeys(describe() for describe in parked[:_DESCRIBED])])

    # ------------------------------------------------------------------ errors

    def _located(self, error: BaseException, unit: Unit) -> OpError:
        return locate(error, self.plan.nodes.get(failing_node(error, unit)))
