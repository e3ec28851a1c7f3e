"""Sparse gradients of many tables that every worker of a ring gives and gets at once: two collectives, however many
tables there are. What the nodes do is said in the runtime's kernels/gathered_rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape

KINDS = (dtypes.float32, dtypes.float64)


def _rows(op: Operation) -> list[Dims]:
    return [(None, *shape.dims) for shape in op.attrs["row_shapes"]]


op("_RowsToGather", "ids: N * Tidx, rows: N * T -> head: int64, flat: T", lambda op: [(None,)] * 2)
op("_GatheredRows", "head: int64, flat: T -> rows: T, ids: int64, counts: int64", lambda op: [(None,)] * 3)
op("_SplitRows", "flat: T, counts: int64 -> output: N * T", _rows)
op("_SplitIds", "ids: int64, counts: int64 -> output: N * int64", lambda op: [(None,)] * op.attrs["N"])


def fits(grad: IndexedSlices) -> bool:
    """Whether `rows_of_all` takes it: of a float type, and rows of a known shape."""
    dims = grad.values._shape
    return grad.values.dtype.base_dtype in KINDS and bool(dims) and shapes.fully_known((dims or ())[1:])


def rows_of_all(
    grads: Sequence[IndexedSlices], gather: Callable[[Tensor], Tensor], share: float, distinct: bool
) -> list[IndexedSlices]:
    """Of each gradient the rows of all workers, times `share`, in the workers' order; the gradients are of one type.

    distinct: what a worker and all workers give of one row is added up, so that no index is there twice. gather:
    all-gather of a vector along its axis.
    """
    row_shapes = [Shape((g.values._shape or ())[1:]) for g in grads]
    about: dict[str, Any] = {"N": len(grads), "row_shapes": row_shapes, "distinct": distinct}
    kinds = {g.indices.dtype.base_dtype for g in grads}
    ids = [g.indices if len(kinds) == 1 else math.cast(g.indices, dtypes.int64) for g in grads]
    head, flat = apply_op("_RowsToGather", [ids, [g.values for g in grads]], about, "rows_to_gather")
    told = [gather(head), gather(flat)]
    rows, numbers, counts = apply_op("_GatheredRows", told, {**about, "share": share}, "gathered_rows")
    parts = {"N": len(grads), "of": [*range(len(grads))]}
    values = apply_op("_SplitRows", [rows, counts], {**parts, "row_shapes": row_shapes}, "rows")
    if distinct:
        indices = apply_op("_SplitIds", [numbers, counts], parts, "ids")
    else:
        scalars = [Shape(())] * len(grads)
        indices = apply_op("_SplitRows", [numbers, counts], {**parts, "row_shapes": scalars}, "ids")
    return [IndexedSlices(v, i, g.dense_shape) for v, i, g in zip(values, indices, grads, strict=True)]
