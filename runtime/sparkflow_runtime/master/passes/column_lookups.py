"""Look-ups of one column of a matrix of ids, whose rows are laid flat, take the column as a vector.

GatherV2(table, ids[:, k:k + 1]) is [batch, 1, n], and Reshape(it, [-1, n]) or a Squeeze makes it [batch, n]: layers of
Keras and parts of tf.split(ids, ...) lead to that. Of ids[:, k] the rows are [batch, n] as they are, and the look-ups
meet in a ConcatV2, where the passes on placed graphs look for them. The rows and their order are the same.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.view import Op, View, in_order, producer
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.edges import edge
from sparkflow_runtime.wire.protos import NodeDef


def column_lookups(view: View) -> None:
    if any(op.op == "GatherV2" for op in view.ops.values()):
        _Columns(view).run()


class _Columns:
    def __init__(self, view: View):
        self.view, self.seen = view, view.kept | view.gates
        self.users = view.consumers()
        self.edges: dict[str, str] = {}  # what is taken instead of an edge
        self.made: dict[str, Op] = {}

    def run(self) -> None:
        view = self.view
        for op in view.ops.values():
            if op.op == "GatherV2" and self._is_free(op):
                self._join(op)
        if not self.edges:
            return
        view.ops |= self.made
        view.free = view.free.union(self.made)
        view.redirect(self.edges)
        view.drop([name for name in self.edges if name in view.ops])
        view.ops = in_order(view.ops)
        vars(view).pop("shapes", None)  # those of the look-ups have changed

    def _is_free(self, op: Op) -> bool:
        """Whether nobody else knows of it."""
        return not op.control and op.name in self.view.free and op.name not in self.seen

    def _join(self, gather: Op) -> None:
        shape = self.view.shapes.of(gather.name)
        if shape is None or len(shape) != 3 or shape[1] != 1 or not isinstance(shape[2], int):
            return
        axis = self.view.constant(gather.data[2]) if len(gather.data) == 3 else None
        flats, ids = self.users[gather.name], gather.data[1]
        if axis is None or int(axis) != 0 or gather.attr("batch_dims", 0) or not flats:
            return
        if any(not self._is_flat(f, gather.name, shape[2]) for f in flats):
            return
        column = self._column(ids)
        if column is None:
            return
        gather.data = [gather.data[0], column, gather.data[2]]
        gather.forget_shapes()
        self.edges.update((flat.name, gather.name) for flat in flats)
        for user in self.users[producer(ids)]:  # the gradient's ids
            if user.data[0] == ids and self._is_vector(user):
                self.edges[user.name] = column

    def _is_flat(self, op: Op, rows: str, width: int) -> bool:
        """Whether it makes [batch, width] of [batch, 1, width]."""
        if not self._is_free(op) or op.data[0] != rows:
            return False
        if op.op == "Squeeze":
            return list(op.attr("squeeze_dims", [])) in ([1], [-2])
        target = self.view.constant(op.data[1]) if op.op == "Reshape" else None
        return target is not None and target.tolist() == [-1, width]

    def _is_vector(self, op: Op) -> bool:
        target = self.view.constant(op.data[1]) if op.op == "Reshape" and self._is_free(op) else None
        return target is not None and target.tolist() == [-1]

    def _column(self, ids: str) -> str | None:
        """The same column as a vector; None where ids is no column of a matrix that has it."""
        op = self.view.ops.get(producer(ids))
        if op is None or ids in self.view.feeds or op.control or op.name not in self.view.free:
            return None
        if op.op == "StridedSlice" and self._takes_one(op):
            return self._shrunk(op)
        if op.op == "Split" and self._takes_apart(op):
            name, count = f"{op.name}/columns", int(op.attr("num_split"))
            if name not in self.made:
                made = NodeDef(name=name, op="Unpack", device=op.device, input=[op.data[1]])
                for key, value in (("T", op.attr("T")), ("num", count), ("axis", 1)):
                    made.attr[key].CopyFrom(encode(value))
                self._add(made, op)
            return edge(name, int(ids.partition(":")[2] or 0))
        return None

    def _takes_one(self, op: Op) -> bool:
        """Whether it is x[:, k:k + 1] of a matrix that has a column k."""
        begin, end, strides = (self.view.constant(e) for e in op.data[1:])
        if begin is None or end is None or strides is None or not len(begin) == len(end) == len(strides) == 2:
            return False
        masks = [op.attr(f"{m}_mask", 0) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
        width = self._width(op.data[0])
        if masks != [1, 1, 0, 0, 0] or width is None or list(strides) != [1, 1]:
            return False
        return 0 <= begin[1] < width and end[1] == begin[1] + 1

    def _takes_apart(self, op: Op) -> bool:
        axis = self.view.constant(op.data[0])
        return axis is not None and int(axis) in (1, -1) and self._width(op.data[1]) == op.attr("num_split")

    def _width(self, matrix: str) -> int | None:
        shape = self.view.shapes.of(matrix)
        return shape[1] if shape is not None and len(shape) == 2 and isinstance(shape[1], int) else None

    def _shrunk(self, op: Op) -> str:
        """The slice without the axis of its one column."""
        name = f"{op.name}/column"
        if name not in self.made:
            made = NodeDef()
            made.CopyFrom(op.proto)
            made.name = name
            made.input[:] = op.data
            made.attr.pop("_output_shapes", None)
            made.attr["shrink_axis_mask"].CopyFrom(encode(2))
            self._add(made, op)
        return name

    def _add(self, made: NodeDef, op: Op) -> None:
        if op.labels and "_class" not in made.attr:
            made.attr["_class"].CopyFrom(op.proto.attr["_class"])
        self.made[made.name] = Op(made)
