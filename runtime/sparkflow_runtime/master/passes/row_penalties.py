"""Gradients of penalties on rows, table by table, where the rows lie side by side for a layer: of all rows at once.

The gradient of tf.nn.l2_loss(rows) is rows * dy, and is added to the columns of the layer's gradient that are these
rows'. With dy of all tables the same, as where the penalties are summed, they are columns of side_by_side * dy, and the
sums are columns of one sum (nested_columns.py). Each number is the same product.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from sparkflow_runtime.master.passes.events import events_before
from sparkflow_runtime.master.passes.view import Op, View
from sparkflow_runtime.master.passes.view_edits import ViewEdits
from sparkflow_runtime.wire import dtypes


def row_penalties(view: View) -> None:
    found = {op.op for op in view.ops.values()}
    if found >= {"GatherV2", "ConcatV2", "Slice", "AddN", "Mul"}:
        _Penalties(view).run()


class _Penalties(ViewEdits):
    def run(self) -> None:
        for op in list(self.view.ops.values()):
            if op.op == "ConcatV2" and self.may_change(op) and len(self.of(op.name)) == 2 and self.axis_of(op, 2) == 1:
                self._of_rows_in(op)
        self.written()

    def _of_rows_in(self, concat: Op) -> None:
        parts, begin, columns = concat.data[:-1], 0, dict[str, tuple[int, int]]()
        for e in parts:
            shape = self.of(e)
            if len(shape) != 2 or not isinstance(shape[1], int):
                return
            if e in self.view.ops and self.view.ops[e].op == "GatherV2":
                columns[e] = begin, shape[1]
            begin += shape[1]
        if 2 * sum(width for _, width in columns.values()) < begin:
            return  # most of what would be multiplied is no table's
        products = defaultdict[str, dict[str, Op]](dict)  # factor -> of which rows
        for e in columns if len({*parts}) == len(parts) else ():
            for user in self.users[e]:
                factor = user.data[user.data[0] == e] if self._is_penalty(user, concat) else e
                if factor != e and self.view.shapes.of(factor) == ():
                    products[factor].setdefault(e, user)
        for factor, found in products.items():
            if len(found) < len(columns) or len(found) < 2:
                continue
            takes = [op for e in columns for op in self.users[e] if op is not concat and op is not found[e]]
            near = all(self.may_change(op) and self.view.same_place(op, concat) for op in takes)
            near = near and all(self._waits_for_all_of(concat, op) for op in (*found.values(), *takes))
            if near and not self._leads_to(concat, {op.name for op in (*found.values(), *takes)}):
                self._at_once(concat, factor, found, columns)
                return

    def _is_penalty(self, op: Op, concat: Op) -> bool:
        """Whether it is added to nothing but a gradient's columns."""
        users = self.users[op.name]
        if op.op != "Mul" or not users or not self.is_free(op) or not self.view.same_place(op, concat):
            return False
        return all(u.op == "AddN" and any(self.free(e, "Slice") for e in u.data if e != op.name) for u in users)

    @cached_property
    def _events(self) -> dict[str, int]:
        return events_before(self.view)

    def _waits_for_all_of(self, concat: Op, op: Op) -> bool:
        """Whether an op waits for every asynchronous op already that the rest of what is side by side does."""
        return not self._events[concat.name] & ~self._events[op.name]

    def _leads_to(self, concat: Op, names: set[str]) -> bool:
        """Whether what is side by side comes of one of these."""
        todo, seen = [concat.name], set[str]()
        while todo:
            name = todo.pop()
            op = self.view.ops.get(name) or self.made.get(name)
            if name in names:
                return True
            if name not in seen and op is not None:
                seen.add(name)
                todo += [e.partition(":")[0] for e in op.data] + list(op.control)
        return False

    def _at_once(self, concat: Op, factor: str, found: dict[str, Op], columns: dict[str, tuple[int, int]]) -> None:
        """Who else takes the rows, as the penalty itself does, takes them from where they lie side by side."""
        first, about = next(iter(found.values())), {"T": concat.attr("T"), "Index": dtypes.int32}
        whole = self.make(f"{first.name}/rows", "Mul", first, [concat.name, factor], self.of(concat.name), T=about["T"])
        for e, (begin, width) in columns.items():
            op, name = found[e], found[e].name
            places = [self.constant(f"{name}/at", op, [0, begin]), self.constant(f"{name}/of", op, [-1, width])]
            op.become("Slice", [whole, *places])
            op.set("Index", dtypes.int32)
            others = {u.name: u for u in self.users[e] if u is not concat and u is not op}
            if others:
                part = self.make(f"{name}/part", "Slice", op, [concat.name, *places], self.of(e), **about)
            for user in others.values():
                user.data = [part if edge == e else edge for edge in user.data]
