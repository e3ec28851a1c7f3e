"""Categories as numbers: rows of a table that is learnt, and one-hot."""

from __future__ import annotations

import math as _math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.feature_column.base import CategoricalColumn, DenseColumn, Features, IdWeightPair
from sparkflow.feature_column.categorical import WeightedColumn
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, array_join, array_select, array_slice, init_ops, math, math_reduce, sparse
from sparkflow.ops.embedding_sparse import safe_embedding_lookup_sparse
from sparkflow.ops.variable_scope import get_variable
from sparkflow.train.warm_start import init_from_checkpoint
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class _Table(DenseColumn):
    """What embeddings have in common: the bags of one column's ids, each combined from rows of a table."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool

    @property
    def is_sequence(self) -> bool:  # type: ignore[override]
        return self.categorical_column.is_sequence

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> tuple[int, ...]:
        return (self.dimension,)

    def transform(self, features: Features) -> IdWeightPair:
        return self.categorical_column.sparse_tensors(features)

    def _rows(self, table: Any, features: Features) -> Tensor:
        ids, weights = features.get(self)
        return safe_embedding_lookup_sparse(
            table, ids, weights, self.combiner, name=f"{self.name}_weights", max_norm=self.max_norm
        )

    def _variable(self, weight_collections: Any, trainable: bool | None) -> Any:
        table = get_variable(
            "embedding_weights", [self.categorical_column.num_buckets, self.dimension], dtypes.float32,
            self.initializer, trainable=self.trainable and trainable is not False,
            collections=[GraphKeys.GLOBAL_VARIABLES, *(weight_collections or ())],
        )  # fmt: skip
        if self.ckpt_to_load_from is not None:
            init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: table})
        return table


@dataclass(frozen=True)
class EmbeddingColumn(_Table):
    """Made by embedding_column."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_embedding"

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        return self._rows(self._variable(weight_collections, trainable), features)


@dataclass(frozen=True)
class SharedEmbeddingColumn(_Table):
    """Made by shared_embedding_columns: the table is made by the first column that is used, and kept with the graph."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope_name(self) -> str:
        return self.shared_embedding_collection_name

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        shared = get_default_graph().get_collection_ref(self.shared_embedding_collection_name)
        if not shared:
            shared.append(self._variable(weight_collections, trainable))
        rows = self.categorical_column.num_buckets
        if tuple(shared[0].shape.as_list()) != (rows, self.dimension):
            raise ValueError(
                f"Shared embedding collection {self.shared_embedding_collection_name} holds a table of shape "
                f"{shared[0].shape}, column {self.name} needs {(rows, self.dimension)}"
            )
        return self._rows(shared[0], features)


def embedding_column(
    categorical_column: CategoricalColumn, dimension: int, combiner: str = "mean",
    initializer: Callable[..., Any] | None = None, ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None, max_norm: float | None = None, trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:  # fmt: skip
    """The rows of a table [num_buckets, dimension] for a bag of ids, combined: "mean", "sqrtn" or "sum".

    initializer: truncated normal of deviation 1/sqrt(dimension) by default; or the table comes from a checkpoint.
    max_norm: longer rows are shortened to it.
    """
    initializer = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn], dimension: int, combiner: str = "mean",
    initializer: Callable[..., Any] | None = None, shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
    trainable: bool = True, use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:  # fmt: skip
    """As embedding_column of each, all from one table. The columns must have equally many ids, and be of one kind."""
    initializer = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    columns = list(categorical_columns)
    inner = [c.categorical_column if isinstance(c, WeightedColumn) else c for c in columns]
    if len({type(c) for c in inner}) > 1 or len({c.num_buckets for c in columns}) > 1:
        shown = [(type(c).__name__, c.num_buckets) for c in columns]
        raise ValueError(
            f"shared_embedding_columns: all columns must have the same type and number of buckets, got {shown}"
        )
    name = shared_embedding_collection_name or "_".join(sorted(c.name for c in columns)) + "_shared_embedding"
    return [
        SharedEmbeddingColumn(
            c, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable, name
        )
        for c in columns
    ]


def _checked(
    dimension: int, initializer: Callable[..., Any] | None, path: str | None, tensor: str | None
) -> Callable[..., Any]:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (path is None) != (tensor is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified, got {initializer!r}")
    return initializer or init_ops.truncated_normal_initializer(0.0, 1 / _math.sqrt(dimension))


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn):
    """Made by indicator_column."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_indicator"

    @property
    def is_sequence(self) -> bool:  # type: ignore[override]
        return self.categorical_column.is_sequence

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> tuple[int, ...]:
        return (self.categorical_column.num_buckets,)

    def transform(self, features: Features) -> Tensor:
        """How often (with which weight, in sum) each category occurs in a row."""
        ids, weights = self.categorical_column.sparse_tensors(features)
        depth = self.variable_shape[-1]
        if weights is None:
            dense = sparse.sparse_tensor_to_dense(ids, default_value=-1)
            return math_reduce.reduce_sum(array_select.one_hot(dense, depth, 1.0, 0.0), axis=[-2])
        known = math.greater_equal(ids.values, 0)
        ids, weights = sparse.sparse_retain(ids, known), sparse.sparse_retain(weights, known)
        at = array_join.stack([ids.indices[:, 0], math.cast(ids.values, dtypes.int64)], 1)
        shape = array_join.stack([ids.dense_shape[0], depth])
        found = array_slice.scatter_nd(at, math.cast(weights.values, dtypes.float32), shape)
        return array.reshape(found, [-1, depth])

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        return features.get(self)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """One-hot (many-hot): [batch, num_buckets] with the number of times, or the weight, of each category."""
    if not hasattr(categorical_column, "num_buckets"):
        raise ValueError(f"indicator_column: Input must be a CategoricalColumn, given: {categorical_column!r}")
    return IndicatorColumn(categorical_column)
