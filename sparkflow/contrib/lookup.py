"""tf.contrib.lookup: tf.lookup's tables, and tables of vocabularies."""

from __future__ import annotations

from typing import Any

from sparkflow.ops import lookup_vocabulary
from sparkflow.ops.lookup import (
    FastHashSpec,
    HasherSpec,
    HashTable,
    IdTableWithHashBuckets,
    LookupInterface,
    StrongHashSpec,
)
from sparkflow.ops.lookup_initializers import (
    KeyValueTensorInitializer,
    TableInitializerBase,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileInitializer,
    TextFileStringTableInitializer,
)
from sparkflow.ops.lookup_mutable import DenseHashTable, MutableHashTable
from sparkflow.ops.lookup_vocabulary import index_table_from_file, index_to_string_table_from_file
from sparkflow_runtime.wire.dtypes import string

MutableDenseHashTable = DenseHashTable


def index_table_from_tensor(
    mapping: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = string, name: str | None = None,
) -> Any:  # fmt: skip
    """tf.lookup.index_table_from_tensor."""
    return lookup_vocabulary.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_tensor(mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """tf.lookup.index_to_string_table_from_tensor."""
    return lookup_vocabulary.index_to_string_table_from_tensor(mapping, default_value, name)
