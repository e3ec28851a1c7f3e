"""tf.ragged.cross: what comes together in each row of several features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import math
from sparkflow.ops.feature import sparse_cross, sparse_cross_hashed
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.ops.sparse import is_sparse
from sparkflow_runtime.wire import dtypes


def ragged_cross(inputs: Sequence[Any], name: str | None = None) -> RaggedTensor:
    """The products of each row's features of all inputs, as strings joined by `_X_`.

    inputs: RaggedTensors, SparseTensors and matrices, of strings or integers, with equally many rows.
    """
    with get_default_graph().name_scope(name or "RaggedCross"):
        parts, splits, count = _parts(inputs)
        return _rows(sparse_cross(parts) if parts else _nothing(dtypes.string), splits, count)


def ragged_cross_hashed(
    inputs: Sequence[Any], num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> RaggedTensor:
    """As ragged_cross, with a number in [0, num_buckets) for each product (below 2**63 - 1 where num_buckets is 0)."""
    if num_buckets < 0:
        raise ValueError(f"tf.ragged.cross_hashed: num_buckets must not be negative, got {num_buckets}")
    with get_default_graph().name_scope(name or "RaggedCross"):
        parts, splits, count = _parts(inputs)
        found = sparse_cross_hashed(parts, num_buckets, hash_key) if parts else _nothing(dtypes.int64)
        return _rows(found, splits, count)


def _parts(inputs: Sequence[Any]) -> tuple[list[SparseTensor], dtypes.DType, int | None]:
    """All as SparseTensors, which are crossed in their order, the type of the result's row splits, and how many rows it
    has, where that is known."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"tf.ragged.cross: inputs must be a list, got {type(inputs).__name__}")
    given = [x if is_sparse(x) or isinstance(x, RaggedTensor) else convert_to_tensor(x) for x in inputs]
    for i, x in enumerate(given):
        if not (x.dtype.is_integer or x.dtype.base_dtype == dtypes.string):
            raise ValueError(f"tf.ragged.cross: inputs[{i}] must be strings or integers, got {x.dtype.name}")
        if x.shape.ndims not in (None, 2):
            raise ValueError(f"tf.ragged.cross: inputs[{i}] must have rank 2, got {x.shape.ndims}")
    rows = {x.shape[0].value for x in given if x.shape.ndims == 2} - {None}
    if len(rows) > 1:
        raise ValueError(f"tf.ragged.cross: inputs must have equally many rows, got {sorted(rows)}")
    kinds = {x.row_splits.dtype for x in given if isinstance(x, RaggedTensor)}
    splits = dtypes.int32 if kinds == {dtypes.int32} else dtypes.int64
    return [_sparse(x) for x in given], splits, next(iter(rows), None)


def _sparse(x: Any) -> SparseTensor:
    if is_sparse(x):
        return SparseTensor.from_value(x)
    return (x if isinstance(x, RaggedTensor) else RaggedTensor.from_tensor(x)).to_sparse()


def _nothing(kind: dtypes.DType) -> SparseTensor:
    return SparseTensor(np.zeros((0, 2), np.int64), convert_to_tensor([], kind), np.zeros(2, np.int64))


def _rows(found: SparseTensor, splits: dtypes.DType, count: int | None) -> RaggedTensor:
    rows = RaggedTensor.from_sparse(found)
    ends = math.cast(rows.row_splits, splits)
    if count is not None:
        ends.set_shape([count + 1])
    return RaggedTensor.from_row_splits(rows.values, ends)
