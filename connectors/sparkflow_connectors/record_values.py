"""The values of columns as the lists of Feature hold them, and back; structs as their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkflow_connectors.arrow_numpy import arrow_of, is_valid, numpy_of
from sparkflow_connectors.record_types import is_list, kind_of
from sparkflow_runtime.records.example import BYTES_LIST, INT64_LIST, KIND_NAMES
from sparkflow_runtime.records.example_encode import Feature
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import HEADER
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError

_OTHERWISE = "Give another schema, or infer it from more records (sample; 0: from all)"


class DoesNotFit(InvalidArgumentError):
    """A value that the column's type has not. It names the column; who reads it adds where it stands."""


class Where:
    """Names records of a block in messages."""

    def __init__(self, block: Block, path: str):
        self._block, self._path = block, path

    def record(self, i: int) -> str:
        return f"{self._path}: the record at byte {self._block.offset + int(self._block.starts[i]) - HEADER}"

    def is_none(self, i: int, record_type: str) -> DataLossError:
        return DataLossError(
            f"{self.record(i)} is no tf.train.{record_type}. Give the recordType that the file has; on_error='skip' "
            "leaves such records out"
        )

    def lacks(self, i: int, field: pa.Field) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.record(i)} has no feature {field.name!r}, which the schema says is never null. Read the folder "
            "anew, if rows were added since, or give a schema in which it may be"
        )

    def has_several(self, i: int, field: pa.Field, count: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.record(i)}: feature {field.name!r} has {count} values, the schema says one {field.type}. "
            + _OTHERWISE
        )

    def holds(self, i: int, field: pa.Field, kind: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self.record(i)}: feature {field.name!r} holds {KIND_NAMES[kind]}, the schema says {field.type}. "
            + _OTHERWISE
        )


class Inside(Where):
    """The same for the features of feature lists. message: which record has a feature."""

    def __init__(self, whole: Where, message: Callable[[int], int]):
        self._whole, self._message = whole, message

    def record(self, i: int) -> str:
        return self._whole.record(self._message(i))


def flat(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    for field, column in zip(batch.schema, batch.columns):
        yield from unpacked(field.name, column)


def unpacked(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """A column, or the fields of a struct: a null struct is fields of nulls. What is null by its type is left out."""
    if pa.types.is_null(array.type):
        return
    if not pa.types.is_struct(array.type):
        yield name, array
        return
    for field, inner in zip(array.type, array.flatten()):
        yield from unpacked(f"{name}.{field.name}", inner)


def nested(field: pa.Field, arrays: Iterator[pa.Array], where: Where) -> pa.Array:
    """The next column, or a struct of the next ones. Raises InvalidArgumentError on a struct that has some of its
    fields, and lacks one that is never null."""
    if not pa.types.is_struct(field.type):
        return next(arrays)
    array, _ = _struct(field, arrays)
    if (found := null_where_none_may_be(field.name, field, array)) is not None:
        name, row = found
        raise where.lacks(row, field.with_name(name))
    return array


def _struct(field: pa.Field, arrays: Iterator[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """(the array, in which rows all its features are missing): there it is null, if it ever is."""
    if not pa.types.is_struct(field.type):
        array = next(arrays)
        return array, array.is_null()
    inner, missing = zip(*(_struct(f, arrays) for f in field.type))
    gone = reduce(pc.and_, missing)
    mask = gone if field.nullable else None
    return pa.StructArray.from_arrays(inner, fields=list(field.type), mask=mask), gone


def null_where_none_may_be(
    name: str, field: pa.Field, array: pa.Array, above: pa.Array | None = None
) -> tuple[str, int] | None:
    """(name, row) of the first null of what is never null by its type, as "struct.field" in structs that are there.

    above: the struct that it is a field of, whose nulls it has too."""
    if not field.nullable and array.null_count > (0 if above is None else above.null_count):
        null = array.is_null() if above is None else pc.and_(array.is_null(), above.is_valid())
        return name, pc.index(null, True).as_py()
    if pa.types.is_struct(array.type):
        for within, inner in zip(array.type, array.flatten()):
            if (found := null_where_none_may_be(f"{name}.{within.name}", within, inner, array)) is not None:
                return found
    return None


def feature(name: str, array: pa.Array) -> Feature:
    """A column of values or of lists. Raises InvalidArgumentError on a null inside a list."""
    present = None if not array.null_count else is_valid(array)
    lengths: np.ndarray | None
    if is_list(array.type):
        lengths = numpy_of(pc.list_value_length(array), 0)
        values = array.flatten()
        if values.null_count:
            row = int(np.searchsorted(np.cumsum(lengths), np.argmin(is_valid(values)), "right"))
            raise InvalidArgumentError(
                f"column {name!r}: row {row} of the batch has a null inside its list, which a feature cannot hold"
            )
    else:
        lengths = None if present is None else present.astype(np.int64)
        values = array if present is None else array.drop_null()
    offsets = None
    if lengths is not None:
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
    kind = kind_of(values.type)
    if kind == BYTES_LIST:
        data, ends = text(values, name)
        return Feature(name.encode(), kind, data, offsets, present, ends)
    return Feature(name.encode(), int(kind or 0), numbers(values, int(kind or 0), name), offsets, present)


def numbers(values: pa.Array, kind: int, name: str) -> np.ndarray:
    if kind == INT64_LIST:
        if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
            values = values.cast(pa.int32())
        values = cast(values, pa.int64(), name)
        return np.ascontiguousarray(numpy_of(values), np.int64)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
        if len(values) and not (largest := float(pc.max(pc.abs(values)).as_py())) <= float(np.finfo(np.float32).max):
            raise DoesNotFit(
                f"column {name!r}: {largest:g} is more than a feature holds, and a decimal is not infinite"
            )
    with np.errstate(over="ignore"):  # what is too large for 32 bits is infinite there
        return np.ascontiguousarray(numpy_of(values), np.float32)


def cast(values: pa.Array, dtype: pa.DataType, name: str) -> pa.Array:
    if values.type == dtype:
        return values
    try:
        return values.cast(dtype)
    except pa.ArrowInvalid as error:
        raise DoesNotFit(f"column {name!r}: {error}") from None


def text(values: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(the bytes of all, int64 offsets)."""
    if values.null_count:
        raise InvalidArgumentError(f"column {name!r}: a null cannot be a record")
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return text, ends


def typed(array: pa.Array, dtype: pa.DataType, name: str) -> pa.Array:
    """int64, float32 or binary values as the column's type. Raises InvalidArgumentError on one that does not fit."""
    if array.type == dtype:
        return array
    if pa.types.is_boolean(dtype):
        return pc.not_equal(array, 0)
    if pa.types.is_decimal(dtype):
        return _decimals(array.cast(pa.float64()), dtype, name)
    if pa.types.is_date32(dtype) or pa.types.is_time32(dtype):
        array = cast(array, pa.int32(), name)
    return cast(array, dtype, name)


def _decimals(array: pa.Array, dtype: pa.DataType, name: str) -> pa.Array:
    """float64 as decimals. 32 bits may have rounded the largest numbers of the type up, beyond it: they are its largest
    one then. Whatever is larger still was never one of the type."""
    try:
        return cast(array, dtype, name)
    except DoesNotFit:
        most = Decimal(f"{10**dtype.precision - 1}E{-dtype.scale}")
        with np.errstate(over="ignore"):
            rounded = float(np.float32(pa.scalar(most, dtype).cast(pa.float64()).as_py()))
        largest = pc.fill_null(pc.equal(pc.abs(array), rounded), False)
        if np.isinf(rounded) or not pc.any(largest).as_py():
            raise
    found = cast(pc.if_else(largest, 0.0, array), dtype, name)
    for value, sign in ((most, rounded), (most.copy_negate(), -rounded)):
        found = pc.if_else(pc.fill_null(pc.equal(array, sign), False), pa.scalar(value, dtype), found)
    return found


def lists_of(lengths: np.ndarray, values: pa.Array, missing: np.ndarray | None, field: pa.Field) -> pa.Array:
    """A list array; field: of the values."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = arrow_of(missing) if missing is not None and missing.any() else None
    return pa.ListArray.from_arrays(arrow_of(offsets), values, type=pa.list_(field.with_type(values.type)), mask=mask)
