"""Columns of categories: numbers as they are, hashes, vocabularies, and weights for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow.feature_column.base import CategoricalColumn, Features, IdWeightPair, as_sparse, require_dtype
from sparkflow.feature_column.numeric import _key
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, array_select, checks, lookup_vocabulary, math, strings
from sparkflow.ops.parsing import VarLenFeature
from sparkflow_runtime.wire import dtypes


@dataclass(frozen=True)
class _Keyed(CategoricalColumn):
    key: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    def _given(self, features: Features, dtype: dtypes.DType) -> SparseTensor:
        found = as_sparse(features.get(self.key))
        require_dtype(self.key, found, dtype)
        return found


@dataclass(frozen=True)
class IdentityColumn(_Keyed):
    """Made by categorical_column_with_identity."""

    number_buckets: int
    default_value: int | None

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(dtypes.int64)}

    def transform(self, features: Features) -> SparseTensor:
        found = as_sparse(features.get(self.key))
        if not found.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {found.dtype}")
        values, top = math.cast(found.values, dtypes.int64), np.int64(self.number_buckets)
        return SparseTensor(found.indices, self._within(values, top), found.dense_shape)

    def _within(self, values: Any, top: Any) -> Any:
        if self.default_value is None:
            wrong = [checks.assert_less(values, top, message="assert_less_than_num_buckets"),
                     checks.assert_greater_equal(values, np.int64(0), message="assert_greater_or_equal_0")]  # fmt: skip
            with get_default_graph().control_dependencies(wrong):
                return array.identity(values)
        outside = math.logical_or(math.less(values, np.int64(0)), math.greater_equal(values, top))
        instead = array.fill(array.shape(values), np.int64(self.default_value), name="default_values")
        return array_select.where(outside, instead, values)


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> IdentityColumn:
    """Integers that are ids. Others than [0, num_buckets) become default_value, or are an error in the step."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    return IdentityColumn(_key(key), num_buckets, default_value)


@dataclass(frozen=True)
class _Discrete(_Keyed):
    """Strings or integers."""

    dtype: dtypes.DType

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Of what an Example holds."""
        return {self.key: VarLenFeature(dtypes.int64 if self.dtype.is_integer else self.dtype)}


@dataclass(frozen=True)
class HashedColumn(_Discrete):
    """Made by categorical_column_with_hash_bucket."""

    hash_bucket_size: int

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform(self, features: Features) -> SparseTensor:
        found = self._given(features, self.dtype)
        text = found.values if self.dtype == dtypes.string else strings.as_string(found.values)
        ids = strings.string_to_hash_bucket_fast(text, self.hash_bucket_size, name="lookup")
        return SparseTensor(found.indices, ids, found.dense_shape)


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = dtypes.string) -> HashedColumn:
    """Strings (or integers) whose id is their hash's remainder: different ones may share an id."""
    if hash_bucket_size is None or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    return HashedColumn(_key(key), _discrete(key, dtype), hash_bucket_size)


def _discrete(key: str, dtype: Any) -> dtypes.DType:
    kind = dtypes.as_dtype(dtype)
    if kind != dtypes.string and not kind.is_integer:
        raise ValueError(f"dtype must be string or integer. dtype: {kind}, column_name: {key}")
    return kind


@dataclass(frozen=True)
class _Vocabulary(_Discrete):
    default_value: int
    num_oov_buckets: int

    @abstractmethod
    def _table(self, dtype: dtypes.DType, name: str) -> Any:
        """From words of that dtype to ids."""

    def transform(self, features: Features) -> SparseTensor:
        found = self._given(features, self.dtype)
        if not self.dtype.is_integer:
            return self._table(self.dtype, f"{self.key}_lookup").lookup(found)
        wide = SparseTensor(found.indices, math.cast(found.values, dtypes.int64), found.dense_shape)
        return self._table(dtypes.int64, f"{self.key}_lookup").lookup(wide)  # tables hold int64


@dataclass(frozen=True)
class VocabularyListColumn(_Vocabulary):
    """Made by categorical_column_with_vocabulary_list."""

    vocabulary_list: tuple[Any, ...]

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _table(self, dtype: dtypes.DType, name: str) -> Any:
        words = np.array(self.vocabulary_list, object if dtype == dtypes.string else np.int64)
        return lookup_vocabulary.index_table_from_tensor(
            words, self.num_oov_buckets, self.default_value, dtype=dtype, name=name
        )


def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Sequence[Any], dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> VocabularyListColumn:
    """Strings or integers whose id is their place in the list.

    Others get default_value (-1: no category), or one of num_oov_buckets ids behind. Raises ValueError on a list that
    is empty or has something twice, and where both a default and buckets are asked for.
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    words = np.array(vocabulary_list)
    if len({*words.tolist()}) != len(words):
        raise ValueError(f"Duplicate keys in vocabulary_list: {list(vocabulary_list)}, column_name: {key}")
    own = dtypes.string if words.dtype.kind in "SUO" else dtypes.as_dtype(words.dtype)
    kind = _discrete(key, own if dtype is None else dtype)
    if kind.is_integer != own.is_integer:
        raise ValueError(f"dtype {kind} and vocabulary dtype {own} do not match, column_name: {key}")
    _check_others(key, default_value, num_oov_buckets)
    default = -1 if default_value is None else default_value
    return VocabularyListColumn(_key(key), kind, default, num_oov_buckets, tuple(words.tolist()))


def _check_others(key: str, default_value: int | None, num_oov_buckets: int) -> None:
    if num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")
    if num_oov_buckets and default_value not in (None, -1):
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")


@dataclass(frozen=True)
class VocabularyFileColumn(_Vocabulary):
    """Made by categorical_column_with_vocabulary_file."""

    vocabulary_file: str
    vocabulary_size: int

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def _table(self, dtype: dtypes.DType, name: str) -> Any:
        return lookup_vocabulary.index_table_from_file(
            self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size, self.default_value, key_dtype=dtype,
            name=name,
        )  # fmt: skip


def categorical_column_with_vocabulary_file(
    key: str, vocabulary_file: str, vocabulary_size: int | None = None, num_oov_buckets: int = 0,
    default_value: int | None = None, dtype: Any = dtypes.string,
) -> VocabularyFileColumn:  # fmt: skip
    """As categorical_column_with_vocabulary_list, of the lines of a file; its first vocabulary_size lines, or all."""
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    _check_others(key, default_value, num_oov_buckets)
    size = _lines(vocabulary_file, key) if vocabulary_size is None else vocabulary_size
    if size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}: {size}")
    default = -1 if default_value is None else default_value
    return VocabularyFileColumn(_key(key), _discrete(key, dtype), default, num_oov_buckets, vocabulary_file, size)


def _lines(path: str, key: str) -> int:
    try:
        with open(path, "rb") as file:
            return sum(1 for _ in file)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ValueError(f"vocabulary_file in {key} does not exist: {path} ({error.strerror})") from None


@dataclass(frozen=True)
class WeightedColumn(CategoricalColumn):
    """Made by weighted_categorical_column."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: dtypes.DType

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        own = self.categorical_column.parse_example_spec
        if self.weight_feature_key in own:
            raise ValueError(f"Parse config {own} conflicts with weight feature {self.weight_feature_key!r}.")
        return {**own, self.weight_feature_key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> SparseTensor:
        """The weights."""
        found = as_sparse(features.get(self.weight_feature_key), ignored=0)
        return SparseTensor(found.indices, math.cast(found.values, dtypes.float32), found.dense_shape)

    def sparse_tensors(self, features: Features) -> IdWeightPair:
        return IdWeightPair(self.categorical_column.sparse_tensors(features).id_tensor, features.get(self))


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = dtypes.float32
) -> WeightedColumn:
    """The categories, each with a weight from a feature of numbers that lie as the categories do."""
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {kind} is not convertible to float.")
    return WeightedColumn(categorical_column, weight_feature_key, kind)
