"""The classes that libraries derive columns of their own from, by the names that TensorFlow 1's file has them under."""

from __future__ import annotations

from typing import Any

from sparkflow.feature_column.base import CategoricalColumn, DenseColumn, FeatureColumn, Features, IdWeightPair
from sparkflow.framework.graph import Tensor
from sparkflow.framework.shapes import TensorShape

_IdWeightPair, _LazyBuilder = IdWeightPair, Features


class _FeatureColumn(FeatureColumn):
    """To derive from: name, _parse_example_spec, and _transform_feature(inputs), where inputs.get(key) gives a feature
    or what another column makes of its own. All columns of its kind are instances."""

    _kind: type = FeatureColumn

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return cls._kind in other.__mro__ if "_kind" in vars(cls) else NotImplemented

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self._parse_example_spec

    @property
    def scope_name(self) -> str:
        return self._var_scope_name

    def transform(self, features: Features) -> Any:
        return self._transform_feature(features)

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        raise _missing(self, "_parse_example_spec")

    @property
    def _var_scope_name(self) -> str:
        return FeatureColumn.scope_name.fget(self)  # type: ignore[attr-defined]

    def _transform_feature(self, inputs: Features) -> Any:
        raise _missing(self, "_transform_feature")


class _DenseColumn(_FeatureColumn, DenseColumn):
    """To derive from: _variable_shape and _get_dense_tensor(inputs, weight_collections, trainable) as well."""

    _kind = DenseColumn

    @property
    def variable_shape(self) -> tuple[int, ...]:
        shape = TensorShape(self._variable_shape)
        shape.assert_is_fully_defined()
        return tuple(int(size) for size in shape)

    def dense_tensor(self, features: Features, weight_collections: Any, trainable: bool | None) -> Tensor:
        return self._get_dense_tensor(features, weight_collections=weight_collections, trainable=trainable)

    @property
    def _variable_shape(self) -> TensorShape:
        raise _missing(self, "_variable_shape")

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None, trainable: Any = None) -> Tensor:
        raise _missing(self, "_get_dense_tensor")


class _CategoricalColumn(_FeatureColumn, CategoricalColumn):
    """To derive from: _num_buckets and _get_sparse_tensors(inputs, weight_collections, trainable), a pair of ids and
    weights, as well."""

    _kind = CategoricalColumn

    @property
    def num_buckets(self) -> int:
        return self._num_buckets

    def sparse_tensors(self, features: Features) -> IdWeightPair:
        return IdWeightPair(*self._get_sparse_tensors(features))

    @property
    def _num_buckets(self) -> int:
        raise _missing(self, "_num_buckets")

    def _get_sparse_tensors(
        self, inputs: Features, weight_collections: Any = None, trainable: Any = None
    ) -> IdWeightPair:
        raise _missing(self, "_get_sparse_tensors")


def _missing(column: FeatureColumn, what: str) -> NotImplementedError:
    return NotImplementedError(f"{type(column).__name__} derives from a feature column and must define {what}")
