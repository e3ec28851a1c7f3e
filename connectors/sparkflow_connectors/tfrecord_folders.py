"""Partition folders: which rows of a batch go to which, and what they are called, as Spark and Hive write them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from sparkflow_connectors.arrow_numpy import numpy_of
from sparkflow_connectors.tfrecord_paths import NULL_PARTITION
from sparkflow_runtime.wire.errors import InvalidArgumentError

_LONGEST_NAME = 255  # of a file, in bytes


def groups_of(columns: list[pa.Array]) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """(the different rows of the columns, which of them each row is). Values are told apart as their bits are: NaN is
    one of them, 0.0 and -0.0 are two."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = column.dictionary_encode("encode")
        codes = codes * (len(coded.dictionary) + 1) + numpy_of(coded.indices)
        _, codes = np.unique(codes, return_inverse=True)  # small numbers again, whatever the number of columns
    _, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
    return [tuple(_value(column, i) for column in columns) for i in first.tolist()], of_row


def _value(column: pa.Array, i: int) -> object:
    """Times of milliseconds as text with three digits: with six, they are read as none of these. Raises
    InvalidArgumentError on a time in a year that Python does not count."""
    try:
        found = column[i].as_py()
    except (OverflowError, ValueError):
        raise InvalidArgumentError(
            f"partition_by: a column of {column.type} has a time beyond the years 1 to 9999, which names no folder"
        ) from None
    has_ms = pa.types.is_timestamp(column.type) and column.type.unit == "ms" and found is not None
    return found.isoformat(" ", "milliseconds" if found.microsecond else "auto") if has_ms else found


def folder_of(name: str, value: object) -> str:
    """Raises InvalidArgumentError on a value that makes no name of a folder."""
    quoted = quote(name, safe="")
    found = f"{'%2E' + quoted[1:] if quoted.startswith('.') else quoted}={_folder_value(value)}"
    if len(found) > _LONGEST_NAME:
        raise InvalidArgumentError(
            f"partition_by: column {name!r} has the value {str(value)[:40]!r}..., whose folder would have a name of "
            f"{len(found)} bytes; file systems know {_LONGEST_NAME}. Partition by a shorter column"
        )
    return found


def _folder_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = value if isinstance(value, bytes) else str(value)
    quoted = quote(text, safe="")
    if value is None:
        return NULL_PARTITION
    return f"%{ord(quoted[0]):X}{quoted[1:]}" if quoted == NULL_PARTITION else quoted  # which is a text, and no null
