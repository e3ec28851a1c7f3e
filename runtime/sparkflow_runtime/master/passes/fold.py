"""Constant folding: what depends on constants and known shapes alone is computed once, by the registered kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.master.passes.contexts import OUTSIDE, Context
from sparkflow_runtime.master.passes.shape_rules import repeated_axes
from sparkflow_runtime.master.passes.symbols import Shapes, words
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire.attrs import encode, kernel_attrs
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.edges import edge
from sparkflow_runtime.wire.protos import NodeDef

MAX_FOLDED_BYTES = 1 << 20
_NEVER = frozenset(["Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "NoOp"])
# a few numbers in, an array of any size out: folded only where the size is known beforehand
_GROWS = words("Fill Tile BroadcastTo Range LinSpace OneHot Pad PadV2 MirrorPad ScatterNd")


_ABOUT_SHAPES = frozenset(["BroadcastGradientArgs", "Shape", "ShapeN", "Size", "Rank"])


@dataclass
class Folder:
    """Folds, and remembers per node what came out: a later signature or extension of the graph does not fold again.

    A folded node depends on nothing that can be fed, or it would not have been folded: the value is the same in
    every signature.
    """

    max_bytes: int = MAX_FOLDED_BYTES
    values: dict[str, list[Any] | None] = field(default_factory=dict)  # node -> outputs; None: not to be folded
    bytes: int = 0  # of what the last `fold` put in

    def fold(self, view: View) -> None:
        self.bytes = 0
        shapes, multi, added = view.shapes, dict[str, str](), dict[str, list[Op]]()
        known: dict[str, Any] = {}  # edge -> array
        doors: dict[Context, list[str]] = {OUTSIDE: []}  # what a constant waits for in order to be inside
        for op in view.ops.values():
            inside = view.context(op.name)
            if inside and inside not in doors:
                _look_for_door(op, view, doors)
            if op.op == "Const" and op.name not in view.feeds:
                if view.only_inside(op):  # what else it waits for, its consumers wait for through it
                    known[op.name] = op
                continue
            outputs = self._outputs(op, view, shapes, known) if inside is not None and inside in doors else None
            if outputs is None or inside is None:
                continue
            for port, value in enumerate(outputs):
                known[edge(op.name, port)] = value
            self._replace(op, outputs, doors[inside], view, multi, added)
        _put_in(view, multi, added)
        view.prune()

    def _outputs(self, op: Op, view: View, shapes: Shapes, known: dict[str, Any]) -> list[Any] | None:
        if op.op in _NEVER or not op.pure or op.control:
            return None
        if op.name in view.fed_nodes and any(edge(op.name, port) in view.feeds for port in range(_ports(op))):
            return None
        if op.op in _ABOUT_SHAPES and (from_shapes := _by_shapes(op, view, shapes)) is not None:
            return from_shapes
        if not op.data or not all(e in known and e not in view.feeds for e in op.data):
            return None
        if view.context(op.name) and any(view.context(producer(e)) != view.context(op.name) for e in op.data):
            return None
        if op.name not in self.values:
            self.values[op.name] = self._computed(op, [_array(known, e) for e in op.data])
        return self.values[op.name]

    def _computed(self, op: Op, inputs: Sequence[Any]) -> list[Any] | None:
        """What the kernel gives; None where it raises (the node then raises at run time, as itself) or gives much."""
        if not self._fits(op, inputs):
            return None
        row = op.row
        assert row is not None, "pure ops have a kernel"
        node = Node(op.name, op.op, kernel_attrs(op.proto), op.device, np, None, "", tuple(op.data))  # type: ignore[arg-type]
        try:
            with np.errstate(all="ignore"):
                found = row.factory(node)(*inputs)
        except Exception:
            return None
        outputs = [np.array(v, order="C") for v in (found if row.multi else [found])]
        small = sum(v.nbytes for v in outputs) <= self.max_bytes
        return outputs if small and all(v.dtype.kind in "biufcOV" for v in outputs) else None

    def _fits(self, op: Op, inputs: Sequence[Any]) -> bool:
        dims = op.static_shape(0)
        if dims is None or None in dims:
            if op.op == "Fill":
                dims = tuple(np.ravel(inputs[0]).tolist())
            elif op.op in _GROWS:
                return False
            else:
                return sum(v.nbytes for v in inputs) <= self.max_bytes
        return math.prod(d or 0 for d in dims) * 16 <= 16 * self.max_bytes

    def _replace(
        self,
        op: Op,
        outputs: list[Any],
        door: list[str],
        view: View,
        multi: dict[str, str],
        added: dict[str, list[Op]],
    ) -> None:
        self.bytes += sum(v.nbytes for v in outputs)
        view.changes += 1
        row = op.row
        if row is not None and not row.multi:
            view.ops[op.name] = constant_op(op.name, outputs[0], op, door)
            return
        for port, value in enumerate(outputs):
            name = f"{op.name}/folded_{port}"
            if name not in view.ops:
                added.setdefault(op.name, []).append(constant_op(name, value, op, door))
                multi[edge(op.name, port)] = name


def _look_for_door(op: Op, view: View, doors: dict[Context, list[str]]) -> None:
    """The first node inside that others may wait for only to be there: later ones may depend on what is folded."""
    inside = view.context(op.name) or OUTSIDE
    if op.op == "Identity" and view.opens(op):
        doors[inside] = [op.name]
    elif op.op == "Const" and op.control and view.only_inside(op):
        doors[inside] = list(op.control)


def _ports(op: Op) -> int:
    if op.row is None or not op.row.multi:
        return 1
    return max(2, len(op.proto.attr["_output_shapes"].list.shape) if "_output_shapes" in op.proto.attr else 2)


def _array(known: dict[str, Any], e: str) -> Any:
    """The array of a known edge; a Const's is decoded when it is first used."""
    if isinstance(known[e], Op):
        known[e] = known[e].value
    return known[e]


def constant_op(name: str, value: Any, like: Op, control: Sequence[str] = ()) -> Op:
    """A Const that lies where `like` does."""
    proto = NodeDef(name=name, op="Const", device=like.device, input=["^" + c for c in control])
    proto.attr["dtype"].CopyFrom(encode(as_dtype(value.dtype)))
    proto.attr["value"].CopyFrom(encode(value))
    if like.labels:
        proto.attr["_class"].CopyFrom(like.proto.attr["_class"])
    proto.attr["_output_shapes"].list.shape.add().CopyFrom(proto.attr["value"].tensor.tensor_shape)
    return Op(proto)


def _put_in(view: View, multi: dict[str, str], added: dict[str, list[Op]]) -> None:
    """New constants come before the node whose ports they stand for; fetched ports stay."""
    if not added:
        return
    view.inside = {**view.inside, **{new.name: view.inside.get(name, OUTSIDE) for name in added for new in added[name]}}
    view.free = view.free.union(new.name for name in added if name in view.free for new in added[name])
    view.ops = {one.name: one for op in view.ops.values() for one in (*added.get(op.name, ()), op)}
    view.redirect(multi)


# ---------------------------------------------------------------------- what static shapes say


def _by_shapes(op: Op, view: View, shapes: Shapes) -> list[Any] | None:
    """The outputs of an op that only looks at shapes, where these are known."""
    if op.op == "BroadcastGradientArgs":
        held = [shapes.content(e) for e in op.data]
        axes = repeated_axes(*(sizes if isinstance(sizes, tuple) else None for sizes in held))
        return None if axes is None else [np.array(a, op.attr("T", as_dtype("int32")).np) for a in axes]
    found = [shapes.of(e) for e in op.data]
    if op.op == "Rank":
        return None if found[0] is None else [np.array(len(found[0]), np.int32)]
    if any(dims is None or not all(isinstance(d, int) for d in dims) for dims in found):
        return None
    sizes = [np.array(dims, op.attr("out_type", as_dtype("int32")).np) for dims in found]
    return [np.array(math.prod(sizes[0].tolist()), sizes[0].dtype)] if op.op == "Size" else list(sizes)
