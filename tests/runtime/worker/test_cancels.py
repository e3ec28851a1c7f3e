"""Ctrl-C in the middle of a step's failing: what was parked is withdrawn all the same."""

from __future__ import annotations

import pytest

from sparkflow_runtime.wire.errors import AbortedError, CancelledError, OpError
from sparkflow_runtime.worker.step import Step
from sparkflow_runtime.worker.units import Plan


def test_who_fails_it_again_calls_the_rest() -> None:
    step, told, interrupts = Step(Plan([], 0, [], [], {}, {}, None), 1, [], None), list[tuple[str, OpError]](), [1]

    def interrupted(error: OpError) -> None:
        if interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        told.append(("second", error))

    step.on_cancel(lambda error: told.append(("first", error)))
    step.on_cancel(interrupted)
    withdrawn = step.on_cancel(lambda error: told.append(("none", error)))
    step.on_cancel(lambda error: told.append(("third", error)))
    step.off_cancel(withdrawn)
    first = AbortedError("lost a task")
    with pytest.raises(KeyboardInterrupt):
        step.cancel(first)
    assert [name for name, _ in told] == ["first"]
    step.cancel(CancelledError("interrupted"))
    assert [name for name, _ in told] == ["first", "third", "second"]
    assert {error for _, error in told} == {first}, "the first error counts"
    step.cancel(first)
    assert len(told) == 3, "each once"
    step.on_cancel(lambda error: told.append(("late", error)))
    assert told[-1] == ("late", first)
