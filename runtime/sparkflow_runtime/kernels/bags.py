"""Look-ups of bags of ids, in the nodes that master/passes/bags.py makes of feature columns' graphs."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels import bag_loops
from sparkflow_runtime.kernels.array_slice import unique, where
from sparkflow_runtime.kernels.fill_loops import entries_of_rows, filled
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.kernels.segments import gradients_of_picked, sums_of_picked
from sparkflow_runtime.kernels.sparse import check_parts
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError


@kernel("_Entries", multi=True)
def entries(xp: Any, matrix: Any, ignored: Any) -> Any:
    """(where a matrix has something else than what is ignored, as Where gives it; what it has there)."""
    told = xp.asarray(xp.not_equal(matrix, ignored)).astype(bool, copy=False)  # of strings numpy makes objects
    return where(xp, told), matrix[told]


@kernel("_BagIds", multi=True)
def bag_ids(
    xp: Any, indices: Any, ids: Any, shape: Any, default: Any, *, only_known: bool, out_idx: DType, row_type: DType
) -> Any:
    """(the distinct ids, which of them each entry has, which rows were empty, each entry's row); the entries are in the
    order of rows, and a row without one has got the default. only_known: without the negative ids."""
    check_parts("SparseFillEmptyRows", indices, ids, shape)
    if bag_loops.handles(xp, indices, ids, (out_idx.np, row_type.np)):
        return bag_loops.numbered(indices, ids, shape, default, only_known, out_idx.np)
    if only_known and ids.size and ids.min() < 0:
        known = ids >= 0
        indices, ids = indices[known], ids[known]
    rows, places, empty = map(xp.asarray, entries_of_rows(indices, shape))
    distinct, numbers = unique(xp, filled(xp, ids, places, len(rows), default), out_idx)
    return distinct, numbers, empty, rows.astype(row_type.np, copy=False)


@kernel("_BagSums")
def _bag_sums(xp: Any, data: Any, indices: Any, ids: Any, empty: Any, *, kind: str) -> Any:
    """Each bag's rows summed, divided as `kind` says; zeros for what was empty."""
    return sums_of_picked(xp, kind, data, indices, ids, hidden=empty)


@kernel("_BagGradients")
def _bag_gradients(xp: Any, grad: Any, indices: Any, ids: Any, size: Any, empty: Any, *, kind: str) -> Any:
    """The way back to the rows; what was empty gives nothing."""
    if len(empty) != len(grad):
        raise InvalidArgumentError(f"Select: {len(empty)} rows that may be empty do not fit {len(grad)} gradients")
    return gradients_of_picked(xp, kind, grad, indices, ids, size, empty)
