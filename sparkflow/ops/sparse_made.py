"""SparseTensors made of tensors, and with a further axis."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, array_join, array_select, array_slice, math, operators  # noqa: F401 - x + y
from sparkflow.ops.sparse import sparse_reshape
from sparkflow_runtime.wire import dtypes


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The values of a tensor that are not zero (not empty strings)."""
    with get_default_graph().name_scope(name or "dense_to_sparse"):
        tensor = convert_to_tensor(tensor)
        nothing = array.zeros_like(tensor)
        where = array_select.where(math.not_equal(tensor, nothing))
        return SparseTensor(where, array_slice.gather_nd(tensor, where), array.shape(tensor, out_type=dtypes.int64))


def sparse_expand_dims(sp_input: Any, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """A size of 1 more, before `axis` (behind all axes without it, as -1). Raises ValueError on an axis outside."""
    sparse = SparseTensor.from_value(sp_input)
    with get_default_graph().name_scope(name or "expand_dims"):
        rank = rank_of(sparse)
        at = -1 if axis is None else axis
        if rank is None or not -rank - 1 <= at <= rank:
            raise ValueError(f"expand_dims: axis {at} is outside of a rank of {rank}, or the rank is not known")
        at = at + rank + 1 if at < 0 else at
        one = array.ones([1], dtypes.int64)
        shape = array_join.concat([sparse.dense_shape[:at], one, sparse.dense_shape[at:]], 0)
        return sparse_reshape(sparse, shape)


def sparse_eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """Ones on the diagonal of [num_rows, num_columns]."""
    with get_default_graph().name_scope(name or "eye"):
        columns = num_rows if num_columns is None else num_columns
        known = isinstance(num_rows, int) and isinstance(columns, int)
        count = min(num_rows, columns) if known else math.minimum(num_rows, columns)
        places = math.cast(math.range(count), dtypes.int64)
        ones = array.ones(array_join.stack([count]), dtypes.as_dtype(dtype))
        shape = array_join.stack([math.cast(n, dtypes.int64) for n in (num_rows, columns)])
        return SparseTensor(array_join.stack([places, places], 1), ones, shape)
