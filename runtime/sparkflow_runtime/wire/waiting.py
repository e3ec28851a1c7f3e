"""How long a run may wait, all in all: for tasks that have not come, for what they compile, for its turn, in its step.

A run with a deadline has a budget (`within`), from which each of its waits takes what it lasted. What is computed here
meanwhile, such as the passes over a large graph, is no wait and counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Budget:
    def __init__(self, whole_s: float):
        self.whole_s = self.left_s = whole_s


_OWN: ContextVar[_Budget | None] = ContextVar("budget", default=None)  # of the run that a thread makes


@contextmanager
def within(timeout_s: float | None) -> Iterator[None]:
    """What this thread does in it waits no longer than that (None: as long as ever)."""
    token = _OWN.set(None if timeout_s is None else _Budget(timeout_s))
    try:
        yield
    finally:
        _OWN.reset(token)


@contextmanager
def wait(most_s: float) -> Iterator[float]:
    """One wait, which would last `most_s` at most (inf: for ever): for how long it may."""
    budget, begun = _OWN.get(), time.monotonic()
    try:
        yield most_s if budget is None else min(most_s, max(0.0, budget.left_s))
    finally:
        if budget is not None:
            budget.left_s -= time.monotonic() - begun


def left_of(timeout_s: float) -> float:
    """What waits before have left of the deadline that a step is given."""
    budget = _OWN.get()
    return timeout_s if budget is None else min(timeout_s, max(0.0, budget.left_s))


def is_over() -> bool:
    """Whether the run's time is over."""
    budget = _OWN.get()
    return budget is not None and budget.left_s <= 0


def told() -> str:
    """The time that the run was given, in words."""
    budget = _OWN.get()
    return "" if budget is None else f"in the {budget.whole_s:g} s that the run may take"
