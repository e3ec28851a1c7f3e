"""Look-ups of several rows for each example, combined: the bags of ids that a SparseTensor holds."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, array_join, array_select, array_slice, math, math_reduce, segments, sparse
from sparkflow.ops.embedding import embedding_lookup
from sparkflow_runtime.wire import dtypes

_COMBINE = {
    "sum": segments.sparse_segment_sum,
    "mean": segments.sparse_segment_mean,
    "sqrtn": segments.sparse_segment_sqrt_n,
}


def embedding_lookup_sparse(
    params: Any, sp_ids: Any, sp_weights: Any, partition_strategy: str = "mod", name: str | None = None,
    combiner: str | None = None, max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """[rows, ...]: for each row of sp_ids its rows of the table, combined: "sum", "mean" (default) or "sqrtn".

    sp_weights: a weight for each id (of sp_ids' indices), or None for 1. Raises ValueError on another combiner,
    TypeError where sp_ids is no SparseTensor.
    """
    kind = combiner or "mean"
    if kind not in _COMBINE:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner!r}")
    if not sparse.is_sparse(sp_ids) or not (sp_weights is None or sparse.is_sparse(sp_weights)):
        raise TypeError("sp_ids must be SparseTensor, and sp_weights either None or SparseTensor")
    ids = SparseTensor.from_value(sp_ids)
    with get_default_graph().name_scope(name or "embedding_lookup_sparse") as scope:
        rows = math.cast(ids.indices[:, 0], dtypes.int32)
        once, where = array_select.unique(ids.values)
        found = embedding_lookup(params, once, partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            return _COMBINE[kind](found, where, rows, name=scope)
        return _weighted(found, where, rows, SparseTensor.from_value(sp_weights).values, kind, scope)


def _weighted(found: Tensor, where: Tensor, rows: Tensor, weights: Tensor, kind: str, scope: str) -> Tensor:
    weights = math.cast(weights, found.dtype)
    each = array_slice.gather(found, where)
    rank = len(each._shape or (None, None))
    spread = array.reshape(weights, [-1] + [1] * (rank - 1))
    total = math_reduce.segment_sum(math.multiply(each, spread), rows)
    if kind == "sum":
        return array.identity(total, name=scope)
    if kind == "mean":
        return math.div_no_nan(total, math_reduce.segment_sum(spread, rows), name=scope)
    return math.div_no_nan(total, math.sqrt(math_reduce.segment_sum(math.square(spread), rows)), name=scope)


def _as_matrix(sp: SparseTensor) -> SparseTensor:
    """All axes but the last as one."""
    return sparse.sparse_reshape(
        sp, array_join.stack([math_reduce.reduce_prod(sp.dense_shape[:-1]), sp.dense_shape[-1]])
    )


def safe_embedding_lookup_sparse(
    embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None, combiner: str = "mean", default_id: Any = None,
    name: str | None = None, partition_strategy: str = "div", max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """embedding_lookup_sparse that leaves out negative ids and weights of at most 0; a row without ids gives zeros, or
    the row of default_id. Ids [d0, ..., dn] give [d0, ..., dn-1, *size]: those along the last axis are combined."""
    ids = SparseTensor.from_value(sparse_ids)
    weights = None if sparse_weights is None else SparseTensor.from_value(sparse_weights)
    if (rank_of(ids) or 2) > 2:
        with get_default_graph().name_scope(name or "embedding_lookup"):
            flat, flat_weights = _as_matrix(ids), None if weights is None else _as_matrix(weights)
            out = safe_embedding_lookup_sparse(
                embedding_weights, flat, flat_weights, combiner, default_id, None, partition_strategy, max_norm
            )
            wide = array.reshape(
                out, array_join.concat([ids.dense_shape[:-1], array.shape(out, out_type=dtypes.int64)[1:]], 0)
            )
            if out._shape is not None:
                wide.set_shape(ids.shape[:-1].concatenate(out._shape[1:]))
            return wide
    with get_default_graph().name_scope(name or "embedding_lookup") as scope:
        valid = math.greater_equal(ids.values, 0)
        if weights is not None:
            valid = math.logical_and(valid, math.greater(weights.values, 0)) if combiner != "sum" else valid
            weights = sparse.sparse_retain(weights, valid)
        ids = sparse.sparse_retain(ids, valid)
        ids, empty = sparse.sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse.sparse_fill_empty_rows(weights, 1.0)
        out = embedding_lookup_sparse(embedding_weights, ids, weights, partition_strategy, None, combiner, max_norm)
        if default_id is None:
            out = array_select.where(empty, array.zeros_like(out), out)
        found, whole = array.identity(out, name=scope), ids.shape.dims_
        if whole and found._shape is not None:
            found.set_shape((whole[0], *found._shape[1:]))
        return found
