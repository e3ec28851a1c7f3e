"""Tables of vocabularies: from words to ids and back."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.ops import array, math
from sparkflow.ops.lookup import FastHashSpec, IdTableWithHashBuckets, StaticHashTable
from sparkflow.ops.lookup_initializers import (
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)
from sparkflow_runtime.wire import dtypes


def index_table_from_file(
    vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None, default_value: Any = -1,
    hasher_spec: Any = FastHashSpec, key_dtype: Any = dtypes.string, name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE, value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:  # fmt: skip
    """A table from the lines of a file to their numbers; other words get default_value, or a bucket behind."""
    key_dtype = dtypes.as_dtype(key_dtype)
    _check_vocabulary(vocabulary_file, num_oov_buckets, vocab_size, key_dtype)
    with get_default_graph().name_scope(name or "string_to_index"):
        with get_default_graph().name_scope("hash_table"):
            keys = dtypes.int64 if key_dtype.is_integer else key_dtype
            columns = (key_column_index, value_column_index, vocab_size, delimiter, "table_init", keys)
            table = StaticHashTable(TextFileIdTableInitializer(vocabulary_file, *columns), default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, key_dtype)


def index_table_from_tensor(
    vocabulary_list: Any, num_oov_buckets: int = 0, default_value: Any = -1, hasher_spec: Any = FastHashSpec,
    dtype: Any = dtypes.string, name: str | None = None,
) -> Any:  # fmt: skip
    """A table from the words of a vector to their places; other words get default_value, or a bucket behind."""
    dtype = dtypes.as_dtype(dtype)
    _check_vocabulary(vocabulary_list, num_oov_buckets, None, dtype)
    with get_default_graph().name_scope(name or "string_to_index"):
        keys = convert_to_tensor(vocabulary_list)
        if keys.dtype.is_integer != dtype.is_integer or (not dtype.is_integer and keys.dtype.base_dtype != dtype):
            raise ValueError(f"Invalid `dtype`: Expected {dtype}, got {keys.dtype}.")
        values = math.cast(math.range(array.size(keys)), dtypes.int64)
        with get_default_graph().name_scope("hash_table"):
            keys = math.cast(keys, dtypes.int64) if dtype.is_integer else keys
            table = StaticHashTable(KeyValueTensorInitializer(keys, values, name="table_init"), default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, dtype)


def _check_vocabulary(source: Any, buckets: int, vocab_size: int | None, dtype: dtypes.DType) -> None:
    if source is None or (isinstance(source, str) and not source):
        raise ValueError("The vocabulary (a file, or a list) must be specified and must not be empty.")
    if buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater or equal than 0, got {buckets}.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
    if not dtype.is_integer and dtype != dtypes.string:
        raise TypeError(f"The type of keys must be an integer or string, got {dtype}.")


def _with_buckets(table: StaticHashTable, buckets: int, hasher_spec: Any, dtype: dtypes.DType) -> Any:
    if not buckets:
        return table
    return IdTableWithHashBuckets(table, buckets, hasher_spec, key_dtype=dtype)


def index_to_string_table_from_file(
    vocabulary_file: Any, vocab_size: int | None = None, default_value: Any = "UNK", name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER, value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:  # fmt: skip
    """A table from the numbers of a file's lines to their texts."""
    _check_vocabulary(vocabulary_file, 0, vocab_size, dtypes.string)
    with get_default_graph().name_scope(name or "index_to_string"):
        columns = (key_column_index, value_column_index, vocab_size, delimiter, "table_init")
        return StaticHashTable(TextFileStringTableInitializer(vocabulary_file, *columns), default_value)


def index_to_string_table_from_tensor(
    vocabulary_list: Any, default_value: Any = "UNK", name: str | None = None
) -> StaticHashTable:
    """A table from places in a vector of strings to what stands there."""
    _check_vocabulary(vocabulary_list, 0, None, dtypes.string)
    with get_default_graph().name_scope(name or "index_to_string"):
        words = convert_to_tensor(vocabulary_list, dtypes.string)
        keys = math.cast(math.range(array.size(words)), dtypes.int64)
        return StaticHashTable(KeyValueTensorInitializer(keys, words, name="table_init"), default_value)
