"""What passes that put nodes into a view have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from sparkflow_runtime.master.passes.symbols import Symbols
from sparkflow_runtime.master.passes.view import Op, View, in_order
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape, encode
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sizes import SHAPES

_SWAPPED = "_swap_to_host"  # says which inputs of this node, so it keeps them


class ViewEdits:
    """Nodes that are made, and edges that others take the place of."""

    def __init__(self, view: View):
        self.view = view
        self.edges: dict[str, str] = {}  # what is taken instead of an edge
        self.made: dict[str, Op] = {}
        self._matrices: dict[str, str] = {}

    @cached_property
    def seen(self) -> set[str]:
        """Nodes that somebody else knows of."""
        return self.view.kept | self.view.gates

    @cached_property
    def users(self) -> dict[str, list[Op]]:
        """Who takes what, before anything is changed."""
        return self.view.consumers()

    def is_free(self, op: Op) -> bool:
        """Whether nobody else knows of it, and it waits for nobody but its inputs."""
        return not op.control and op.name not in self.seen and self.may_change(op)

    def may_change(self, op: Op) -> bool:
        """Whether it may take other inputs to the same end."""
        return op.name in self.view.free and op.name not in self.view.fed_nodes and _SWAPPED not in op.proto.attr

    def free(self, e: str, kind: str) -> Op | None:
        """The node of such a kind that gives an edge, where it is free."""
        op = self.view.ops.get(e)
        return op if op is not None and op.op == kind and self.is_free(op) else None

    def axis_of(self, op: Op, rank: int) -> int | None:
        """A ConcatV2's axis, counted from the first; None where it is not known."""
        axis = self.view.constant(op.data[-1])
        if axis is None or axis.size != 1 or not -rank <= int(axis.reshape(())) < rank:
            return None
        return int(axis.reshape(())) % rank

    def is_flat(self, op: Op, rows: str) -> bool:
        """Whether it makes a matrix of as many rows of what has three axes."""
        if not self.is_free(op) or op.data[0] != rows:
            return False
        if op.op == "Squeeze":
            return list(op.attr("squeeze_dims", [])) in ([1], [-2]) and self.of(rows)[1] == 1
        shape = self.view.shapes.of(op.name) if op.op == "Reshape" else None
        return shape is not None and len(shape) == 2 and shape[1] == self.width(rows)

    def of(self, rows: str) -> Symbols:
        return self.view.shapes.of(rows) or ()

    def width(self, rows: str) -> int:
        """Of what has three axes: how much an example has; 0 where that is not known."""
        shape = self.of(rows)
        if len(shape) != 3 or not isinstance(shape[1], int) or not isinstance(shape[2], int):
            return 0
        return shape[1] * shape[2]

    def lay_flat(self, rows: str, matrix: str) -> None:
        """Who takes it flat takes the matrix."""
        self.edges.update((user.name, matrix) for user in self.users[rows] if self.is_flat(user, rows))

    def as_matrix(self, e: str, beside: Op) -> str:
        """What has three axes of known sizes, laid flat: what it was before it got them, if it was a matrix; of a sum
        in which some were, the sum of all so."""
        if e not in self._matrices:
            self._matrices[e] = self._before(e) or self._sum_of_matrices(e) or self._laid_flat(e, beside)
        return self._matrices[e]

    def _before(self, e: str) -> str | None:
        source = self.free(e, "Reshape")
        shape = self.of(source.data[0]) if source is not None else ()
        return source.data[0] if source is not None and len(shape) == 2 and shape[1] == self.width(e) else None

    def _sum_of_matrices(self, e: str) -> str | None:
        total = self.free(e, "AddN")
        if total is None or self.view.one_device or not any(map(self._before, total.data)):
            return None  # of one device it is better fused with what it adds up
        if any(user.op not in ("Slice", "Unpack") for user in self.users[e]):
            return None
        data, shape = [self.as_matrix(part, total) for part in total.data], (self.of(e)[0], self.width(e))
        return self.make(f"{e}/columns", "AddN", total, data, shape, N=len(data), T=total.attr("T"))

    def _laid_flat(self, e: str, beside: Op) -> str:
        name, wide = f"{beside.name}/whole", self.width(e)
        data, about = [e, self.constant(f"{name}/shape", beside, [-1, wide])], {"Tshape": dtypes.int32}
        return self.make(name, "Reshape", beside, data, (self.of(e)[0], wide), T=beside.attr("T"), **about)

    def side_by_side(self, op: Op, parts: list[str]) -> str:
        """Matrices laid side by side, in the place of an op of the same inputs."""
        shape, axis = self.of(op.name), self.constant(f"{op.name}/columns/axis", op, 1)
        about = {"N": len(parts), "T": op.attr("T"), "Tidx": dtypes.int32}
        made = self.make(f"{op.name}/columns", "ConcatV2", op, [*parts, axis], (shape[0], self.width(op.name)), **about)
        if op.labels:
            self.made[made].proto.attr["_class"].CopyFrom(op.proto.attr["_class"])
        return made

    def get_axes(self, op: Op, matrix: str) -> None:
        """Let an op of three axes be a matrix that gets them; who takes it flat takes the matrix."""
        self.lay_flat(op.name, matrix)
        op.become("Reshape", [matrix, self.constant(f"{op.name}/shape", op, [-1, *self.of(op.name)[1:]])])
        op.set("Tshape", dtypes.int32)

    def make(self, name: str, kind: str, beside: Op, data: list[str], shape: Symbols, **about: Any) -> str:
        """A node on the device of another one. shape: of its output, symbols for what is not known."""
        proto = NodeDef(name=self._unused(name), op=kind, device=beside.device, input=data)
        about[SHAPES] = [Shape(tuple(d if isinstance(d, int) else None for d in shape))]
        for key, value in about.items():
            proto.attr[key].CopyFrom(encode(value))
        return self.add(proto)

    def constant(self, name: str, beside: Op, value: Any) -> str:
        """An int32 constant."""
        proto = NodeDef(name=self._unused(name), op="Const", device=beside.device)
        proto.attr["dtype"].CopyFrom(encode(dtypes.int32))
        proto.attr["value"].CopyFrom(encode(np.array(value, np.int32)))
        return self.add(proto)

    def add(self, proto: NodeDef) -> str:
        self.made[proto.name] = Op(proto)
        return proto.name

    def written(self) -> None:
        """The view is as it then is; without what nobody takes any more, once it is pruned."""
        view = self.view
        if not self.made and not self.edges:
            return
        view.ops |= self.made
        view.free = view.free.union(self.made)
        view.changes += len(self.made)
        view.redirect(self.edges)
        view.ops = in_order(view.ops)
        vars(view).pop("shapes", None)  # there are others now
        view.prune()

    def _unused(self, name: str) -> str:
        taken: tuple[Mapping[str, Op], ...] = (self.view.ops, self.view.fed, self.made)
        while any(name in ops for ops in taken):
            name += "_"
        return name
