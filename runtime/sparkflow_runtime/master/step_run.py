"""StepRun: one step over several tasks, as its master sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, RLock
from typing import Any

from sparkflow_runtime.master.compiled import Compiled, OwnStep, OwnTask, Part
from sparkflow_runtime.wire.bundles import Bundle
from sparkflow_runtime.wire.errors import AbortedError, DeadlineExceededError, OpError
from sparkflow_runtime.wire.patience import Patience
from sparkflow_runtime.wire.waiting import left_of

_ABORT_GRACE_S, _REASONS_S = 5.0, 1.0  # how long tasks may take to say that they stopped, and for what they waited
_TAKE_S = 0.05  # for so long the caller's thread takes answers itself: in a longer step that would save nothing


class StepRun:
    """One step over several tasks: start the others, run the own part here, wait for all, abort all at the first
    error."""

    def __init__(self, own: OwnTask, compiled: Compiled, feeds: list[Any], step_id: int, halted: Any = None):
        self._own, self._compiled, self._feeds, self.step_id = own, compiled, feeds, step_id
        self._halted = halted  # how far the own part came already
        self._lock = RLock()
        self._wake = Condition(self._lock)  # Ctrl-C may come within its own `with`, and leave the lock taken
        self._results: list[tuple[Part, list[Any]]] = []
        self._waiting = {p.name for p in compiled.others}
        self._at_end: list[Callable[[], None]] = []
        self._is_over = False
        self._error: OpError | None = None
        self._own_step: OwnStep | None = None
        self._deadline: float | None = None
        self._late = False  # it was aborted because its time was over
        self._reasons: dict[str, str] = {}  # task -> for what it waited then
        self._answers: list[tuple[str, Callable[[float], None]]] = []  # task -> how to take its answer

    def run(self, timeout_s: float | None) -> list[tuple[Part, list[Any]]]:
        deadline = self._deadline = None if timeout_s is None else time.monotonic() + left_of(timeout_s)
        own, task = self._compiled.own, self._own
        if own is not None:
            self._begin_own(own)
        try:
            for part in self._held_back():
                self._start(part)
            if own is not None and self._own_step is not None:
                self._run_own(own, timeout_s)
            self._await_others(deadline, timeout_s)
        except BaseException as error:  # Ctrl-C, wherever it comes: what still waits must take nothing any more
            interrupted = AbortedError(f"Interrupted by {type(error).__name__}")
            try:
                self.abort(interrupted)
            finally:  # it may come again
                if self._own_step is not None:
                    self._own_step.cancel(interrupted)
            if isinstance(error, RuntimeError) and isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None  # it came in a wait that had just given up its condition's lock
            raise
        finally:
            task.rendezvous.end(self.step_id)
            self._end()
            if self._own_step is not None:
                self._own_step.whole = None  # which holds this
        if self._error is not None:
            raise self._with_reasons(self._error)
        return self._results

    def _begin_own(self, own: Part) -> None:
        begun = self._own.begin(own.handle, self.step_id, [self._feeds[i] for i in own.feeds], self._halted)
        with self._lock:
            self._own_step, error = begun, self._error
        begun.whole = self.waits
        if error is not None:  # aborted meanwhile, when there was no step to cancel
            begun.cancel(error)

    def _held_back(self) -> list[Part]:
        """The parts that begin now. The others begin with the first bundles that the own part has for them: one message
        less, and what they send back at once goes in one, too."""
        others, compiled = self._compiled.others, self._compiled
        if self._own_step is None or not compiled.opening:
            return others
        began_s = time.perf_counter()

        def opening(part: Part) -> Callable[[Sequence[Bundle]], None]:
            def start(bundles: Sequence[Bundle]) -> None:
                compiled.opening_took(time.perf_counter() - began_s)
                self._start(part, bundles)

            return start

        self._own_step.opens({p.name: opening(p) for p in others if p.name in compiled.opening})
        return [p for p in others if p.name not in compiled.opening]

    def _start(self, part: Part, bundles: Sequence[Bundle] = ()) -> None:
        try:
            done = self._done_of(part)
            feeds = [self._feeds[i] for i in part.feeds]
            take = part.task.start(part.handle, self.step_id, feeds, done, bundles, self._deadline)  # type: ignore[union-attr]
            if take is not None and self._own_step is None:
                self._answers.append((part.name, take))
        except OpError as error:
            done(error, None)

    def _done_of(self, part: Part) -> Callable[..., None]:
        def done(error: OpError | None, values: list[Any] | None) -> None:
            with self._lock:
                self._waiting.discard(part.name)
                if error is None:
                    self._results.append((part, values or []))
                elif self._late and isinstance(error, DeadlineExceededError):
                    self._reasons[part.name] = error.message
                to_tell = [] if error is None else self._failed(error)  # before anybody sees that none is waited for
                if error is not None or not self._waiting:
                    self._wake.notify_all()
                goes_on = bool(self._waiting) and self._error is None
            self._tell(to_tell)
            if goes_on and part.task is not None:
                forget = part.task.done_with(self.step_id, self.abort)
                with self._lock:
                    self._at_end.append(forget)
                    ended = self._is_over
                if ended:
                    self._end()

        return done

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            calls, self._at_end = self._at_end, []
        for call in calls:
            call()

    def _run_own(self, own: Part, timeout_s: float | None) -> None:
        try:
            self._results.append((own, self._own_step.run(timeout_s)))  # type: ignore[union-attr]
        except OpError as error:
            self.abort(error)

    def abort(self, error: OpError) -> None:
        """The first error wins; every other part is told to stop."""
        with self._lock:
            to_tell = self._failed(error)
            self._wake.notify_all()
        self._tell(to_tell)

    def _failed(self, error: OpError) -> list[Callable[[], None]]:
        """The calls that tell the other parts to stop; none where the step has failed before. The caller holds the
        lock."""
        if self._error is not None:
            return []
        self._error = error
        self._late = isinstance(error, DeadlineExceededError)
        kind = DeadlineExceededError if self._late else AbortedError
        told, own_step = kind(f"Step {self.step_id} was aborted: {error.message}"), self._own_step
        waiting = [p.task for p in self._compiled.others if p.name in self._waiting]
        calls: list[Callable[[], None]] = [partial(t.abort, self.step_id, told) for t in waiting if t is not None]
        return calls if own_step is None else [partial(own_step.cancel, error), *calls]

    @staticmethod
    def _tell(calls: Sequence[Callable[[], None]]) -> None:
        for call in calls:
            call()

    def _take_answers(self, deadline: float | None) -> bool:
        """The quick ones, by this thread; whether nothing is waited for any more."""
        until = time.monotonic() + _TAKE_S
        for name, take in self._answers:
            if name in self._waiting and self._error is None:
                take(until if deadline is None else min(until, deadline))
        with self._lock:
            return not self._waiting

    def _await_others(self, deadline: float | None, timeout_s: float | None) -> None:
        if self._take_answers(deadline):
            return
        patience = Patience()
        while True:
            with self._lock:
                left = None if deadline is None else deadline - time.monotonic()
                missing = sorted(self._waiting)
                if not missing or self._error is not None or (left is not None and left <= 0):
                    break
                self._wake.wait(patience.at_most(left))
            if patience.is_over:
                patience.tell(self.step_id, self.waits)
        if missing and self._error is None:
            self.abort(
                DeadlineExceededError(f"Step {self.step_id}: no answer from {', '.join(missing)} in {timeout_s:g} s")
            )
        with self._lock:
            self._wake.wait_for(lambda: not self._waiting, _REASONS_S if self._late else _ABORT_GRACE_S)

    def waits(self) -> str:
        """Who waits for whom; nothing where all wait only for room in queues."""
        with self._lock:
            asked = [p for p in self._compiled.others if p.name in self._waiting]
            own = self._own_step if all(part.task is not None for part, _ in self._results) else None
        found: dict[str, str] = {}

        def hear(name: str) -> Callable[[str], None]:
            def said(text: str) -> None:
                with self._lock:
                    found[name] = text
                    self._wake.notify_all()

            return said

        for part in asked:
            part.task.waits(self.step_id, hear(part.name))  # type: ignore[union-attr]
        with self._lock:
            self._wake.wait_for(lambda: len(found) == len(asked) or self._error is not None, _REASONS_S)
        said = {p.name: found.get(p.name, "It does not answer: it is stopped, or gone") for p in asked}
        if asked and not any(said.values()):
            return ""
        told = said if own is None else {self._own.name: own.waits()} | said
        return ". ".join(f"{name}: {text}" for name, text in told.items() if text)

    def _with_reasons(self, error: OpError) -> OpError:
        """The error; where the time was over, it says for what each task waited that was not done."""
        if self._late:
            silent = [f"{name} does not answer: it is stopped, or gone" for name in sorted(self._waiting)]
            told = [f"{name}: {reason}" for name, reason in sorted(self._reasons.items())]
            error.message = ". ".join([error.message, *told, *silent])
        return error
