"""Columns that are put together, or taken apart, in several steps, in one.

- A ConcatV2 of columns that goes to another one alone: what it lays side by side goes to that one. tf.concat of
  embeddings, and of that and other features, is what models begin with; the passes on placed graphs look for the
  look-ups in the ConcatV2 that a layer takes.
- A Slice of a Slice: of what that was taken from. So the gradients of such ConcatV2 nodes are.
- A Slice [batch, 1, n] of what has three axes, laid flat: columns of that, laid flat. So is a sum of such slices. They
  are gradients of rows that column_lookups.py made matrices of.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.master.passes.view_edits import ViewEdits
from sparkflow_runtime.wire import dtypes


def nested_columns(view: View) -> None:
    found = {op.op for op in view.ops.values()}
    if "Slice" in found:  # whose shapes are another use of a ConcatV2
        _FlatSlices(view).run()
        _Slices(view).run()
    if "ConcatV2" in found:
        _join_concats(ViewEdits(view))


# ---------------------------------------------------------------------- put together


def _join_concats(edits: ViewEdits) -> None:
    for op in edits.view.ops.values():  # producers come first
        if op.op == "ConcatV2" and op.name in edits.view.free and _is_of_columns(edits, op):
            *parts, axis = op.data
            flat = [e for part in parts for e in _inside(edits, part, op)]
            if flat != parts:
                op.data = [*flat, axis]
                op.set("N", len(flat))
                edits.view.changes += 1
    edits.view.prune()


def _is_of_columns(edits: ViewEdits, op: Op) -> bool:
    shape = edits.view.shapes.of(op.name)
    fed = op.name in edits.view.fed_nodes
    return not fed and shape is not None and len(shape) == 2 and edits.axis_of(op, 2) == 1


def _inside(edits: ViewEdits, part: str, op: Op) -> list[str]:
    """What a part lays side by side itself, where only this node takes it."""
    inner = edits.free(part, "ConcatV2")
    if inner is None or edits.users[part] != [op] or not edits.view.same_place(inner, op):
        return [part]
    return inner.data[:-1] if _is_of_columns(edits, inner) else [part]


# ---------------------------------------------------------------------- taken apart


class _Slices(ViewEdits):
    """Slices of slices."""

    def __init__(self, view: View):
        super().__init__(view)
        self.joined: dict[str, tuple[list[int], list[int]]] = {}  # the bounds of what has become one

    def run(self) -> None:
        for op in self.view.ops.values():  # producers come first
            whole = self.free(op.data[0], "Slice") if op.op == "Slice" and op.name in self.view.free else None
            if whole is not None and self.view.same_place(whole, op):
                self._join(op, whole)
        self.written()

    def _join(self, op: Op, whole: Op) -> None:
        first, second = self.bounds(whole), self.bounds(op)
        if first is None or second is None or len(first[0]) != len(second[0]):
            return
        begins, sizes = [], []
        for (at, size), (begin, wanted) in zip(zip(*first), zip(*second)):
            if min(at, begin) < 0 or (size >= 0 and begin + max(wanted, 0) > size):
                return  # it is for the kernel to say so
            begins.append(at + begin)
            sizes.append(wanted if wanted >= 0 or size < 0 else size - begin)
        self.joined[op.name] = begins, sizes
        op.data = [whole.data[0], self.constant(f"{op.name}/begin", op, begins)]
        op.data.append(self.constant(f"{op.name}/size", op, sizes))
        op.set("Index", dtypes.int32)

    def bounds(self, op: Op) -> tuple[list[int], list[int]] | None:
        """Where a Slice begins, and its sizes, where constants say so."""
        if op.name in self.joined:
            return self.joined[op.name]
        begin, size = (self.view.constant(e) for e in op.data[1:])
        if begin is None or size is None or begin.ndim != 1 or begin.shape != size.shape:
            return None
        return begin.tolist(), size.tolist()


class _FlatSlices(_Slices):
    """Slices of what has three axes that are laid flat."""

    def __init__(self, view: View):
        super().__init__(view)
        self.flat: dict[str, str | None] = {}  # rows [batch, 1, n] -> a matrix of them
        self.wholes: dict[str, str] = {}  # what slices are of -> it as a matrix

    def run(self) -> None:
        for op in self.view.ops.values():
            if op.op == "Reshape" and self.is_free(op) and self._lays_flat(op):
                found = self._flat(op.data[0])
                if found is not None:
                    self.edges[op.name] = found
        self.written()

    def _lays_flat(self, op: Op) -> bool:
        rows, flat = self.view.shapes.of(op.data[0]), self.view.shapes.of(op.name)
        if rows is None or flat is None or len(rows) != 3 or len(flat) != 2 or rows[1] != 1:
            return False
        return isinstance(rows[2], int) and rows[2] == flat[1]

    def _flat(self, rows: str) -> str | None:
        if rows not in self.flat:
            self.flat[rows] = None
            if (part := self.free(rows, "Slice")) is not None:
                self.flat[rows] = self._columns(part)
            elif (total := self.free(rows, "AddN")) is not None:
                self.flat[rows] = self._sum(total)
        return self.flat[rows]

    def _columns(self, op: Op) -> str | None:
        """Of a Slice [batch, 1, n]."""
        given, bounds = self.view.shapes.of(op.data[0]), self.bounds(op)
        if given is None or bounds is None or len(given) != 3:
            return None
        (first, at, column), (count, _, width) = bounds
        _, rows, columns = given
        if first != 0 or count not in (-1, given[0]) or not isinstance(rows, int) or not isinstance(columns, int):
            return None
        if not 0 <= at < rows or column < 0 or width < 0 or column + width > columns:
            return None
        begin = self.constant(f"{op.name}/columns/begin", op, [0, at * columns + column])
        size = self.constant(f"{op.name}/columns/size", op, [-1, width])
        data = [self._whole(op.data[0], rows * columns, op), begin, size]
        about = {"T": op.attr("T"), "Index": dtypes.int32}
        return self.make(f"{op.name}/columns", "Slice", op, data, (given[0], width), **about)

    def _whole(self, e: str, width: int, op: Op) -> str:
        """What has three axes as a matrix: what it was before it got them, if it was one."""
        if e not in self.wholes:
            source = self.free(e, "Reshape")
            before = self.view.shapes.of(source.data[0]) if source is not None else None
            if source is not None and before is not None and len(before) == 2 and before[1] == width:
                self.wholes[e] = source.data[0]
            else:
                name, (rows, *_) = f"{op.name}/whole", self.view.shapes.of(e) or ("",)
                data = [e, self.constant(f"{name}/shape", op, [-1, width])]
                about = {"T": op.attr("T"), "Tshape": dtypes.int32}
                self.wholes[e] = self.make(name, "Reshape", op, data, (rows, width), **about)
        return self.wholes[e]

    def _sum(self, op: Op) -> str | None:
        parts, shape = [self._flat(e) for e in op.data], self.view.shapes.of(op.name) or ()
        if None in parts:
            return None
        about = {"N": len(parts), "T": op.attr("T")}
        data = [e for e in parts if e is not None]
        return self.make(f"{op.name}/columns", "AddN", op, data, (shape[0], shape[2]), **about)
