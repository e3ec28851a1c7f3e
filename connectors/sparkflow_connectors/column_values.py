"""The rows of a column as arrays: Arrow's own memory where the table of columns.py says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import is_valid, numpy_of
from sparkflow_connectors.column_ids import default_of, ids, in_unit
from sparkflow_connectors.column_types import INDICES, LENGTH, Source, is_list, is_text
from sparkflow_connectors.columns import DENSE
from sparkflow_connectors.decimals import doubles, for_integers
from sparkflow_connectors.plain_types import plain_array
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

Where = Callable[[int], str]  # names a row of the array


class Lists(NamedTuple):
    """Rows of any length: row i is values[offsets[i]:offsets[i + 1]]. valid: which rows are there; None: all."""

    values: pa.Array
    offsets: np.ndarray
    valid: np.ndarray | None

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def values_of(source: Source, array: pa.Array, where: Where) -> dict[str, np.ndarray]:
    """The tensors of a column, by name. where: names a row in messages.

    Raises InvalidArgumentError on a null without a default, a list of another length, a number that does not fit.
    """
    if source.is_number and not array.null_count and array.type == source.arrow:  # of hundreds of columns, most
        return {source.name: numpy_of(array)}
    array = plain_array(array)
    if source.is_vector and not is_list(array.type):
        return _vectors(source, array, where)
    if source.as_bytes:
        array = _as_lists(array)
    if not is_list(array.type):
        values = _filled(source, _leaf(source, array, where), where)
        return {source.name: values.reshape(len(values), *source.shape)}
    lists = _opened(source, array, where)
    flat = _values_of_rows(source, lists.values, lists.offsets, where)
    return _dense(source, flat, lists, where) if source.column.kind == DENSE else _variable(source, flat, lists, where)


def _values_of_rows(source: Source, array: pa.Array, offsets: np.ndarray, where: Where) -> np.ndarray:
    """All the values of lists, without a null."""

    def of_row(value: int) -> str:
        return f"{where(int(np.searchsorted(offsets, value, 'right')) - 1)}, inside its list"

    return _filled(source, _leaf(source, array, of_row), of_row)


def _as_lists(array: pa.Array) -> pa.Array:
    """Bytes as lists of numbers, in the same memory."""
    array = array.cast(pa.large_binary())
    valid, ends, data = array.buffers()
    size = 0 if data is None else data.size
    values = pa.Array.from_buffers(pa.uint8(), size, [None, data if size else pa.py_buffer(b"")])
    kind = pa.large_list(pa.field("item", pa.uint8()))
    return pa.Array.from_buffers(kind, len(array), [valid, ends], array.null_count, array.offset, [values])


def _opened(source: Source, array: pa.Array, where: Where) -> Lists:
    """Of lists of lists, all the values of a row."""
    lists = _of_rows(source, array, where)
    for size in source.inner_sizes(source.shape[1:] if source.column.kind == DENSE else ()):
        lists = _without_inner(source, lists, size, where)
    return lists


def _without_inner(source: Source, lists: Lists, size: int, where: Where) -> Lists:
    """The values of lists, each of which has to have `size` of them, in the place of the lists."""
    inner = lists.values
    if not inner.null_count and pa.types.is_fixed_size_list(inner.type):
        return lists._replace(values=inner.flatten(), offsets=lists.offsets * size)
    lengths = numpy_of(pc.list_value_length(inner), -1)
    if (lengths != size).any():
        at = int(np.argmax(lengths != size))
        row = where(int(np.searchsorted(lists.offsets, at, "right")) - 1)
        found = "a null" if lengths[at] < 0 else f"one of {lengths[at]} values"
        raise InvalidArgumentError(
            f"Column {source.name!r} has {found} among its lists of lists at {row}, and its shape is "
            f"{list(source.shape)}. Drop or fill such rows"
        )
    return lists._replace(values=inner.flatten(), offsets=lists.offsets * size)


def _of_rows(source: Source, array: pa.Array, where: Where) -> Lists:
    valid = None
    if array.null_count:
        valid = is_valid(array)
        if source.column.default is None:
            raise null_refused(source.name, where(int(np.argmin(valid))), array.null_count)
    rows = len(array)
    if pa.types.is_fixed_size_list(array.type):
        lengths = np.full(rows, array.type.list_size, np.int64)
        array = array.flatten()  # a null row has none
        if valid is not None:
            lengths[~valid] = 0
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Lists(array, offsets, valid)
    offsets = numpy_of(array.offsets)
    if valid is not None:  # a null row may have values behind it, which flatten leaves out
        lengths = np.where(valid, np.diff(offsets), 0)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Lists(array.flatten(), offsets - offsets[0], valid)


def _dense(source: Source, flat: np.ndarray, lists: Lists, where: Where) -> dict[str, np.ndarray]:
    column, size, rows = source.column, int(np.prod(source.shape)), len(lists.offsets) - 1
    lengths = lists.lengths
    if not (lengths != size).any():
        return {source.name: flat.reshape(rows, *source.shape)}
    wrong = _of_wrong_length(source, lengths, lists.valid, size)
    if wrong.any():
        row = int(np.argmax(wrong))
        if source.is_vector:
            raise _of_wrong_size(source, lengths[row], where(row))
        raise InvalidArgumentError(
            f"Column {source.name!r} has {lengths[row]} values at {where(row)}, and its shape is {list(source.shape)}. "
            "Give it a pad value for shorter rows, truncate=True for longer ones, or make it sparse or ragged"
        )
    pad = None if column.pad is None or source.is_vector else in_unit(column, column.pad)
    out = _padded(flat, lists.offsets, size, 0 if pad is None else pad)
    if lists.valid is not None:
        out[~lists.valid] = default_of(column) if pad is None else pad
    return {source.name: out.reshape(rows, *source.shape)}


def _of_wrong_length(source: Source, lengths: np.ndarray, valid: np.ndarray | None, size: int) -> np.ndarray:
    """Which rows. Vectors are neither padded nor truncated, in whatever form they come."""
    column, strict = source.column, source.is_vector
    wrong = (lengths > size) & (strict or not column.truncate) | (lengths < size) & (strict or column.pad is None)
    return wrong if valid is None else wrong & valid


def _variable(source: Source, flat: np.ndarray, lists: Lists, where: Where) -> dict[str, np.ndarray]:
    """Padded, to `length` or the longest row; a model sees nothing of that."""
    lengths = lists.lengths
    width = _width(source, lengths, where)
    padded = _padded(flat, lists.offsets, width, b"" if flat.dtype == object else 0)
    return {source.name: padded, source.name + LENGTH: np.minimum(lengths, width).astype(np.int32)}


def _width(source: Source, lengths: np.ndarray, where: Where) -> int:
    column = source.column
    if column.length is None:
        return int(lengths.max(initial=0))
    if (lengths > column.length).any() and not column.truncate:
        row = int(np.argmax(lengths > column.length))
        raise InvalidArgumentError(
            f"Column {source.name!r} has {lengths[row]} values at {where(row)}, and its length is at most "
            f"{column.length}. Allow more, or give truncate=True to drop the end"
        )
    return column.length


def _padded(flat: np.ndarray, offsets: np.ndarray, width: int, pad: Any) -> np.ndarray:
    """[rows, width]: the first values of each row, then pad."""
    lengths = np.diff(offsets)
    out = np.full((len(lengths), width), pad, flat.dtype)
    if (lengths > width).any():
        place = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths)
        flat = flat[place < width]
    out[np.arange(width) < lengths[:, None]] = flat
    return out


# ---------------------------------------------------------------------- ML vectors


def _vectors(source: Source, array: pa.Array, where: Where) -> dict[str, np.ndarray]:
    """type 1: dense, all in `values`; type 0: sparse, `values` at `indices` of `size`."""
    valid = is_valid(array)
    if array.null_count and source.column.default is None:
        raise null_refused(source.name, where(int(np.argmin(valid))), array.null_count)
    kinds, sizes, indices, values = _of_vectors(array)
    (size,) = source.shape
    dense = numpy_of(kinds, 1) == 1
    lengths, starts = _lengths(values), np.concatenate([[0], np.cumsum(_lengths(values))])
    found = np.where(dense, lengths, numpy_of(sizes, 0))
    if ((found != size) & valid).any():
        row = int(np.argmax((found != size) & valid))
        raise _of_wrong_size(source, found[row], where(row))
    flat = _values_of_rows(source, values.flatten(), starts, where)
    if dense.all() and valid.all() and source.column.kind == DENSE:
        return {source.name: flat.reshape(len(array), size)}
    column = np.arange(len(flat)) - np.repeat(starts[:-1], lengths)
    column[~np.repeat(dense, lengths)] = _indices(source, indices, np.where(dense, 0, lengths), size, where)
    if source.column.kind == DENSE:
        out = np.zeros((len(array), size), flat.dtype)
        out[np.repeat(np.arange(len(array)), lengths), column] = flat
        out[~valid] = source.column.default or 0
        return {source.name: out}
    width = _width(source, lengths, where)
    return {
        source.name: _padded(flat, starts, width, 0),
        source.name + LENGTH: np.minimum(lengths, width).astype(np.int32),
        source.name + INDICES: _padded(column.astype(np.int32), starts, width, 0),
    }


def _of_wrong_size(source: Source, size: int, where: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Column {source.name!r} has a vector of size {size} at {where}, and its shape is {list(source.shape)}"
    )


def _of_vectors(array: pa.Array) -> list[pa.Array]:
    """type, size, indices and values; of a null vector, all of them null.

    Rows of pandas say no type of what all of them lack (dense ones of sizes, empty ones of values), and may be of whole
    numbers.
    """
    parts, kinds = array.flatten(), (pa.int8(), pa.int32(), pa.list_(pa.int32()), pa.list_(pa.float64()))
    return [
        part if _told(part.type) == _told(kind) else part.cast(kind) for part, kind in zip(parts, kinds, strict=True)
    ]


def _told(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if is_list(kind) else kind


def _indices(source: Source, lists: pa.Array, lengths: np.ndarray, size: int, where: Where) -> np.ndarray:
    """Of the values of sparse vectors. lengths: how many values each row has; of a dense one 0."""
    wrong = _lengths(lists) != lengths
    found = np.zeros(0, np.int32)
    if not wrong.any():
        found = numpy_of(lists.flatten(), -1)
        outside = (found < 0) | (found >= size)
        if outside.any():
            wrong[np.repeat(np.arange(len(lengths)), lengths)[outside]] = True
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidArgumentError(
            f"Column {source.name!r} has a sparse vector at {where(row)} whose indices {lists[row].as_py()} are not "
            f"one for each of its {lengths[row]} values, from 0 to {size - 1}"
        )
    return found


def _lengths(lists: pa.Array) -> np.ndarray:
    return np.asarray(numpy_of(pc.list_value_length(lists), 0), np.int64)


# ---------------------------------------------------------------------- values


def _leaf(source: Source, array: pa.Array, where: Where) -> pa.Array:
    """Values of the tensor's type; a null stays one."""
    column, kind = source.column, array.type
    if source.as_bytes:
        return array
    if column.is_by_id:
        return ids(column, array)
    if is_text(kind):
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)  # of whatever part of 2 GiB and more
        return array.cast(pa.large_binary() if large else pa.binary())
    if pa.types.is_decimal(kind):
        exact = column.cast is not None and column.cast.is_integer  # a double has not all the digits of an id
        array = for_integers(array) if exact else doubles(array)
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int64())
    return array if column.cast is None else _cast(source.name, array, column.cast, where)


def _cast(name: str, array: pa.Array, dtype: DType, where: Where) -> pa.Array:
    wanted = pa.from_numpy_dtype(dtype.np)
    if pa.types.is_boolean(array.type):  # which Arrow casts to all numbers but float16
        array = array.cast(pa.uint8())
    try:
        return array.cast(wanted, safe=dtype.is_integer)  # what becomes a float is rounded
    except pa.ArrowInvalid as error:
        row = where(_first_refused(array, wanted))
        raise InvalidArgumentError(f"Column {name!r} cannot be cast to {dtype.name} at {row}: {error}") from None


def _first_refused(array: pa.Array, wanted: pa.DataType) -> int:
    """Which of the values cannot be cast, of which one is known to be."""
    first, last = 0, len(array)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            array[first:middle].cast(wanted)
            first = middle
        except pa.ArrowInvalid:
            last = middle
    return first


def _filled(source: Source, array: pa.Array, where: Where) -> np.ndarray:
    default = source.column.default
    if array.null_count and default is None:
        raise null_refused(source.name, where(int(np.argmin(is_valid(array)))), array.null_count)
    return numpy_of(array, default)


def null_refused(column: str, where: str, count: int, role: str = "") -> InvalidArgumentError:
    """role: of the column, such as "label"."""
    return InvalidArgumentError(
        f"Column {column!r} {f'({role}) ' if role else ''}is null at {where} ({count} nulls in that batch). Drop or "
        f"fill nulls, or give it a default: Column({column!r}, default=...)"
    )
