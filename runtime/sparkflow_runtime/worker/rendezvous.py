"""Rendezvous: bundles that arrive meet the steps that wait for them.

A producer never blocks: a bundle for a step that has not begun here is kept until it begins. A step that ended takes
its late bundles with it.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.wire.errors import AbortedError, DeadlineExceededError, OpError

_REMEMBERED_STEPS = 4096


class Receiver(Protocol):
    def receive(self, bundle: int, tensors: list[np.ndarray], iterations: tuple[int, ...] = ()) -> None: ...

    def cancel(self, error: OpError) -> None: ...

    def describe(self) -> str: ...

    def waits(self) -> str: ...


class Rendezvous:
    """Step id -> the step, or what came before it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._steps: dict[int, Any] = {}
        self._early: OrderedDict[int, list[tuple[int, list[np.ndarray], tuple[int, ...]]]] = OrderedDict()
        self._ended: OrderedDict[int, OpError | None] = OrderedDict()  # why, where it was aborted before it began
        self._closed: OpError | None = None

    def begin(self, step_id: int, step: Receiver) -> bool:
        """False where it was aborted before: then it is not to run."""
        with self._lock:
            if step_id in self._ended:
                return False
            self._steps[step_id] = step
            early, closed = self._early.pop(step_id, []), self._closed
        if closed is not None:
            step.cancel(closed)
        for bundle, tensors, iterations in early:
            step.receive(bundle, tensors, iterations)
        return True

    def deliver(self, step_id: int, bundle: int, tensors: list[np.ndarray], iterations: tuple[int, ...] = ()) -> None:
        """iterations: of each loop that the bundle is in, outermost first."""
        with self._lock:
            step = self._steps.get(step_id)
            if step is None:
                if step_id not in self._ended:
                    self._early.setdefault(step_id, []).append((bundle, tensors, iterations))
                    self._shrink(self._early)
                return
        step.receive(bundle, tensors, iterations)

    def end(self, step_id: int, why: OpError | None = None) -> None:
        with self._lock:
            self._steps.pop(step_id, None)
            self._early.pop(step_id, None)
            self._ended[step_id] = self._ended.get(step_id) or why
            self._shrink(self._ended)

    def why_ended(self, step_id: int) -> OpError:
        """For who was to begin it."""
        return self._ended.get(step_id) or AbortedError(f"Step {step_id} was aborted before it began")

    def abort(self, step_id: int, error: OpError) -> None:
        """Cancel the step, or make sure that it never begins to wait.

        Where its time is over, its error says for what it waited: so the master hears who waits for whom.
        """
        with self._lock:
            step = self._steps.get(step_id)
        if step is not None:
            if isinstance(error, DeadlineExceededError):
                error.message = step.waits() or step.describe()
            step.cancel(error)
        else:  # one whose time is over has waited for nothing here
            self.end(step_id, None if isinstance(error, DeadlineExceededError) else error)

    def abort_all(self, error: OpError) -> None:
        """Cancel all steps that have begun."""
        with self._lock:
            steps = list(self._steps.values())
        for step in steps:
            step.cancel(error)

    def close(self, error: OpError) -> None:
        """Cancel all steps, and those that begin later."""
        with self._lock:
            self._closed = error
        self.abort_all(error)

    def waits(self, step_id: int) -> str:
        """For what a step waits here, as Step.waits has it."""
        with self._lock:
            step = self._steps.get(step_id)
        return "It is not at this step, or at work on it" if step is None else str(step.waits())

    def ended(self, step_id: int) -> bool:
        return step_id in self._ended

    @staticmethod
    def _shrink(table: OrderedDict[int, Any]) -> None:
        while len(table) > _REMEMBERED_STEPS:
            table.popitem(last=False)
