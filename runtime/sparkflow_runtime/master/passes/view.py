"""A light, mutable view of a graph: what the passes work on between two GraphDefs.

The NodeDefs behind it are shared and never changed; a node that a pass alters is written out as a new one. Edges are
strings as in NodeDef, in one spelling ('a' for port 0, never 'a:0'); control inputs lie apart, without their '^'.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.passes.contexts import CONTROL_FLOW, OUTSIDE, Context, contexts
from sparkflow_runtime.master.passes.symbols import Shapes
from sparkflow_runtime.wire.attrs import constant, decode, encode
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.edges import colocated
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import AttrValue, GraphDef, NodeDef
from sparkflow_runtime.wire.tensor_proto import shape_tuple

Dims = tuple[int | None, ...]


def spelled(edge: str) -> str:
    """The one spelling of a data edge: port 0 is not written."""
    return edge[:-2] if edge.endswith(":0") else edge


@lru_cache(1 << 15)
def producer(edge: str) -> str:
    return edge.partition(":")[0]


class Op:
    """One node. `data` and `control` may be changed; attributes are read through `attr` and replaced with `set`."""

    __slots__ = (
        "_given",
        "_labels",
        "_shapes_known",
        "_value",
        "changed",
        "control",
        "data",
        "device",
        "name",
        "op",
        "proto",
        "pure",
        "row",
    )

    def __init__(self, proto: NodeDef):
        self.proto, self.name, self.op, self.device = proto, proto.name, proto.op, proto.device
        inputs = list(proto.input)
        controlled = bool(inputs) and inputs[-1][0] == "^"  # control inputs are the last ones
        self.control = [e[1:] for e in inputs if e[0] == "^"] if controlled else []
        given = inputs[: len(inputs) - len(self.control)] if controlled else inputs
        self.data = [e[:-2] if e.endswith(":0") else e for e in given]  # as `spelled`
        self._given = tuple(self.data), tuple(self.control)
        self.row = _row(self.op)
        self.pure = _is_pure(self.row)  # the value depends on the inputs alone, and computing it does nothing else
        self._shapes_known = True
        self._value: Any = None
        self._labels: tuple[bytes, ...] | None = None
        self.changed: dict[str, Any] = {}

    def attr(self, name: str, default: Any = None) -> Any:
        if name in self.changed:
            return self.changed[name]
        return decode(self.proto.attr[name]) if name in self.proto.attr else default

    @property
    def value(self) -> Any:
        """A Const's array, decoded once."""
        if self._value is None:
            kept = "value" not in self.changed
            self._value = constant(self.proto.attr["value"]) if kept else self.changed["value"]
        return self._value

    def become(self, op: str, data: list[str]) -> None:
        """Let it compute something else of the same type and shape."""
        self.op, self.data, self.row = op, data, _row(op)
        self.pure = _is_pure(self.row)

    def set(self, name: str, value: Any) -> None:
        self.changed[name] = value

    def forget_shapes(self) -> None:
        """After a change of the result's shape: `_output_shapes` no longer says it."""
        self._shapes_known = False

    @property
    def labels(self) -> tuple[bytes, ...]:
        """The nodes it must share a device with: its `_class`."""
        if self._labels is None:
            attrs = self.proto.attr
            self._labels = tuple(attrs["_class"].list.s) if "_class" in attrs else ()
        return self._labels

    def static_shape(self, port: int) -> Dims | None:
        """What `_output_shapes` says of an output; None where it says nothing."""
        if self.op == "Const":
            return shape_tuple(self.proto.attr["value"].tensor.tensor_shape)
        attrs = self.proto.attr
        if not self._shapes_known or "_output_shapes" not in attrs:
            return None
        shapes = _shapes(attrs["_output_shapes"].SerializeToString())
        return shapes[port] if port < len(shapes) else None

    def written(self, moved: Mapping[str, str]) -> NodeDef:
        """The node as it now is: the NodeDef it came with where nothing changed."""
        old, labels = self.proto, self.labels if moved else ()
        relabelled = any([colocated(label) in moved for label in labels])
        untouched = self._shapes_known and not self.changed and not relabelled and old.op == self.op
        if untouched and self._given == (tuple(self.data), tuple(self.control)):
            return old
        new = NodeDef()
        new.CopyFrom(old)
        new.op, new.name, new.device = self.op, self.name, self.device
        new.input[:] = [*self.data, *("^" + c for c in self.control)]
        if not self._shapes_known:
            new.attr.pop("_output_shapes", None)
        for name, value in self.changed.items():
            new.attr[name].CopyFrom(encode(value))
        if relabelled:
            new.attr["_class"].list.s[:] = [_moved_label(label, moved) for label in labels]
        return new


@lru_cache(maxsize=4096)
def _shapes(attr: bytes) -> list[Dims | None]:
    """Graphs have many tensors and few different shapes."""
    return [shape_tuple(shape) for shape in AttrValue.FromString(attr).list.shape]


@lru_cache
def names_task(device: str) -> bool:
    """Whether a device name leaves nothing open, of a task with one processor."""
    spec = DeviceSpec.from_string(device)
    return None not in (spec.job, spec.task) and spec.device_type in (None, "CPU")


def _row(op: str) -> registry.Kernel | None:
    """The CPU's row of the kernel table; None where it has none (the op then stays as it is)."""
    every, cpu = registry.rows(op)
    return cpu or every


def _is_pure(row: registry.Kernel | None) -> bool:
    return row is not None and not (row.stateful or row.is_async or row.refs)


def _moved_label(label: bytes, moved: Mapping[str, str]) -> bytes:
    name = colocated(label)
    while name in moved:
        name = moved[name]
    return f"loc:@{name}".encode()


@dataclass
class View:
    """The nodes of one signature, by name, every producer before its consumers (back edges of loops aside).

    feeds: edges that are fed, as spelled here. fetches, targets: what must be there in the end under its own name.
    one_device: there is only one device, so nothing can be on different ones.
    """

    ops: dict[str, Op]
    feeds: frozenset[str] = frozenset()
    fetches: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    one_device: bool = True
    moved: dict[str, str] = field(default_factory=dict)  # a node that is gone -> the one that took its place
    free: frozenset[str] = frozenset()  # nodes outside control flow: some passes touch no others
    inside: Mapping[str, Context] = field(default_factory=dict)  # of the nodes that came with the graph
    changes: int = 0  # how many edges and nodes the passes have changed so far
    _pruned_at: int = -1
    fed: dict[str, Op] = field(default_factory=dict)  # producers of fed edges, for what they say of shapes
    alone: set[str] = field(default_factory=set)  # nodes that are better left out of fused ones

    @classmethod
    def of(
        cls,
        graph: GraphDef,
        feeds: Iterable[str] = (),
        fetches: Iterable[str] = (),
        targets: Iterable[str] = (),
        one_device: bool = True,
        sources: Mapping[str, NodeDef] | None = None,
    ) -> View:
        """sources: nodes beyond the graph's own, such as the placeholders that are fed."""
        ops = in_order({node.name: Op(node) for node in graph.node})
        fed = frozenset(map(spelled, feeds))
        view = cls(ops, fed, frozenset(map(spelled, fetches)), frozenset(targets), one_device)
        view.inside = contexts(ops)
        view.free = frozenset(name for name, context in view.inside.items() if not context)
        view.fed = {name: Op(sources[name]) for e in fed if (name := producer(e)) in (sources or ()) and sources}
        return view

    @cached_property
    def fed_nodes(self) -> frozenset[str]:
        return frozenset(map(producer, self.feeds))

    @cached_property
    def shapes(self) -> Shapes:
        return Shapes(self)

    def context(self, name: str) -> Context | None:
        """What a node is inside of; None for control flow itself."""
        return OUTSIDE if name in self.free else self.inside.get(name)

    def graph(self) -> NodeList:
        return NodeList([op.written(self.moved) for op in self.ops.values()])

    @property
    def kept(self) -> set[str]:
        """Nodes that must keep their name: fetched, run as a target, or fed."""
        return {producer(e) for e in (*self.fetches, *self.feeds)} | self.targets

    def consumers(self) -> dict[str, list[Op]]:
        """Node -> those that take one of its outputs (once an edge), control edges left out."""
        found: dict[str, list[Op]] = {name: [] for name in self.ops}
        for op in self.ops.values():
            for edge in op.data:
                users = found.get(edge)  # most edges are of port 0 and so called as their producer
                if users is None:
                    users = found.get(producer(edge))
                if users is not None:  # the producer of a fed edge may not be there
                    users.append(op)
        return found

    @property
    def gates(self) -> set[str]:
        """Nodes that another waits for by a control edge."""
        return {name for op in self.ops.values() for name in op.control}

    def constant(self, edge: str, inside: Context = OUTSIDE) -> Any:
        """The array of a constant that is not fed and waits for nobody, or None. Of one inside of control flow, for
        who is inside of just the same."""
        op = self.ops.get(edge)
        if op is None or op.op != "Const" or edge in self.feeds or not self.only_inside(op):
            return None
        return op.value if self.context(op.name) == inside else None

    def only_inside(self, op: Op) -> bool:
        """Whether a node waits for others only in order to be inside of a cond or a loop, as constants there do."""
        return not op.control or all(c in self.ops and self.opens(self.ops[c]) for c in op.control)

    def opens(self, op: Op) -> bool:
        """Whether a node only says that a cond's side or an iteration runs: a value as it comes in."""
        if op.op == "Identity" and not op.control:
            op = self.ops.get(producer(op.data[0]), op)
        return op.op in CONTROL_FLOW and not op.control

    def same_place(self, a: Op, b: Op) -> bool:
        """Whether both ask for the same device and company, so that one may stand for the other."""
        return self.one_device or (a.device == b.device and set(self.company(a)) == set(self.company(b)))

    def company(self, op: Op) -> tuple[bytes, ...]:
        """The labels that say more of where a node goes than its device does: none where that names a task, which
        has one processor."""
        return () if self.one_device or names_task(op.device) else op.labels

    def redirect(self, edges: Mapping[str, str]) -> None:
        """Let every consumer of a key take its value instead; chains of keys are followed."""
        if not edges:
            return
        self.changes += len(edges)
        for op in self.ops.values():
            if not edges.keys().isdisjoint(op.data):
                op.data = [_last(e, edges) if e in edges else e for e in op.data]

    def drop(self, names: Collection[str]) -> None:
        self.changes += len(names)
        for name in names:
            del self.ops[name]
        if names:
            self.free = self.free.difference(names)

    def prune(self) -> None:
        """Leave out what no fetch or target needs any more. Fed edges need nobody."""
        if self.changes == self._pruned_at:
            return
        ops, feeds = self.ops, self.feeds
        todo = [*(self.fetches - feeds), *self.targets]  # nodes, and edges, which mostly are called as their nodes
        keep: set[str] = set()
        while todo:
            name = todo.pop()
            if name in keep:
                continue
            op = ops.get(name)
            if op is None:
                name = producer(name)
                if name in keep:
                    continue
                op = ops[name]
            keep.add(name)
            todo += op.data if feeds.isdisjoint(op.data) else [e for e in op.data if e not in feeds]
            todo += op.control
        self.drop([name for name in self.ops if name not in keep])
        self._pruned_at = self.changes


def _last(edge: str, edges: Mapping[str, str]) -> str:
    while edge in edges:
        edge = edges[edge]
    return edge


def in_order(ops: dict[str, Op]) -> dict[str, Op]:
    """Every producer before its consumers, otherwise as given. The inputs of a Merge that come from a NextIteration
    close a loop and do not count."""
    if _is_in_order(ops):
        return ops
    ordered: dict[str, Op] = {}
    for root in ops:
        stack = [root]
        on_path: set[str] = set()
        while stack:
            name = stack[-1]
            if name in ordered:
                stack.pop()
                continue
            op = ops[name]
            waits = [] if name in on_path else [m for m in _before(op, ops) if m not in ordered]
            on_path.add(name)
            if waits:
                stack += reversed(waits)
            else:
                ordered[name] = op
                stack.pop()
    return ordered


def _is_in_order(ops: dict[str, Op]) -> bool:
    """As graphs without loops are, which are written down as they were made."""
    seen: set[str] = set()
    for name, op in ops.items():
        for e in op.data:
            if e not in seen and (source := producer(e)) not in seen and source in ops:
                return False
        if op.control and any(c not in seen and c in ops for c in op.control):
            return False
        seen.add(name)
    return True


def _before(op: Op, ops: dict[str, Op]) -> list[str]:
    names = [*map(producer, op.data), *op.control]
    loops = op.op in ("Merge", "RefMerge")
    return [n for n in names if n in ops and not (loops and ops[n].op in ("NextIteration", "RefNextIteration"))]
