"""Look-up tables that are filled by the elements of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.data import counts
from sparkflow.data.dataset import Dataset
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, get_default_graph
from sparkflow.framework.shapes import show
from sparkflow.ops.lookup import FastHashSpec, IdTableWithHashBuckets, StaticHashTable
from sparkflow.ops.lookup_initializers import TableInitializerBase
from sparkflow.ops.script import py_func
from sparkflow_runtime.wire import dtypes


class DatasetInitializer(TableInitializerBase):
    """The elements of a dataset, pairs of a scalar key and a scalar value, as the content of a table.

    Raises TypeError where it is no dataset, ValueError where its elements are no such pairs, or never end.
    """

    def __init__(self, dataset: Dataset):
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"DatasetInitializer: dataset must be a tf.data.Dataset of keys and values, got {dataset!r}"
            )
        spec = dataset._spec
        if len(spec.types) != 2 or not isinstance(spec.like, Sequence) or len(spec.like) != 2:
            raise ValueError(f"DatasetInitializer: elements must be pairs of a key and a value, got {spec.kinds}")
        if any(dims not in ((), None) for dims in spec.dims):
            raise ValueError(
                f"DatasetInitializer: keys and values must be scalars, got shapes {', '.join(map(show, spec.dims))}"
            )
        if not dataset._tensors and dataset._count({}) == counts.INFINITE:
            raise ValueError("DatasetInitializer: the dataset never ends: take() a part of it")
        super().__init__(*spec.types)
        self._dataset = dataset

    def initialize(self, table: Any) -> Operation:
        dataset, kinds = self._dataset, self._dataset._spec.types

        def read(*values: Any) -> list[np.ndarray]:
            rows = list(dataset._rows(dict(zip(dataset._tensors, values))))
            columns = zip(*rows, strict=True) if rows else ((), ())
            return [_column(column, kind) for column, kind in zip(columns, kinds, strict=True)]

        with get_default_graph().name_scope("dataset_init"):
            keys, values = py_func(read, list(dataset._tensors), list(kinds))
            keys.set_shape([None])
            values.set_shape([None])
            return self._added(apply_op("LookupTableImportV2", [table.resource_handle, keys, values]))


def _column(values: Sequence[Any], kind: dtypes.DType) -> np.ndarray:
    out = np.empty(len(values), kind.np)
    for i, value in enumerate(values):
        out[i] = value.item() if isinstance(value, np.ndarray) and kind == dtypes.string else value
    return out


def table_from_dataset(
    dataset: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None, default_value: Any = None,
    hasher_spec: Any = FastHashSpec, key_dtype: Any = dtypes.string, name: str | None = None,
) -> Any:  # fmt: skip
    """A table of the dataset's pairs of keys and values, filled by tf.tables_initializer().

    num_oov_buckets: other keys, by their hash, are so many ids behind the table's; 0: they are default_value, which is
    -1 unless it is given. vocab_size: of so many pairs at most. Raises ValueError where a number is negative, where the
    elements are no pairs of scalars, and without a default_value for values that are no numbers.
    """
    if num_oov_buckets < 0:
        raise ValueError(f"`num_oov_buckets` must be greater than or equal to 0, got {num_oov_buckets}.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")
    if vocab_size is not None and isinstance(dataset, Dataset):
        dataset = dataset.take(vocab_size)
    initializer = DatasetInitializer(dataset)
    kind = initializer.value_dtype
    if default_value is None:
        if not (kind.is_integer or kind.is_floating):
            raise ValueError(
                "`default_value` must be specified when creating a table from a dataset that produces values of type "
                f"{kind!r}."
            )
        default_value = -1
    with get_default_graph().name_scope(name or "string_to_index"):
        table = StaticHashTable(initializer, default_value)
        if not num_oov_buckets:
            return table
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=key_dtype)


def index_table_from_dataset(
    dataset: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None, default_value: Any = -1,
    hasher_spec: Any = FastHashSpec, key_dtype: Any = dtypes.string, name: str | None = None,
) -> Any:  # fmt: skip
    """A table of the dataset's elements and their places in it, as table_from_dataset otherwise."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f"index_table_from_dataset: dataset must be a tf.data.Dataset of keys, got {dataset!r}")
    pairs = dataset.enumerate().map(lambda place, key: (key, place))
    return table_from_dataset(pairs, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name)
