"""tf.data.experimental."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.data.ahead import AUTOTUNE
from sparkflow.data.counts import INFINITE as INFINITE_CARDINALITY
from sparkflow.data.counts import UNKNOWN as UNKNOWN_CARDINALITY
from sparkflow.data.csv import make_csv_dataset
from sparkflow.data.dataset import Dataset
from sparkflow.data.elements import Spec, structured
from sparkflow.data.grouping import (
    bucket_by_sequence_length,
    cardinality,
    choose_from_datasets,
    enumerate_dataset,
    get_single_element,
    group_by_window,
    ignore_errors,
    parallel_interleave,
    sample_from_datasets,
    scan,
    take_while,
    unbatch,
    unique,
)
from sparkflow.data.lasting import Lasting
from sparkflow.data.optional import Optional, get_next_as_optional
from sparkflow.data.options import (
    SHARD_HINT,
    AutoShardPolicy,
    AutotuneAlgorithm,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ServiceOptions,
    ThreadingOptions,
)
from sparkflow.data.position import CheckpointInputPipelineHook, make_saveable_from_iterator
from sparkflow.data.ragged_batches import dense_to_ragged_batch
from sparkflow.data.reducing import Reducer, group_by_reducer
from sparkflow.data.resampling import RandomDataset, rejection_resample
from sparkflow.data.snapshots import snapshot
from sparkflow.data.sources import CsvRecords, TFRecordDataset
from sparkflow.data.sparse_batches import dense_to_sparse_batch
from sparkflow.data.sql import SqlDataset
from sparkflow.data.structures import (
    DatasetStructure,
    OptionalStructure,
    RaggedTensorStructure,
    SparseTensorStructure,
    Structure,
    TensorArrayStructure,
    TensorStructure,
    get_structure,
    pad_to_cardinality,
)
from sparkflow.data.tables import DatasetInitializer, index_table_from_dataset, table_from_dataset
from sparkflow.framework import nest
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Tensor
from sparkflow.ops.array_join import stack
from sparkflow.ops.parsing import decode_csv, parse_example
from sparkflow.ops.script import py_func
from sparkflow.python_io import TFRecordWriter as PlainWriter
from sparkflow_runtime.wire.dtypes import DType, as_dtype, int64, string
from sparkflow_runtime.wire.errors import FailedPreconditionError

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "SHARD_HINT", "UNKNOWN_CARDINALITY", "AutoShardPolicy", "AutotuneAlgorithm",
    "AutotuneOptions", "CheckpointInputPipelineHook", "Counter", "CsvDataset", "DatasetInitializer",
    "DatasetStructure", "DistributeOptions", "ExternalStatePolicy", "OptimizationOptions", "Optional",
    "OptionalStructure", "RaggedTensorStructure", "RandomDataset", "Reducer", "ServiceOptions",
    "SparseTensorStructure", "SqlDataset", "Structure", "TFRecordWriter", "TensorArrayStructure", "TensorStructure",
    "ThreadingOptions", "assert_cardinality", "bucket_by_sequence_length", "cardinality", "choose_from_datasets",
    "copy_to_device", "dense_to_ragged_batch", "dense_to_sparse_batch", "enumerate_dataset", "from_list",
    "get_next_as_optional", "get_single_element", "get_structure", "group_by_reducer", "group_by_window",
    "ignore_errors", "index_table_from_dataset", "make_batched_features_dataset", "make_csv_dataset",
    "make_saveable_from_iterator", "map_and_batch", "map_and_batch_with_legacy_function", "pad_to_cardinality",
    "parallel_interleave", "parse_example_dataset", "prefetch_to_device", "rejection_resample",
    "sample_from_datasets", "scan", "shuffle_and_repeat", "snapshot", "table_from_dataset", "take_while", "unbatch",
    "unique",
]  # fmt: skip


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:
    """start, start + step, ... without end."""
    kind = as_dtype(dtype)
    numbers = lambda _: ([kind.np.type(i)] for i in itertools.count(start, step))  # noqa: E731
    return Dataset(Spec(0, (kind,), ((),)), numbers, count=lambda _: INFINITE_CARDINALITY)


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: the same, rows being made when they are asked for and copied where they are used."""
    return lambda dataset: dataset


def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: the same, as rows are copied where they are used."""
    return lambda dataset: dataset


def parse_example_dataset(features: Any, num_parallel_calls: Any = 1) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: batches of serialized Examples to the tensors of their features."""
    return lambda dataset: dataset.map(lambda serialized: parse_example(serialized, features))


def make_batched_features_dataset(
    file_pattern: Any, batch_size: int, features: Any, reader: Callable[[Any], Dataset] = TFRecordDataset,
    label_key: str | None = None, reader_args: Sequence[Any] | None = None, num_epochs: int | None = None,
    shuffle: bool = True, shuffle_buffer_size: int = 10000, shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None, reader_num_threads: Any = None, parser_num_threads: Any = None,
    sloppy_ordering: bool = False, drop_final_batch: bool = False,
) -> Dataset:  # fmt: skip
    """Batches of the features of Examples in files; pairs with the label apart where label_key names one."""
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    rows = files.interleave(lambda name: reader(name, *(reader_args or ())), 1)
    if shuffle:
        rows = rows.shuffle(shuffle_buffer_size, shuffle_seed)
    rows = rows.repeat(num_epochs).batch(batch_size, drop_final_batch)
    parsed = rows.apply(parse_example_dataset(features))
    if label_key is None:
        return parsed
    if label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.")
    return parsed.map(lambda found: ({k: v for k, v in found.items() if k != label_key}, found[label_key]))


def CsvDataset(
    filenames: Any, record_defaults: Sequence[Any], compression_type: str | None = None, buffer_size: Any = None,
    header: bool = False, field_delim: str = ",", use_quote_delim: bool = True, na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> Dataset:  # fmt: skip
    """The fields of the records of CSV files. record_defaults: a default value, or a type where a field must be there.
    header: whether each file begins with a record of names."""

    def default(given: Any) -> Any:
        if isinstance(given, DType):
            return constant([], given)
        return given if isinstance(given, (list, tuple, Tensor)) else [given]

    def fields(line: Tensor) -> tuple[Tensor, ...]:
        defaults = [default(d) for d in record_defaults]
        return tuple(decode_csv(line, defaults, field_delim, use_quote_delim, None, na_value, select_cols))

    return CsvRecords(filenames, compression_type, header, use_quote_delim).map(fields)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: shuffle, then repeat."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(
    map_func: Callable[..., Any], batch_size: int, num_parallel_batches: Any = None, drop_remainder: bool = False,
    num_parallel_calls: Any = None,
) -> Callable[[Dataset], Dataset]:  # fmt: skip
    """For Dataset.apply: map, then batch."""
    calls = num_parallel_calls if num_parallel_batches is None else int(num_parallel_batches) * int(batch_size)
    return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)


map_and_batch_with_legacy_function = map_and_batch


def assert_cardinality(expected_cardinality: int) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: the same elements; FailedPreconditionError at the end, or one after it, where they are not so
    many."""

    def counted(rows: Any) -> Any:
        count, told = 0, False

        def begin() -> Any:
            nonlocal count, told
            for row in () if told else rows:
                count += 1
                if count > expected_cardinality:
                    told = True
                    raise FailedPreconditionError(
                        f"The dataset was expected to have {expected_cardinality} elements and has more"
                    )
                yield row
            if count < expected_cardinality and not told:
                told = True
                raise FailedPreconditionError(
                    f"The dataset was expected to have {expected_cardinality} elements and has {count}"
                )

        return Lasting(begin)

    return lambda dataset: dataset._new(counted, count=lambda _: expected_cardinality)


def from_list(elements: Sequence[Any], name: str | None = None) -> Dataset:
    """An element for each of a list's, which are structures of arrays. Raises ValueError on an empty list."""
    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    columns = zip(*(nest.flatten(structured(e)) for e in elements), strict=True)
    return Dataset.from_tensor_slices(nest.pack_sequence_as(structured(elements[0]), [stack(list(c)) for c in columns]))


class TFRecordWriter:
    """write(dataset) gives the op that writes a dataset's strings to a TFRecord file. compression_type: "GZIP", "ZLIB".

    Raises TypeError unless the dataset's elements are single strings.
    """

    def __init__(self, filename: Any, compression_type: str | None = None):
        self._filename, self._compression = filename, compression_type

    def write(self, dataset: Dataset) -> Any:
        if dataset._spec.types != (string,) or dataset._spec.dims[0] not in ((), None):
            raise TypeError(f"TFRecordWriter: `dataset` must have scalar strings as its elements, got {dataset!r}")

        def write(path: bytes, *values: Any) -> None:
            rows = dataset._rows(dict(zip(dataset._tensors, values)))
            with PlainWriter(path.decode(), self._compression or "") as writer:
                for (record,) in rows:
                    writer.write(record if isinstance(record, bytes) else record.item())

        return py_func(write, [self._filename, *dataset._tensors], [])
