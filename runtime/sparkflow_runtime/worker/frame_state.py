"""What the general executor remembers: frames, their iterations, the tokens in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkflow_runtime.worker.frame_plan import Entry

Outputs = Sequence[Any] | None  # None: all dead


@dataclass(eq=False)
class Iteration:
    """pending and dead: counts of the nodes that something has reached; inputs: what they got."""

    pending: dict[Entry, int] = field(default_factory=dict)
    dead: dict[Entry, int] = field(default_factory=dict)
    inputs: dict[Entry, list[Any]] = field(default_factory=dict)
    chosen: dict[Entry, int] = field(default_factory=dict)  # of a Merge: the input that came first
    gated: set[Entry] = field(default_factory=set)  # _Sends that shall not send
    busy: int = 0  # nodes that are ready or run
    frames: int = 0  # frames opened from here and not done


@dataclass(eq=False)
class Frame:
    parent: Frame | None
    parent_iteration: int
    name: str
    pending_enters: int
    parallel: int
    around: tuple[int, ...] = ()  # the iterations of the frames around it, outermost first
    iterations: dict[int, Iteration] = field(default_factory=lambda: {0: Iteration()})
    last: int = 0  # the newest iteration
    invariants: list[tuple[Entry, Outputs]] = field(default_factory=list)
    deferred: list[tuple[Entry, Outputs]] = field(default_factory=list)  # NextIterations that wait for room
    dead_exits: list[Entry] = field(default_factory=list)

    def is_done(self, number: int) -> bool:
        """Whether nothing can happen in that iteration any more."""
        one = self.iterations[number]
        if one.busy or one.frames:
            return False
        return number - 1 not in self.iterations if number else not self.pending_enters


@dataclass(eq=False)
class Token:
    """A node that may run, or (outputs given) one whose waiting is over."""

    entry: Entry
    frame: Frame
    iteration: int
    dead: bool
    outputs: Outputs = None
    is_over: bool = False
