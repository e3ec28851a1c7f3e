"""Look-ups in tables by their first names in tf.contrib.layers."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_select, array_slice, embedding_sparse
from sparkflow.ops.embedding import embedding_lookup


def safe_embedding_lookup_sparse(
    embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None, combiner: str | None = None,
    default_id: int | None = None, name: str | None = None, partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """tf.nn.safe_embedding_lookup_sparse. combiner: "mean" by default."""
    return embedding_sparse.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Tensor:
    """tf.nn.embedding_lookup that looks up each id once, however often it is there."""
    with get_default_graph().name_scope(name or "EmbeddingLookupUnique"):
        ids = convert_to_tensor(ids)
        distinct, places = array_select.unique(array.reshape(ids, [-1]))
        rows = embedding_lookup(params, distinct, partition_strategy)
        sizes = array_join.concat([array.shape(ids), array.shape(rows)[1:]], 0)
        found = array.reshape(array_slice.gather(rows, places), sizes)
        found.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return found
