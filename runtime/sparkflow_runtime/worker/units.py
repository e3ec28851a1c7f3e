"""The units of a plan (worker/plan.py), and how a wait is done where there is nothing to wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkflow_runtime.kernels.compression import widened
from sparkflow_runtime.kernels.control_flow import truth
from sparkflow_runtime.wire.control_flow import DEAD
from sparkflow_runtime.worker.codegen import Segment, read

SEGMENT, WAIT, RECEIVE, SEND = "segment", "wait", "receive", "send"
Test = tuple[int | None, Any, bool | None]  # (slot or None, constant, wanted): a predicate; None: is there a value?


@dataclass
class Unit:
    """One thing to run when its `pending` predecessors are done."""

    kind: str
    label: str
    pending: int = 0
    successors: list[int] = field(default_factory=list)
    segment: Segment | None = None
    function: Callable[..., Any] | None = None  # of a wait: (step, done, *inputs)
    attempt: Callable[..., Any] | None = None  # of a wait that can be tried: (*inputs) -> outputs or None
    getters: list[tuple[int | None, Any, bool]] = field(
        default_factory=list
    )  # (slot or None, constant, read variables)
    slots: list[int | None] = field(default_factory=list)  # where outputs go
    peer: str = ""
    bundle: int = -1
    guard: list[Test] = field(default_factory=list)  # of a wait: it runs where all hold
    members: list[list[Test]] | None = None  # of a send with values that may be dead: the guard of each
    arrivals: list[tuple[int | None, bool]] | None = None  # of such a receive: each one's slot, whether it has data
    carried: list[str] = field(default_factory=list)  # of a bundle: as what each tensor travels; empty: all as they are

    def store(self, outputs: Sequence[Any], values: list[Any]) -> None:
        for slot, value in zip(self.slots, outputs, strict=False):
            if slot is not None:
                values[slot] = value

    def unpack(self, tensors: list[Any]) -> list[tuple[int | None, Any]] | None:
        """(slot, value) of what a receive was sent; None when it is not what it should be."""
        if self.carried:
            found = widened(tensors)
            if found is None:
                return None
            tensors = found
        if self.arrivals is None:
            return list(zip(self.slots, tensors)) if len(tensors) == len(self.slots) else None
        if len(tensors) != 1 + len(self.slots) or len(tensors[0]) != len(self.arrivals):
            return None
        data = iter(tensors[1:])
        values = [next(data) if has_data else None for _, has_data in self.arrivals]
        return [(at[0], v if live else DEAD) for at, v, live in zip(self.arrivals, values, tensors[0])]


def completes(unit: Unit, values: list[Any]) -> bool:
    """Do a wait without waiting: it is in a branch that is not taken, or it can be had at once. Whether it was done."""
    if not holds(unit.guard, values):
        outputs: Sequence[Any] | None = [DEAD] * len(unit.slots)
    elif unit.attempt is None:
        return False
    else:
        outputs = unit.attempt(*[got(g, values) for g in unit.getters])
    if outputs is None:
        return False
    unit.store(outputs, values)
    return True


def got(getter: tuple[int | None, Any, bool], values: list[Any]) -> Any:
    """The input that a getter stands for."""
    slot, constant, deref = getter
    value = constant if slot is None else values[slot]
    return read(value) if deref else value


def holds(tests: list[Test], values: list[Any]) -> bool:
    """Whether all hold; outer predicates come first, and an inner one is looked at only where they do."""
    for slot, constant, wanted in tests:
        value = constant if slot is None else values[slot]
        if (value is DEAD) if wanted is None else truth(read(value)) is not wanted:
            return False
    return True
