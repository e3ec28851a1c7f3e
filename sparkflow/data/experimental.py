"""tf.data.experimental."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.data.ahead import AUTOTUNE
from sparkflow.data.csv import make_csv_dataset
from sparkflow.data.dataset import Dataset
from sparkflow.data.elements import Spec
from sparkflow.data.grouping import (
    bucket_by_sequence_length,
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
from sparkflow.data.sources import TextLineDataset, TFRecordDataset
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Tensor
from sparkflow.ops.parsing import decode_csv, parse_example
from sparkflow_runtime.wire.dtypes import DType, as_dtype, int64
from sparkflow_runtime.wire.errors import InvalidArgumentError

__all__ = [
    "AUTOTUNE", "Counter", "CsvDataset", "bucket_by_sequence_length", "choose_from_datasets", "copy_to_device",
    "enumerate_dataset", "get_single_element", "group_by_window", "ignore_errors", "make_batched_features_dataset",
    "make_csv_dataset", "map_and_batch", "map_and_batch_with_legacy_function", "parallel_interleave",
    "parse_example_dataset", "prefetch_to_device", "sample_from_datasets", "scan", "shuffle_and_repeat", "take_while",
    "unbatch", "unique",
]  # fmt: skip


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:
    """start, start + step, ... without end."""
    kind = as_dtype(dtype)
    return Dataset(Spec(0, (kind,), ((),)), lambda _: ([kind.np.type(i)] for i in itertools.count(start, step)))


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
    """The fields of the lines of CSV files. record_defaults: a default value, or a type where a field must be there."""

    def default(given: Any) -> Any:
        if isinstance(given, DType):
            return constant([], given)
        return given if isinstance(given, (list, tuple, Tensor)) else [given]

    def fields(line: Tensor) -> tuple[Tensor, ...]:
        defaults = [default(d) for d in record_defaults]
        return tuple(decode_csv(line, defaults, field_delim, use_quote_delim, None, na_value, select_cols))

    lines: Dataset = TextLineDataset(filenames, compression_type)
    return (lines.skip(1) if header else lines).map(fields)


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
    """For Dataset.apply: the same elements; InvalidArgumentError at the end, or one after it, where they are not so
    many."""

    def counted(rows: Any) -> Any:
        count = 0
        for row in rows:
            count += 1
            if count > expected_cardinality:
                raise InvalidArgumentError(
                    f"The dataset was expected to have {expected_cardinality} elements and has more"
                )
            yield row
        if count < expected_cardinality:
            raise InvalidArgumentError(
                f"The dataset was expected to have {expected_cardinality} elements and has {count}"
            )

    return lambda dataset: dataset._new(counted)
