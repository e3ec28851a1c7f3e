"""Look-ups by one column of ids, whose rows are laid flat or side by side, take the column as a vector.

GatherV2(table, ids) of ids [batch, 1] is [batch, 1, n]: of ids[:, k:k + 1], of parts of tf.split(ids, ...), and of the
inputs of Keras' Embedding. A Reshape to [-1, n], a Squeeze or a ConcatV2 of such rows leads back to two axes. Of a
vector of ids the rows are [batch, n] as they are, and the look-ups meet in a ConcatV2 of columns, where the passes on
placed graphs look for them. The rows and their order are the same.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.master.passes.view_edits import ViewEdits
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.edges import edge
from sparkflow_runtime.wire.protos import NodeDef


def column_lookups(view: View) -> None:
    if any(op.op == "GatherV2" for op in view.ops.values()):
        _Columns(view).run()


class _Columns(ViewEdits):
    def __init__(self, view: View):
        super().__init__(view)
        self.rows: dict[str, Op] = {}  # look-ups of [batch, 1, n]
        self.joined: dict[str, Op] = {}  # ConcatV2 of nothing but them
        self.vectors: dict[str, str] = {}  # ids -> them as a vector
        self.flat: dict[tuple[str, ...], str] = {}  # what is laid side by side, and its device -> the ConcatV2

    def run(self) -> None:
        ops = self.view.ops.values()
        self.rows = {op.name: op for op in ops if op.op == "GatherV2" and self._is_thin(op)}
        if not self.rows:
            return
        self.joined = {op.name: op for op in ops if op.op == "ConcatV2" and self._joins(op)}
        self._settle()
        if not self.rows:
            return
        for op in self.rows.values():
            op.data = [op.data[0], self.vectors[op.data[1]], op.data[2]]
            op.forget_shapes()
            self.lay_flat(op.name, op.name)
        for op in self.joined.values():
            self._lay_side_by_side(op)
        for op in ops:  # the gradients' ids
            if op.op == "Reshape" and op.data[0] in self.vectors and self._is_vector(op):
                self.edges[op.name] = self.vectors[op.data[0]]
        self.written()

    # ------------------------------------------------------------------ what is there

    def _is_thin(self, gather: Op) -> bool:
        shape = self.view.shapes.of(gather.name)
        if shape is None or len(shape) != 3 or shape[1] != 1 or not self.width(gather.name):
            return False  # nothing of no width: [-1, 0] says not how many rows that are
        axis = self.view.constant(gather.data[2]) if len(gather.data) == 3 else None
        return axis is not None and int(axis) == 0 and not gather.attr("batch_dims", 0) and self.is_free(gather)

    def _joins(self, concat: Op) -> bool:
        """Whether it lays rows of look-ups side by side, or as many rows of one width behind each other."""
        parts = concat.data[:-1]
        if concat.control or not self.may_change(concat) or not all(e in self.rows for e in parts):
            return False
        axis, widths = self.axis_of(concat, 3), {self.width(e) for e in parts}
        return axis == 2 or (axis == 1 and len(widths) == 1)

    def _settle(self) -> None:
        """Only look-ups stay whose rows all that take them can take flat, and whose ids can be had as a vector."""
        while True:
            lost = [op.name for op in self.rows.values() if not self._all_flat(op) or self._vector(op) is None]
            for name in lost:
                del self.rows[name]
            gone = [op.name for op in self.joined.values() if not all(e in self.rows for e in op.data[:-1])]
            for name in gone:
                del self.joined[name]
            if not lost and not gone:
                return

    def _all_flat(self, gather: Op) -> bool:
        users = self.users[gather.name]
        return bool(users) and all(u.name in self.joined or self.is_flat(u, gather.name) for u in users)

    def _is_vector(self, op: Op) -> bool:
        target = self.view.constant(op.data[1]) if self.is_free(op) else None
        return target is not None and target.tolist() == [-1]

    # ------------------------------------------------------------------ what is put in its place

    def _lay_side_by_side(self, concat: Op) -> None:
        parts = concat.data[:-1]
        key = (*parts, concat.device)
        if key not in self.flat:
            self.flat[key] = self.side_by_side(concat, parts)
        self.get_axes(concat, self.flat[key])

    def _vector(self, gather: Op) -> str | None:
        ids = gather.data[1]
        if ids not in self.vectors:
            found = self._column(ids) or self._reshaped(ids, gather)
            if found is None:
                return None
            self.vectors[ids] = found
        return self.vectors[ids]

    def _reshaped(self, ids: str, gather: Op) -> str | None:
        """Any ids [batch, 1] as a vector, where they come from."""
        name, _, port = ids.partition(":")
        op = self.view.ops.get(name) or self.view.fed.get(name)
        shape = self.view.shapes.of(ids)
        if op is None or (name in self.view.ops and name not in self.view.free) or shape is None or len(shape) != 2:
            return None
        name = f"{name}/vector{port}"
        about = {"T": gather.attr("Tindices"), "Tshape": dtypes.int32}
        return self.make(name, "Reshape", op, [ids, self.constant(f"{name}/shape", op, [-1])], shape[:1], **about)

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
                self._beside(made, op)
            return edge(name, int(ids.partition(":")[2] or 0))
        return None

    def _takes_one(self, op: Op) -> bool:
        """Whether it is x[:, k:k + 1] of a matrix that has a column k."""
        begin, end, strides = (self.view.constant(e) for e in op.data[1:])
        if begin is None or end is None or strides is None or not len(begin) == len(end) == len(strides) == 2:
            return False
        masks = [op.attr(f"{m}_mask", 0) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")]
        width = self._columns_of(op.data[0])
        if masks != [1, 1, 0, 0, 0] or width is None or list(strides) != [1, 1]:
            return False
        return 0 <= begin[1] < width and end[1] == begin[1] + 1

    def _takes_apart(self, op: Op) -> bool:
        axis = self.view.constant(op.data[0])
        return axis is not None and int(axis) in (1, -1) and self._columns_of(op.data[1]) == op.attr("num_split")

    def _columns_of(self, matrix: str) -> int | None:
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
            self._beside(made, op)
        return name

    def _beside(self, made: NodeDef, op: Op) -> None:
        if op.labels and "_class" not in made.attr:
            made.attr["_class"].CopyFrom(op.proto.attr["_class"])
        self.add(made)
