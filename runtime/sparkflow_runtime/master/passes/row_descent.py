"""Gradient descent of the rows of a gradient, as an optimizer writes it in ops, as one `_SparseApplyGradientDescent`.

    var[ids] -= rate * grad

Rows of one id are subtracted one after the other, as ScatterSub does it. As an update like those of other optimizers
its rows are summed where they are made if the table lies on another task (distinct_rows.py), and many tables are one op
(fuse_embeddings.py). Rows that are the table's own memory stay a product: that has them as they were before the update.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.joined_updates import Finder, Found, both_ways
from sparkflow_runtime.master.passes.view import Op, View, producer
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import on_cpu

_FLOATS = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16


def join_row_descent(view: View) -> None:
    """Replace what is found. Only the subtractions keep their names."""
    finder = Finder(view)
    updates = [op for op in view.ops.values() if op.op == "ScatterSub" and on_cpu(op.device)]
    finder.put(found for op in updates if (found := _descent(finder, op)))


def _descent(finder: Finder, update: Op) -> Found | None:
    table, ids, moved = update.data
    product = finder.own(update, moved, ("Mul",))
    if product is None or update.name not in finder.view.free or not finder.are_alike(table):
        return None
    shape = finder.shape(ids)
    if update.attr("T") not in _FLOATS or not isinstance(shape, tuple) or len(shape) != 1:
        return None
    for grad, rate in both_ways(product):
        if finder.shape(rate) == () and finder.rows_of(update, grad) and not _may_be(finder.view, grad, table):
            return update, "_SparseApplyGradientDescent", [table, rate, grad, ids], [product]
    return None


def _may_be(view: View, e: str, table: str) -> bool:
    """Whether an edge may carry the memory of a table: what a view shows of it, or hands on."""
    seen, todo = set[str](), [e]
    while todo:
        e = todo.pop()
        op = view.ops.get(producer(e))
        if op is None or e in view.feeds or op.name in seen:
            continue
        if op.name == table:
            return True
        seen.add(op.name)
        if op.row is None or op.row.aliases or op.row.refs:
            todo += op.data
    return False
