"""tf.data.experimental."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.data.dataset import Dataset
from sparkflow.data.sources import TextLineDataset
from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Tensor
from sparkflow.ops.parsing import decode_csv
from sparkflow_runtime.wire.dtypes import DType

AUTOTUNE = -1


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
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)
