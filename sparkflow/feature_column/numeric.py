"""Columns of numbers: as they are, and in buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from sparkflow.feature_column.base import CategoricalColumn, DenseColumn, Features, IdWeightPair
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import product
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, array_join, array_select, feature, math
from sparkflow.ops.parsing import FixedLenFeature
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """Made by numeric_column."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: dtypes.DType
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> tuple[int, ...]:
        return self.shape

    def transform(self, features: Features) -> Tensor:
        found = features.get(self.key)
        if isinstance(found, SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. key: "
                f"{self.key}"
            )
        found = found if self.normalizer_fn is None else self.normalizer_fn(found)
        return math.cast(found, dtypes.float32)

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        return features.get(self)


def numeric_column(
    key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:  # fmt: skip
    """The numbers of a feature: [batch, *shape], as float32, after normalizer_fn.

    default_value: for examples that lack the feature, one number or a nest of them in that shape; dtype: as the
    feature is stored. Raises ValueError on a shape that is not positive and known, TypeError on another default.
    """
    listed = shape if isinstance(shape, (tuple, list)) else [shape]
    if not all(isinstance(d, Integral) for d in listed):
        raise TypeError(f"shape dimensions must be integer. shape: {shape!r}, key: {key}")
    sizes = tuple(int(d) for d in listed)
    if any(d < 1 for d in sizes):
        raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}")
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(_key(key), sizes, _default(default_value, sizes, kind, key), kind, normalizer_fn)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: {key!r} of {type(key).__name__}")
    return key


def _default(value: Any, sizes: tuple[int, ...], kind: dtypes.DType, key: str) -> Any:
    """A nest of tuples, which can be hashed."""
    if value is None:
        return None
    given = np.asarray(value)
    if given.dtype.kind not in "iufb" or (kind.is_integer and given.dtype.kind == "f"):
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, dtype: {kind}, {key}")
    if given.shape not in ((), sizes):
        raise ValueError(f"The shape of default_value must be equal to given shape. {value!r}, shape: {sizes}, {key}")
    return _nested(np.broadcast_to(given.astype(kind.np), sizes).tolist())


def _nested(value: Any) -> Any:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Made by bucketized_column: one-hot where it is dense; an id for each number where it is categorical."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.source_column.parse_example_spec

    @property
    def _buckets(self) -> int:
        return len(self.boundaries) + 1

    @property
    def num_buckets(self) -> int:
        return self._buckets * self.source_column.shape[0]

    @property
    def variable_shape(self) -> tuple[int, ...]:
        return (*self.source_column.shape, self._buckets)

    def transform(self, features: Features) -> Tensor:
        return feature.bucketize(features.get(self.source_column), self.boundaries)

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        return array_select.one_hot(math.cast(features.get(self), dtypes.int64), self._buckets, 1.0, 0.0)

    def sparse_tensors(self, features: Features) -> IdWeightPair:
        """Row i, place j: the bucket of the j-th number, numbered after those of the numbers before it."""
        buckets = features.get(self)
        width = product(self.source_column.shape)
        rows = array.shape(buckets)[0]
        row = array.reshape(array.tile(array.expand_dims(math.range(0, rows), 1), [1, width]), [-1])
        place = array.tile(math.range(0, width), [rows])
        ids = array.reshape(buckets, [-1]) + self._buckets * place
        indices = math.cast(array.transpose(array_join.stack([row, place])), dtypes.int64)
        shape = math.cast(array_join.stack([rows, width]), dtypes.int64)
        return IdWeightPair(SparseTensor(indices, math.cast(ids, dtypes.int64), shape), None)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> BucketizedColumn:
    """The bucket of each number: (-inf, b0), [b0, b1), ..., [bn, inf). source_column: a numeric_column of one axis."""
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not isinstance(boundaries, (list, tuple)) or any(a >= b for a, b in pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    return BucketizedColumn(source_column, tuple(boundaries))
