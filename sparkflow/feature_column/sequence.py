"""Columns of sequences: features that have a value (or several) for each step of each example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkflow.feature_column import categorical
from sparkflow.feature_column.base import (
    CategoricalColumn,
    DenseColumn,
    Features,
    IdWeightPair,
    require_columns,
)
from sparkflow.feature_column.numeric import _key
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import product
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, array_join, checks, math, segments
from sparkflow.ops.parsing import VarLenFeature
from sparkflow.ops.sparse import sparse_reshape, sparse_tensor_to_dense
from sparkflow.ops.variable_scope import variable_scope
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """Made by sequence_categorical_column_with_*: the ids of each step are a bag of their own, [batch, steps, ids]."""

    categorical_column: CategoricalColumn
    is_sequence = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.categorical_column.name

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    def transform(self, features: Features) -> SparseTensor:
        return features.get(self.categorical_column)

    def sparse_tensors(self, features: Features) -> IdWeightPair:
        ids, weights = self.categorical_column.sparse_tensors(features)
        return IdWeightPair(_by_step(ids), None if weights is None else _by_step(weights))


def _by_step(sparse: SparseTensor) -> SparseTensor:
    """[batch, steps] as [batch, steps, 1]."""
    if rank_of(sparse) != 2:
        return sparse
    return sparse_reshape(sparse, array_join.concat([sparse.dense_shape, [1]], 0))


@dataclass(frozen=True)
class SequenceNumericColumn(DenseColumn):
    """Made by sequence_numeric_column."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: dtypes.DType
    normalizer_fn: Callable[[Any], Any] | None
    is_sequence = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> tuple[int, ...]:
        return self.shape

    def transform(self, features: Features) -> SparseTensor:
        found = features.get(self.key)
        if not isinstance(found, SparseTensor):
            raise ValueError(f"sequence_numeric_column: feature {self.key!r} must be a SparseTensor, got {found}")
        return found if self.normalizer_fn is None else self.normalizer_fn(found)

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        """[batch, steps, *shape]."""
        dense = sparse_tensor_to_dense(features.get(self), default_value=self.default_value)
        return array.reshape(dense, [array.shape(dense)[0], -1, *self.shape])


def sequence_input_layer(
    features: Mapping[str, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True
) -> tuple[Tensor, Tensor]:
    """([batch, steps, n], [batch]): the columns of features beside one another, and how many steps each example has.

    Raises ValueError on a column that is not of sequences, or not dense: put it into an embedding_column or
    indicator_column. When it runs, InvalidArgumentError where two features have different numbers of steps.
    """
    columns, given, found = sequence_columns(feature_columns), Features(features), []
    with variable_scope(None, "sequence_input_layer"):
        for column in columns:
            with variable_scope(None, column.scope_name):
                found.append(sequence_part(column, given, weight_collections, trainable))
        return beside_one_another(found)


def sequence_columns(feature_columns: Any) -> list[Any]:
    """The columns. Raises ValueError on one that is not of sequences, or not dense."""
    columns = list(require_columns(feature_columns))
    for column in columns:
        if not (isinstance(column, DenseColumn) and column.is_sequence):
            raise ValueError(
                f"All feature_columns must be dense columns of sequences: {column.name!r} ({type(column).__name__}) is "
                "not; wrap a sequence_categorical_column with an embedding_column or indicator_column"
            )
    return columns


def sequence_part(
    column: Any, given: Features, weight_collections: Any, trainable: bool | None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """[batch, steps, n] of one column, and how many steps each example has."""
    dense = column.dense_tensor(given, weight_collections, trainable)
    outer = array.shape(dense)
    return array.reshape(dense, [outer[0], outer[1], product(column.variable_shape)]), _steps(column, given)


def beside_one_another(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The parts of all columns as one; when it runs, InvalidArgumentError where their numbers of steps differ."""
    return array_join.concat([part for part, _ in parts], -1), _agreed([length for _, length in parts])


def concatenate_context_input(context_input: Any, sequence_input: Any) -> Tensor:
    """[batch, steps, n + m]: what an example has at each of its steps, [batch, steps, n], beside what it has once,
    [batch, m], of the same dtype."""
    once, steps = convert_to_tensor(context_input), convert_to_tensor(sequence_input)
    for name, given, rank in (("context_input", once, 2), ("sequence_input", steps, 3)):
        if given._shape is not None and len(given._shape) != rank:
            raise ValueError(f"concatenate_context_input: {name} must have {rank} dimensions, got {given}")
    each = array.tile(array.expand_dims(once, 1), [1, array.shape(steps)[1], 1])
    return array_join.concat([steps, each], 2)


def _steps(column: Any, given: Features) -> Tensor:
    """[batch] int64: of each example, the last step that has a value."""
    if isinstance(column, SequenceNumericColumn):
        found = given.get(column)
        return sequence_lengths(found, product(column.shape) if rank_of(found) == 2 else 1)
    return sequence_lengths(column.categorical_column.sparse_tensors(given).id_tensor)


def sequence_lengths(sparse: SparseTensor, values_of_a_step: int = 1) -> Tensor:
    """[batch] int64: how many steps are there up to the last value of each row of [batch, steps, ...]."""
    step = math.floordiv(sparse.indices[:, 1], values_of_a_step) + 1
    last = segments.unsorted_segment_max(step, sparse.indices[:, 0], sparse.dense_shape[0])
    return math.maximum(last, math.cast(0, dtypes.int64))  # of a row without values it is the least int64


def _agreed(lengths: list[Tensor]) -> Tensor:
    first, *others = lengths
    with get_default_graph().control_dependencies([checks.assert_equal(first, other) for other in others]):
        return array.identity(first)


# ---------------------------------------------------------------------- making them


def sequence_numeric_column(
    key: str, shape: Any = (1,), default_value: float = 0.0, dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:  # fmt: skip
    """The numbers of a sparse feature: [batch, steps, *shape], default_value where there is none.

    Of a feature [batch, n], each product(shape) numbers are a step. normalizer_fn: from SparseTensor to SparseTensor.
    """
    sizes = tuple(int(d) for d in (shape if isinstance(shape, (tuple, list)) else [shape]))
    if any(d < 1 for d in sizes):
        raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}")
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return SequenceNumericColumn(_key(key), sizes, default_value, kind, normalizer_fn)


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """categorical_column_with_identity for each step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> SequenceCategoricalColumn:
    """categorical_column_with_hash_bucket for each step."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """categorical_column_with_vocabulary_list for each step."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str, vocabulary_file: str, vocabulary_size: int | None = None, num_oov_buckets: int = 0,
    default_value: int | None = None, dtype: Any = dtypes.string,
) -> SequenceCategoricalColumn:  # fmt: skip
    """categorical_column_with_vocabulary_file for each step."""
    return SequenceCategoricalColumn(
        categorical.categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )
