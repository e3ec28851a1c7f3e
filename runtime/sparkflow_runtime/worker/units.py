"""What a plan consists of: units, the values they hand to each other by slots, and the fetches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.compression import widened
from sparkflow_runtime.kernels.control_flow import truth
from sparkflow_runtime.kernels.parallel import blas_alone
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.control_flow import DEAD
from sparkflow_runtime.wire.edges import parse
from sparkflow_runtime.wire.errors import InternalError, InvalidArgumentError, OpError
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.codegen import Segment, read
from sparkflow_runtime.worker.tracing import Recorder

SEGMENT, WAIT, RECEIVE, SEND = "segment", "wait", "receive", "send"
_CONVOLVES = {f"Conv{n}D{way}" for n in (2, 3) for way in ("", "BackpropInput", "BackpropFilter")}
_MULTIPLIES = {"MatMul", "BatchMatMul", "Einsum", "_FusedMatMul", "_FusedSum", "_FusedUpdate"} | _CONVOLVES
_MULTIPLIES |= {"_SpreadMatMul", "_SpreadMatMulGrad"}
_QUEUES = {f"Queue{what}{many}" for what in ("Enqueue", "Dequeue") for many in ("", "Many", "UpTo")}
_QUEUES |= {"FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueSize", "QueueClose"}
_READERS = {"ReaderRead", "ReaderReadUpTo", "TFRecordReader", "WholeFileReader", "TextLineReader", "IdentityReader"}
_COMPUTES_NOTHING = {"Const", "NoOp", "Identity", "Placeholder", "Variable"} | _QUEUES | _READERS
_silent = partial(np.errstate, all="ignore")
_ARRAYS, _MANY = {np.ndarray}, 8  # fetches, from which on they are taken at once
_LONG_S = 5e-3  # beside it, what the hand-over to another thread costs is nothing
_LONG_ONCE_S = 0.1  # what is shorter may have had to wait for a processor, once
Around = tuple[Callable[[], AbstractContextManager[Any]], ...]
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
    frees: list[int] = field(default_factory=list)  # slots that nobody reads once it is done
    peer: str = ""
    bundle: int = -1
    guard: list[Test] = field(default_factory=list)  # of a wait: it runs where all hold
    members: list[list[Test]] | None = None  # of a send with values that may be dead: the guard of each
    arrivals: list[tuple[int | None, bool]] | None = None  # of such a receive: each one's slot, whether it has data
    carried: list[str] = field(default_factory=list)  # of a bundle: as what each tensor travels; empty: all as they are
    surroundings: Around = ()  # what it runs inside of

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
    if unit.guard and not holds(unit.guard, values):
        outputs: Sequence[Any] | None = [DEAD] * len(unit.slots)
    elif unit.attempt is None:
        return False
    else:
        given = [
            got(getter, values) if getter[2] else getter[1] if getter[0] is None else values[getter[0]]
            for getter in unit.getters
        ]
        outputs = unit.attempt(*given)
    if outputs is None:
        return False
    for slot, value in zip(unit.slots, outputs):
        if slot is not None:
            values[slot] = value
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


def surroundings_of(ops: Iterable[str]) -> Around:
    """What such operations run inside of: no warnings, as in TensorFlow log(0) is -inf and no more, where anything is
    computed; and BLAS without threads of its own, where it multiplies."""
    found = {op.removesuffix("V2") for op in ops}
    if found <= _COMPUTES_NOTHING:
        return ()
    return (_silent,) if found.isdisjoint(_MULTIPLIES) else (_silent, blas_alone)


def enter(around: Around, entered: list[Any]) -> None:
    """Into these as well; `entered` is for `leave` at the end. A `with` for each would be a third of a run of
    nothing."""
    for make in around[len(entered) :]:
        entered.append(make())
        entered[-1].__enter__()


def leave(entered: list[Any]) -> None:
    """Called once more where it is interrupted, it does the rest."""
    while entered:
        try:  # noqa: SIM105 - which would take longer than to leave
            entered[-1].__exit__(None, None, None)
        except (TypeError, RuntimeError):
            pass  # of np.errstate: an interrupt came before it had entered, or after it had left
        entered.pop()


@dataclass
class Plan:
    """What Step runs. `feeds` are slots in the order of the run request; `fetches` (slot, constant, copy) likewise."""

    units: list[Unit]
    num_slots: int
    feeds: list[int | None]
    fetches: list[tuple[int | None, Any, bool]]
    bundles: dict[int, int]  # bundle id -> receiving unit
    nodes: dict[str, NodeDef]
    order: list[int] | None  # units in order when all waits of the plan can be tried, and it talks to nobody
    names: list[str] = field(default_factory=list)  # of the fetches
    stop: int | None = None  # the slot of the list that ends native loops when something is in it
    is_served: bool = False  # a server's, not of a session in the same process
    recorder: Recorder | None = None  # of a traced plan: its step stats are the last value that collect returns
    takes_long: bool = False  # as its last steps did
    _took_long: bool = False  # as its last step did

    @property
    def wants_thread(self) -> bool:
        """Whether a step of it on behalf of another task is for a thread of its own: it took long, has loops, or calls
        functions of the user's, which may wait for what only that task's next message brings."""
        return self.takes_long or self.stop is not None or self.calls_out

    @cached_property
    def calls_out(self) -> bool:
        return any(node.op in registry.CALLING_OUT for node in self.nodes.values())

    @cached_property
    def collectives(self) -> int:
        """How many of its operations others take part in."""
        return sum(node.op.startswith("Collective") for node in self.nodes.values())

    def took(self, longest_s: float) -> None:
        """How long its last step kept a thread busy without a pause."""
        before, self._took_long = self._took_long, longest_s > _LONG_S
        self.takes_long = self._took_long and (before or longest_s > _LONG_ONCE_S)

    @cached_property
    def is_straight(self) -> bool:
        """Whether a run in order comes to its end: there is nothing to wait for."""
        return self.order is not None and all(unit.segment is not None for unit in self.units)

    @cached_property
    def opening_peers(self) -> frozenset[str]:
        """The tasks that get a bundle before anything has to be waited for."""
        pending = [u.pending for u in self.units]
        ready = [i for i, left in enumerate(pending) if not left]
        found = set()
        while ready:
            unit = self.units[ready.pop()]
            if unit.kind not in (SEGMENT, SEND):
                continue
            if unit.kind == SEND:
                found.add(unit.peer)
            for successor in unit.successors:
                pending[successor] -= 1
                if not pending[successor]:
                    ready.append(successor)
        return frozenset(found)

    @cached_property
    def send_peers(self) -> frozenset[str]:
        """The tasks that it sends to."""
        return frozenset(unit.peer for unit in self.units if unit.kind == SEND)

    @cached_property
    def surroundings(self) -> Around:
        return surroundings_of(node.op for node in self.nodes.values())

    def collect(self, values: list[Any], lent: bool = False) -> list[Any]:
        """The fetched values; what may be a variable's own memory is copied, so that later steps do not change it.
        lent: not copied, for who sends them at once and keeps nothing."""
        if (take := self._take if lent else self._take_own) is not None:
            found = list(take(values))
            if set(map(type, found)) == _ARRAYS:
                return found
        out: list[Any] = []
        for slot, constant, copy in self.fetches:
            value = values[slot] if slot is not None else constant
            if type(value) is Variable:
                value = value.read()
            elif value is DEAD:
                raise self._dead_fetch(len(out))
            out.append(value.copy() if copy and not lent and isinstance(value, np.ndarray) else value)
        if self.recorder is not None:
            out.append(self.recorder.collect())
        return out

    @cached_property
    def _take(self) -> Callable[[list[Any]], Iterable[Any]] | None:
        """All that is fetched, where that is much and nothing but slots."""
        slots = [slot for slot, _, _ in self.fetches if slot is not None]
        is_plain = self.recorder is None and len(slots) == len(self.fetches) >= _MANY
        return itemgetter(*slots) if is_plain else None

    @cached_property
    def _take_own(self) -> Callable[[list[Any]], Iterable[Any]] | None:
        return None if any(copy for _, _, copy in self.fetches) else self._take

    def _dead_fetch(self, index: int) -> OpError:
        """Of the class that TensorFlow gives it, which differs."""
        name = self.names[index]
        node = self.nodes.get(parse(name)[0])
        if node is not None and node.op == "_ToHost":  # of what was asked for, on a GPU
            name = node.input[0]
            node = self.nodes.get(parse(name)[0])
        kind = InternalError if self.is_served else InvalidArgumentError
        return kind(
            node,
            None,
            f"Fetch {name!r} does not have a value: it is in a branch that was not taken. Fetch what merges the "
            "branches",
        )
