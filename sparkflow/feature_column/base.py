"""What a feature column is, and the features that a model gets, each brought into its column's form once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor, rank_of
from sparkflow.ops import array, array_select, array_slice, math
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.sparse import is_sparse, sparse_reshape
from sparkflow_runtime.wire import dtypes


class IdWeightPair(NamedTuple):
    """The ids of a batch's categories and, where the column weights them, a weight for each."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None


class Features:
    """The features of one call of input_layer or linear_model. What columns make of them is made once."""

    def __init__(self, features: Mapping[str, Any]):
        if not isinstance(features, Mapping):
            raise ValueError(f"features must be a dict of name -> tensor, got {type(features).__name__}")
        self._given, self._made = features, dict[Any, Any]()

    def get(self, key: Any) -> Any:
        """The feature of that name, at least a matrix; or what that column makes of its own."""
        if key not in self._made:
            self._made[key] = self._feature(key) if isinstance(key, str) else key.transform(self)
        return self._made[key]

    def _feature(self, key: str) -> Any:
        if key not in self._given:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        value = self._given[key]
        if is_sparse(value):
            return _sparse_matrix(SparseTensor.from_value(value))
        return _matrix(key, convert_to_tensor(value))


def _sparse_matrix(value: SparseTensor) -> SparseTensor:
    return sparse_reshape(value, [value.dense_shape[0], 1]) if rank_of(value) == 1 else value


def _matrix(key: str, value: Tensor) -> Tensor:
    rank = value.shape.ndims
    if rank == 0:
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {value}")
    if rank is not None:
        return array.expand_dims(value, -1) if rank == 1 else value
    return cond(math.equal(array.rank(value), 1), lambda: array.expand_dims(value, -1), lambda: value)


def as_sparse(value: Any, ignored: Any = None) -> SparseTensor:
    """A matrix without the elements that mean nothing: -1 of integers, '' of strings, unless said otherwise."""
    if isinstance(value, SparseTensor):
        return value
    if ignored is None:
        ignored = "" if value.dtype.base_dtype == dtypes.string else -1
    where = array_select.where(math.not_equal(value, convert_to_tensor(ignored, value.dtype.base_dtype)))
    return SparseTensor(where, array_slice.gather_nd(value, where), array.shape(value, out_type=dtypes.int64))


class FeatureColumn(ABC):
    """name: unique in a model. parse_example_spec: the features that it needs, by name, for tf.parse_example."""

    name: str
    is_sequence = False
    """Whether it has a value for each step of an example; such columns are for sequence_input_layer."""

    @property
    @abstractmethod
    def parse_example_spec(self) -> dict[str, Any]: ...

    @abstractmethod
    def transform(self, features: Features) -> Any:
        """What the column makes of its features: a Tensor or SparseTensor."""

    @property
    def scope_name(self) -> str:
        """Of the scope of its variables."""
        return re.sub(r"[^A-Za-z0-9_.\\-]", "_", self.name) or "column"

    # What TensorFlow 1 calls them: columns of libraries ask other columns so, see derived.py.

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    @property
    def _var_scope_name(self) -> str:
        return self.scope_name

    def _transform_feature(self, inputs: Features) -> Any:
        return self.transform(inputs)


class DenseColumn(FeatureColumn):
    """A column of numbers: [batch, *variable_shape]."""

    @property
    @abstractmethod
    def variable_shape(self) -> tuple[int, ...]: ...

    @abstractmethod
    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        """The numbers; variables that the column has are made here, in the current variable scope."""

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape(self.variable_shape)

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None, trainable: Any = None) -> Tensor:
        return self.dense_tensor(inputs, weight_collections, trainable)


class CategoricalColumn(FeatureColumn):
    """A column of categories: bags of ids in [0, num_buckets)."""

    num_buckets: Any

    def sparse_tensors(self, features: Features) -> IdWeightPair:
        return IdWeightPair(features.get(self), None)

    @property
    def _num_buckets(self) -> int:
        buckets: int = self.num_buckets
        return buckets

    def _get_sparse_tensors(
        self, inputs: Features, weight_collections: Any = None, trainable: Any = None
    ) -> IdWeightPair:
        return self.sparse_tensors(inputs)


def require_dtype(key: str, value: Any, dtype: dtypes.DType) -> None:
    """A feature of strings is asked for as strings, one of numbers as numbers."""
    if (value.dtype.base_dtype == dtypes.string) != (dtype == dtypes.string):
        raise ValueError(
            f"Column dtype and tensor's dtype must be compatible. key: {key}, column dtype: {dtype}, tensor dtype: "
            f"{value.dtype}"
        )


def require_columns(columns: Any) -> list[FeatureColumn]:
    """The columns in the order of their names. Raises ValueError where two have one name, or something is no column."""
    given = list(columns.values()) if isinstance(columns, Mapping) else [columns]
    given = given if isinstance(columns, (FeatureColumn, Mapping)) else list(columns)
    for column in given:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"Items of feature_columns must be feature columns. Given (type {type(column)}): {column}")
    if not given:
        raise ValueError("feature_columns must not be empty.")
    names = [c.name for c in given]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"Duplicate feature column name found for columns: {', '.join(twice)}. Give each its own name")
    return sorted(given, key=lambda c: c.name)
