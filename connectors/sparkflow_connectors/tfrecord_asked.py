"""A schema that is asked for, beside that which was written down when the records were: names in other letters are
refused, and times, which are whole numbers in the records, are read in the units that were written.

Spark has times of one unit, and no unsigned numbers or halves: what others wrote becomes there what holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkflow_runtime.wire.errors import InvalidArgumentError

_IN_SPARK = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),  # records hold no larger ones
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}
_MOST_DIGITS = 38


def check_case(given: Sequence[str], there: Sequence[str], root: str) -> None:
    """Raises InvalidArgumentError on a name that none of the records have, but in other letters: to Spark it is the
    same, and nothing but nulls would be read."""
    same = {name.lower(): name for name in there}
    for name in given:
        if name not in there and (other := same.get(name.lower())) is not None:
            raise InvalidArgumentError(
                f"{root}: the schema has a column {name!r}, and the records have {other!r}: names of features differ "
                f"by case. Say {other!r} in the schema"
            )


def in_units_of(asked: pa.Schema, written: pa.Schema | None) -> pa.Schema:
    """The schema that is asked for, but times and dates as they were written."""
    if written is None:
        return asked
    had = {field.name: field.type for field in written}
    return pa.schema([f.with_type(_in_units(f.type, had[f.name])) if f.name in had else f for f in asked])


def as_asked(column: pa.Array, asked: pa.DataType) -> pa.Array:
    """In the units that are asked for; what these cannot tell is cut off."""
    return column if column.type == asked else column.cast(asked, safe=False)


def in_spark(written: pa.DataType) -> pa.DataType:
    """The type by which Spark knows such values."""
    if pa.types.is_decimal(written):
        digits = min(written.precision, _MOST_DIGITS)
        return pa.decimal128(digits, min(written.scale, digits))
    if pa.types.is_struct(written):
        return pa.struct([field.with_type(in_spark(field.type)) for field in written])
    if _is_list(written):
        return pa.list_(written.value_field.with_type(in_spark(written.value_type)))
    return _IN_SPARK.get(written, written)


def _in_units(asked: pa.DataType, written: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(asked) and types.is_struct(written):
        had = {field.name: field.type for field in written}
        return pa.struct([f.with_type(_in_units(f.type, had[f.name])) if f.name in had else f for f in asked])
    if _is_list(asked) and _is_list(written):
        field = asked.value_field.with_type(_in_units(asked.value_type, written.value_type))
        if types.is_fixed_size_list(asked):
            return pa.list_(field, asked.list_size)
        return pa.large_list(field) if types.is_large_list(asked) else pa.list_(field)
    if types.is_timestamp(asked) and types.is_timestamp(written):
        return pa.timestamp(written.unit, asked.tz)
    alike = all(map(_is_day_or_moment, (asked, written))) or all(map(types.is_time, (asked, written)))
    return written if alike else asked


def _is_day_or_moment(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) or pa.types.is_date(dtype))


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))
