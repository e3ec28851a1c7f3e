"""Columns that are put together, or taken apart, in several steps, in one.

- A ConcatV2 of columns that goes to another one, alone or of nothing but look-ups: what it lays side by side goes to
  that one. tf.concat of embeddings, and of that and other features, is what models begin with; the passes on placed
  graphs look for the look-ups in the ConcatV2 that a layer takes.
- A Slice of a Slice: of what that was taken from. So the gradients of such ConcatV2 nodes are.
- Matrices that a Pack along axis 1 stacks, or a ConcatV2 once each has an axis of one there: they are laid side by
  side, and get that axis; the parts of an Unpack that are gradients of rows are columns.
- A Slice [batch, 1, n] of what has three axes, laid flat: columns of that, laid flat. So is a sum of such slices. They
  are gradients of rows that column_lookups.py made matrices of.
- Sums of columns that lie side by side in every addend: columns of the sum of all, with the same addends in the same
  order. The gradients of rows that several layers take are such sums, one for each table.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from sparkflow_runtime.master.passes.row_penalties import row_penalties
from sparkflow_runtime.master.passes.symbols import Symbols, words
from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.master.passes.view_edits import ViewEdits
from sparkflow_runtime.wire import dtypes


def nested_columns(view: View) -> None:
    found = {op.op for op in view.ops.values()}
    if "GatherV2" in found and found & {"Pack", "Unpack", "ConcatV2"}:
        _Stacks(view).run()
        found |= {"ConcatV2", "Slice"}
    if "Slice" in found:  # whose shapes are another use of a ConcatV2
        _FlatSlices(view).run()
        _Slices(view).run()
    if "ConcatV2" in found:
        _Concats(view).run()
    if "Slice" in found:
        row_penalties(view)
        _Sums(view).run()
    if "AddN" in found and not view.one_device:
        view.alone |= _layers_sums(ViewEdits(view))


# ---------------------------------------------------------------------- put together

_OF_ROWS = words("AddN UnsortedSegmentSum SparseApplyAdagrad SparseApplyMomentum SparseApplyFtrl SparseApplyFtrlV2")
_OF_ROWS |= words("SparseApplyRMSProp SparseApplyCenteredRMSProp SparseApplyAdadelta SparseApplyProximalAdagrad")
_OF_ROWS |= words(
    "SparseApplyProximalGradientDescent SparseApplyAdagradDA ScatterSub ScatterAdd SparseAccumulatorApplyGradient"
)


class _Stacks(ViewEdits):
    """Rows that are stacked, and gradients that are taken off such a stack."""

    def run(self) -> None:
        for op in self.view.ops.values():
            if op.op == "Pack" and self._stacks_rows(op):
                self.get_axes(op, self.side_by_side(op, op.data))
            elif op.op == "ConcatV2" and (rows := self._rows_of_one(op)):
                self.get_axes(op, self.side_by_side(op, rows))
            elif op.op == "Unpack" and self._is_of_rows(op):
                self._take_columns(op)
        self.written()

    def _stacks_rows(self, op: Op) -> bool:
        if op.control or not self.may_change(op) or op.attr("axis", 0) != 1:
            return False
        return self._are_rows(op.data) and all(len(self.of(e)) == 2 for e in op.data) and self.width(op.name) > 0

    def _are_rows(self, parts: list[str]) -> bool:
        return sum(e in self.view.ops and self.view.ops[e].op == "GatherV2" for e in parts) > 1

    def _rows_of_one(self, op: Op) -> list[str]:
        """The matrices that a ConcatV2 stacks, each with an axis of one put in."""
        if op.control or not self.may_change(op) or not self.width(op.name) or self.axis_of(op, 3) != 1:
            return []
        rows = [self._before_axis(e) for e in op.data[:-1]]
        return [e for e in rows if e] if all(rows) and self._are_rows(rows) else []

    def _before_axis(self, e: str) -> str:
        """The matrix [batch, n] that is [batch, 1, n] here, or ""."""
        op, shape = self.free(e, "ExpandDims") or self.free(e, "Reshape"), self.of(e)
        if op is None or len(shape) != 3 or shape[1] != 1:
            return ""
        before = self.of(op.data[0])
        return op.data[0] if len(before) == 2 and isinstance(before[1], int) and before[1] == shape[2] else ""

    def _is_of_rows(self, op: Op) -> bool:
        """Whether the gradients of some rows are among what it gives."""
        if not self.is_free(op) or op.attr("axis", 0) != 1 or not self.width(op.data[0]) or op.attr("num", 0) < 2:
            return False
        return sum(user.op in _OF_ROWS for user in self.users[op.name]) > 1

    def _take_columns(self, op: Op) -> None:
        whole, name = self.of(op.data[0]), f"{op.name}/columns"
        count, each = int(op.attr("num")), self.width(op.data[0]) // int(op.attr("num"))
        matrix = self.as_matrix(op.data[0], op)
        size = self.constant(f"{name}/size", op, [-1, each])
        for k in range(count):
            begin = self.constant(f"{name}/begin{k}", op, [0, k * each])
            about = {"T": op.attr("T"), "Index": dtypes.int32}
            part = self.make(f"{name}/{k}", "Slice", op, [matrix, begin, size], (whole[0], each), **about)
            self.edges[f"{op.name}:{k}" if k else op.name] = part


class _Concats(ViewEdits):
    """Columns of columns. Of look-ups too that others take side by side: fuse_embeddings.py sees to both."""

    def run(self) -> None:
        for op in self.view.ops.values():  # producers come first
            if op.op == "ConcatV2" and self.may_change(op) and self._is_of_columns(op):
                *parts, axis = op.data
                flat = [e for part in parts for e in self._inside(part, op)]
                if flat != parts:
                    op.data = [*flat, axis]
                    op.set("N", len(flat))
                    self.view.changes += 1
        self.view.prune()

    def _is_of_columns(self, op: Op) -> bool:
        return len(self.of(op.name)) == 2 and self.axis_of(op, 2) == 1

    def _inside(self, part: str, op: Op) -> list[str]:
        """What a part lays side by side itself."""
        inner = self.free(part, "ConcatV2")
        if inner is None or not self._is_of_columns(inner) or not self.view.same_place(inner, op):
            return [part]
        alone = self.users[part] == [op] or (self._looks_up(inner) and op.data.count(part) == 1)
        return inner.data[:-1] if alone else [part]

    def _looks_up(self, concat: Op) -> bool:
        return all(e in self.view.ops and self.view.ops[e].op == "GatherV2" for e in concat.data[:-1])


# ---------------------------------------------------------------------- taken apart


def _layers_sums(edits: ViewEdits) -> set[str]:
    """Sums of gradients of rows, one of them a layer's: split_sums.py looks for them."""
    view, users = edits.view, edits.users

    def is_of_rows(op: Op) -> bool:
        return op.op == "Slice" and all(user.op in _OF_ROWS for user in users[op.name])

    def is_layers(e: str) -> bool:
        part = edits.free(e, "Slice")
        op = view.ops.get(part.data[0] if part is not None else e)
        return op is not None and op.op == "MatMul" and bool(op.attr("transpose_b"))

    sums = [op for op in view.ops.values() if op.op == "AddN" and op.name in view.free and len(users[op.name]) > 1]
    return {op.name for op in sums if all(map(is_of_rows, users[op.name])) and any(map(is_layers, op.data))}


class _Slices(ViewEdits):
    """Slices of slices."""

    def __init__(self, view: View):
        super().__init__(view)
        self.joined: dict[str, tuple[list[int], list[int]]] = {}  # the bounds of what has become one

    def run(self) -> None:
        for op in self.view.ops.values():  # producers come first
            whole = self.free(op.data[0], "Slice") if op.op == "Slice" and self.may_change(op) else None
            if whole is not None and self.view.same_place(whole, op):
                self._join(op, whole)
        self.written()

    def _join(self, op: Op, whole: Op) -> None:
        first, second = self.bounds(whole), self.bounds(op)
        if first is None or second is None or len(first[0]) != len(second[0]):
            return
        source, begins, sizes = self.of(whole.data[0]), [], []
        for axis, ((at, size), (begin, wanted)) in enumerate(zip(zip(*first), zip(*second))):
            if min(at, begin) < 0 or (size >= 0 and begin + max(wanted, 0) > size):
                return  # it is for the kernel to say so
            if size >= 0 and 0 <= wanted != size - begin and not self._holds(source, axis, at + size):
                return  # the first may reach past its source, and the two as one would not
            begins.append(at + begin)
            sizes.append(wanted if wanted >= 0 or size < 0 else size - begin)
        self.joined[op.name] = begins, sizes
        op.data = [whole.data[0], self.constant(f"{op.name}/begin", op, begins)]
        op.data.append(self.constant(f"{op.name}/size", op, sizes))
        op.set("Index", dtypes.int32)

    @staticmethod
    def _holds(source: Symbols, axis: int, end: int) -> bool:
        dim = source[axis] if axis < len(source) else None
        return isinstance(dim, int) and end <= dim

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
        (first, at, column), (count, one, width) = bounds
        _, rows, columns = given
        if first != 0 or count not in (-1, given[0]) or not isinstance(rows, int) or not isinstance(columns, int):
            return None
        one, width = (rows - at if one < 0 else one), (columns - column if width < 0 else width)
        if one != 1 or not 0 <= at < rows or not 0 <= column <= columns - width:
            return None
        begin = self.constant(f"{op.name}/columns/begin", op, [0, at * columns + column])
        size = self.constant(f"{op.name}/columns/size", op, [-1, width])
        data = [self.as_matrix(op.data[0], op), begin, size]
        about = {"T": op.attr("T"), "Index": dtypes.int32}
        return self.make(f"{op.name}/columns", "Slice", op, data, (given[0], width), **about)

    def _sum(self, op: Op) -> str | None:
        parts, shape = [self._flat(e) for e in op.data], self.view.shapes.of(op.name) or ()
        if None in parts:
            return None
        about = {"N": len(parts), "T": op.attr("T")}
        data = [e for e in parts if e is not None]
        return self.make(f"{op.name}/columns", "AddN", op, data, (shape[0], shape[2]), **about)


class _Sum(NamedTuple):
    """An AddN of so many columns of each of some matrices."""

    op: Op
    sources: tuple[str, ...]
    begins: list[int]
    width: int


class _Sums(_Slices):
    """Sums of columns of the same matrices."""

    def run(self) -> None:
        groups: dict[tuple[str, ...], list[_Sum]] = defaultdict(list)
        for op in self.view.ops.values():
            if op.op == "AddN" and (found := self._sum(op)) is not None:
                groups[op.device, *found.sources].append(found)
        for group in groups.values():
            group.sort(key=lambda one: one.begins[0])
            beside = [[a + one.width for a in one.begins] == after.begins for one, after in pairwise(group)]
            if len(group) > 1 and all(beside):
                self._sum_at_once(group)
        self.written()

    def _sum(self, op: Op) -> _Sum | None:
        if op.control or not self.may_change(op) or len(op.data) < 2:
            return None
        parts = [part for e in op.data if (part := self.free(e, "Slice")) is not None]
        places = [place for part in parts if (place := self._place(part)) is not None]
        if len(places) < len(op.data) or len({width for _, width in places}) > 1:
            return None
        return _Sum(op, tuple(part.data[0] for part in parts), [begin for begin, _ in places], places[0][1])

    def _place(self, part: Op) -> tuple[int, int] | None:
        """(first column, columns) of columns of all rows of a matrix."""
        found, whole = self.bounds(part), self.of(part.data[0])
        if found is None or len(whole) != 2 or found[0][0] != 0 or found[1][0] not in (-1, whole[0]):
            return None
        begin, size = found[0][1], found[1][1]
        return (begin, size) if begin >= 0 and size > 0 else None

    def _sum_at_once(self, group: list[_Sum]) -> None:
        first, (rows, _) = group[0].op, self.of(group[0].op.name)
        wide, parts, about = sum(one.width for one in group), [], {"T": first.attr("T")}
        for k, (source, begin) in enumerate(zip(group[0].sources, group[0].begins)):
            if begin or self.of(source)[1] != wide:
                places = [self.constant(f"{first.name}/{k}", first, at) for at in ([0, begin], [-1, wide])]
                sliced = about | {"Index": dtypes.int32}
                source = self.make(f"{first.name}/{k}", "Slice", first, [source, *places], (rows, wide), **sliced)
            parts.append(source)
        total = self.make(f"{first.name}/sum", "AddN", first, parts, (rows, wide), N=len(parts), **about)
        for one in group:
            begin = one.begins[0] - group[0].begins[0]
            places = [self.constant(f"{one.op.name}/at", one.op, at) for at in ([0, begin], [-1, one.width])]
            one.op.become("Slice", [total, *places])
            one.op.set("Index", dtypes.int32)
