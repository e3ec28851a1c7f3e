"""Crosses: each combination of several columns' categories as a category of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.feature_column.base import CategoricalColumn, Features
from sparkflow.feature_column.categorical import HashedColumn, WeightedColumn
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import feature
from sparkflow.ops.parsing import VarLenFeature
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Made by crossed_column."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    def _leaves(self) -> list[Any]:
        """Names of features and columns, those of inner crosses among them."""
        return [leaf for key in self.keys for leaf in (key._leaves() if isinstance(key, CrossedColumn) else [key])]

    @property
    def name(self) -> str:  # type: ignore[override]
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in self._leaves()))

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: VarLenFeature(dtypes.string)} if isinstance(key, str) else key.parse_example_spec)
        return spec

    def transform(self, features: Features) -> SparseTensor:
        parts = [features.get(k) if isinstance(k, str) else _ids(k, features) for k in self._leaves()]
        return feature.sparse_cross_hashed(parts, self.hash_bucket_size, self.hash_key)


def _ids(column: CategoricalColumn, features: Features) -> SparseTensor:
    return column.sparse_tensors(features).id_tensor


def crossed_column(keys: Sequence[Any], hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """The combinations of features (names, of strings or integers) and categorical columns, hashed.

    Raises ValueError on less than two keys, and on keys that cannot be crossed: columns with weights, and those that
    hash already (name their feature instead).
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or isinstance(keys, str) or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(f"Unsupported key type: a string or a categorical column is wanted. Given: {key}")
        if isinstance(key, (HashedColumn, WeightedColumn)):
            raise ValueError(f"{key.name}: a column of hashes or with weights is not supported for crossing")
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
