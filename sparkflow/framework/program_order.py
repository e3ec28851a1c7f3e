"""The order in which a function of tf.function does what lasts: as its statements stand, whatever its results need.

A graph runs what a fetch needs, in any order that edges allow. While a function of tf.function is traced, the graph has
a ProgramOrder: an op that reads or changes a variable, a queue or a table, prints, or checks, waits for the ones before
it that it could disturb, and the function's results wait for all that must run. Source of the rules:
tensorflow/python/framework/auto_control_deps.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.wire.edges import KEPT_READ

if TYPE_CHECKING:
    from sparkflow.framework.graph import Graph
    from sparkflow.framework.operation import Operation, Tensor

_PASSING = frozenset({"RefSwitch", "RefEnter", "RefMerge", "RefExit", "RefNextIteration", "RefIdentity"})
_CHECKS = frozenset({"Assert", "CheckNumerics"})  # they must run, and wait for nothing
_READERS = frozenset(
    {"IsVariableInitialized", "LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2", "QueueSizeV2"}
    | {"QueueIsClosedV2", "StackPopV2"}
)
# Of one step only, or random: nobody else sees what they do.
_UNSEEN = (
    "TensorArray", "Stack", "Random", "Truncated", "Multinomial", "Guarantee", "Timestamp", "Sample", "Stateless",
)  # fmt: skip
_OUTSIDE = "what a program sees outside of the graph"
SCOPES = "name scopes of functions"  # of those that a graph traces now, the innermost last: of Graph.extra


class ProgramOrder:
    """What ran last on each thing that lasts, and all that must run, of one function or of one branch of it."""

    def __init__(self) -> None:
        self.changed: dict[Any, list[Operation]] = {}
        self.read: dict[Any, list[Operation]] = {}
        self.must_run: dict[Operation, None] = {}

    def see(self, op: Operation) -> None:
        """Have a new op wait for those before it."""
        if op.type in _PASSING:
            return
        refs = [t for t in op.inputs if t.dtype.is_ref]
        if not refs and not op.spec.stateful:
            return
        changes = _changes(op)
        if refs and op.type == "Identity":
            op.attrs[KEPT_READ] = True  # what comes later does not change what was read
        if op.type in _CHECKS:
            self.must_run[op] = None
            return
        for key in self._keys(op, refs):
            self._note(key, [op], changes)
        if changes:
            self.must_run[op] = None

    def _keys(self, op: Operation, refs: list[Tensor]) -> list[Any]:
        if refs:
            return list(dict.fromkeys(map(_memory, refs)))
        if op.type.startswith(_UNSEEN) or op.type.endswith("Sampler") or _is_handle(op):
            return []
        handles = [t.op for t in op.inputs if t.dtype.name == "resource"]
        return [handles[0] if handles else _OUTSIDE]

    def _note(self, key: Any, ops: list[Operation], changes: bool) -> None:
        before = [*self.changed.get(key, ()), *(self.read.get(key, ()) if changes else ())]
        for op in ops:
            for earlier in before:
                op.add_control_input(earlier)
        if changes:
            self.changed[key], self.read[key] = ops, []
        else:
            self.read.setdefault(key, []).extend(ops)

    def waits(self) -> list[Operation]:
        """What a branch or loop that begins now must wait for."""
        ops = [op for group in (*self.changed.values(), *self.read.values()) for op in group]
        return list(dict.fromkeys([*ops, *self.must_run]))

    def took(self, inner: ProgramOrder, ends: list[Operation]) -> None:
        """A branch or loop did what `inner` says, and is over when `ends` are."""
        for key in inner.changed:
            self.changed[key], self.read[key] = ends, []
        for key, ops in inner.read.items():
            if ops and key not in inner.changed:
                self.read.setdefault(key, []).extend(ends)
        if inner.must_run:
            self.must_run.update(dict.fromkeys(ends))

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.must_run or any(self.read.values()))


def _changes(op: Operation) -> bool:
    """Whether it changes what it is given; who cannot be told counts as if it did."""
    if op.type in _READERS or op.type.startswith(_UNSEEN) or op.type.endswith("Sampler") or _is_handle(op):
        return False
    return op.spec.stateful or bool(op.spec.ref_inputs())


def _is_handle(op: Operation) -> bool:
    """Whether all that it does is to name a variable, a queue or a table."""
    return not op.inputs and any(t.dtype.is_ref or t.dtype.name == "resource" for t in op.outputs)


def _memory(ref: Tensor) -> Operation:
    """The op whose memory a reference is to."""
    op = ref.op
    while op.inputs and op.inputs[0].dtype.is_ref:
        op = op.inputs[0].op
    return op


@contextmanager
def ordered(graph: Graph, order: ProgramOrder | None) -> Iterator[None]:
    """Ops made inside are ordered by it; None: they are in nobody's order."""
    before, graph._order = graph._order, order
    try:
        yield
    finally:
        graph._order = before


@contextmanager
def unordered(graph: Graph) -> Iterator[None]:
    """What is made inside is no statement of a function, nor in its scope of names: a variable and its initializer."""
    function, names = graph.extra[SCOPES][-1] if graph.extra.get(SCOPES) else "", graph._thread.name_stack
    if function and names.startswith(function):
        graph._thread.name_stack = names[len(function) :]
    try:
        with ordered(graph, None):
            yield
    finally:
        graph._thread.name_stack = names


def merged(orders: Iterable[ProgramOrder]) -> ProgramOrder:
    """What any of several branches did."""
    found = ProgramOrder()
    for order in orders:
        for key in order.changed:
            found.changed[key] = []
        for key, ops in order.read.items():
            found.read.setdefault(key, []).extend(ops)
        found.must_run.update(order.must_run)
    return found
