"""Look-ups in tables by their first names in tf.contrib.layers."""

from __future__ import annotations

from typing import Any

from sparkflow.contrib.arg_scopes import add_arg_scope
from sparkflow.contrib.framework import model_variable
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, array_join, array_select, array_slice, embedding_sparse, math_reduce
from sparkflow.ops.embedding import embedding_lookup
from sparkflow.ops.sparse_made import from_dense
from sparkflow.ops.variable_scope import variable_scope


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


@add_arg_scope
def bow_encoder(
    ids: Any, vocab_size: int, embed_dim: int, sparse_lookup: bool = True, initializer: Any = None,
    regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """[batch, embed_dim]: the means of the rows of <scope>/embeddings [vocab_size, embed_dim] at ids [batch, n].

    sparse_lookup: ids of 0 are left out, and a row without others has row 0 of the table; without it all ids count.
    Raises TypeError on a SparseTensor of ids without sparse_lookup.
    """
    if isinstance(ids, SparseTensor) and not sparse_lookup:
        raise TypeError(f"bow_encoder: ids must be a dense Tensor where sparse_lookup is False, got {ids}")
    with variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        table = model_variable("embeddings", [vocab_size, embed_dim], None, initializer, regularizer, trainable)
        if not sparse_lookup:
            return math_reduce.reduce_mean(embedding_lookup(table, ids), 1)
        bags = ids if isinstance(ids, SparseTensor) else from_dense(ids)
        return safe_embedding_lookup_sparse(table, bags, default_id=0)
