"""Arrow's arrays as numpy's and back, by their memory.

For what pyarrow offers it imports pandas, half a second of a process that has no other use for it: `to_numpy`,
`pa.array`, `pa.scalar`, and functions that are given a Python value, such as `fill_null`. What every worker passes
through keeps to the functions here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def numpy_of(array: pa.Array, default: Any = None) -> np.ndarray:
    """As `array.to_numpy(zero_copy_only=False)`, and its memory where that can be. default: in the place of nulls."""
    kind = array.type
    if pa.types.is_boolean(kind):
        values = _bits(array.buffers()[1], array.offset, len(array))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = _numbers(array)
    else:
        filled = array if default is None or not array.null_count else array.fill_null(pa.scalar(default, kind))
        return np.asarray(filled.to_numpy(zero_copy_only=False))
    if not array.null_count:
        return values
    if default is None:
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.where(is_valid(array), values, values.dtype.type(default))


def is_valid(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Booleans: whether a value is no null."""
    found = array.is_valid()
    return numpy_of(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)


def arrow_of(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """Of numbers or booleans, as `pa.array`; numbers in a row are not copied. missing: which are nulls."""
    if values.dtype == np.bool_:
        data: Any = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values)
    valid = None if missing is None or not missing.any() else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(data)])


def texts(values: Sequence[str | bytes], kind: pa.DataType) -> pa.Array:
    """As `pa.array`; kind: string, binary, or their large forms."""
    parts = [value.encode() if isinstance(value, str) else value for value in values]
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int32 if kind in (pa.string(), pa.binary()) else np.int64)
    return pa.Array.from_buffers(kind, len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))])


def _numbers(array: pa.Array) -> np.ndarray:
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def _bits(buffer: pa.Buffer, offset: int, count: int) -> np.ndarray:
    if not count:
        return np.empty(0, np.bool_)
    begin = offset // 8
    some = np.frombuffer(buffer, np.uint8)[begin : (offset + count + 7) // 8]
    return np.unpackbits(some, bitorder="little")[offset - 8 * begin :][:count].view(np.bool_)
