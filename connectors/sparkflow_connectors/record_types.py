"""How Arrow types stand in tf.train.Example, and the sidecar file that remembers what Example cannot say.

The table is that of spark-tensorflow-connector and spark-tfrecord, so that each reads what the others write:

| Arrow (Spark) | Feature |
|---|---|
| bool, int8..int64, uint8..uint32, date32 (days), timestamp (its unit), time | int64_list |
| float16, float32, float64, decimal | float_list (32 bits: doubles and decimals lose digits) |
| string, binary | bytes_list |
| other forms of these (plain_types.py: categories, views) | the same; come back as the plain type |
| list of these | the same, many values |
| ML vector, dense or sparse | all its values, as of a list of doubles, which it comes back as |
| list of lists of these | a feature list; record type SequenceExample alone |
| struct | its fields, each a feature named "struct.field" |
| null (Spark's void) | no feature |

A null is a feature that is not there; a struct of which none is there is null, unless it never is. Example knows only
the right-hand side: a file written elsewhere is read as int64, float32, string and lists of them. What is written here
has `_sparkflow_schema.json` beside it and comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from sparkflow_runtime.records.example import BYTES_LIST, FLOAT_LIST, INT64_LIST
from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.errors import InvalidArgumentError

SIDECAR = "_sparkflow_schema.json"
EXAMPLE, SEQUENCE_EXAMPLE, BYTE_ARRAY = "Example", "SequenceExample", "ByteArray"
RECORD_TYPES = (EXAMPLE, SEQUENCE_EXAMPLE, BYTE_ARRAY)
BYTE_ARRAY_SCHEMA = pa.schema([pa.field("byteArray", pa.binary())])


def kind_of(dtype: pa.DataType) -> int | None:
    """Which list holds values of this type; None: none does."""
    types = pa.types
    if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_temporal(dtype):
        return None if types.is_duration(dtype) or types.is_interval(dtype) else INT64_LIST
    if types.is_floating(dtype) or types.is_decimal(dtype):
        return FLOAT_LIST
    if is_text(dtype):
        return BYTES_LIST
    return None


def is_text(dtype: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(dtype)
        or types.is_large_string(dtype)
        or types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or types.is_fixed_size_binary(dtype)
    )


def is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype))


def depth_of(dtype: pa.DataType) -> int:
    """How many lists are around the values."""
    depth = 0
    while is_list(dtype):
        dtype, depth = dtype.value_type, depth + 1
    return depth


def value_type(dtype: pa.DataType) -> pa.DataType:
    while is_list(dtype):
        dtype = dtype.value_type
    return dtype


def leaves(schema: pa.Schema) -> Iterator[pa.Field]:
    """The fields with the fields of structs in their place, named 'struct.field'."""
    for field in schema:
        yield from _leaves(field)


def _leaves(field: pa.Field) -> Iterator[pa.Field]:
    """A struct without a field is one itself: there is no feature for it. Of a null struct all features are missing,
    also those of fields that are never null."""
    if not pa.types.is_struct(field.type) or not field.type.num_fields:
        yield field
        return
    for inner in field.type:
        may_lack = inner.nullable or field.nullable
        yield from _leaves(inner.with_name(f"{field.name}.{inner.name}").with_nullable(may_lack))


def check_schema(schema: pa.Schema, record_type: str) -> None:
    """Raises InvalidArgumentError on a record type there is not, and a column that it cannot hold."""
    if record_type not in RECORD_TYPES:
        raise InvalidArgumentError(f"recordType: expected one of {', '.join(RECORD_TYPES)}, got {record_type!r}")
    if record_type == BYTE_ARRAY:
        if len(schema) != 1 or not is_text(schema.field(0).type):
            there = ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
            raise InvalidArgumentError(f"recordType ByteArray takes one binary column; the table has {there}")
        return
    deepest = 2 if record_type == SEQUENCE_EXAMPLE else 1
    names = set[str]()
    for name in (field.name for field in leaves(schema)):
        if name in names:
            raise InvalidArgumentError(f"column {name!r}: two columns would be the feature of that name")
        names.add(name)
    for field in leaves(schema):
        if pa.types.is_null(field.type):  # there is no feature, and none is needed
            continue
        if kind_of(value_type(field.type)) is None or depth_of(field.type) > deepest:
            why = (
                "lists of lists need recordType SequenceExample"
                if depth_of(field.type) == 2 > deepest
                else "it has no feature type"
            )
            raise InvalidArgumentError(f"column {field.name!r}: {field.type} cannot be written as {record_type}; {why}")


def check_folder_type(field: pa.Field) -> None:
    """Raises InvalidArgumentError on a column whose values name no folders, or are not known again by them."""
    kind = kind_of(field.type)
    if kind is None or pa.types.is_time(field.type):
        raise InvalidArgumentError(
            f"partition_by: column {field.name!r} is {field.type}, whose values name no folders. Cast it first"
        )


# ---------------------------------------------------------------------- the sidecar

_SIMPLE: dict[str, pa.DataType] = {
    str(t): t
    for t in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
        pa.date32(), pa.date64(), pa.null(),
    )
}  # fmt: skip


class WithoutNulls(NamedTuple):
    """Columns that have no null in any row, though their types allow it, as long as there are so many files: another
    file may be of somebody who does not tell."""

    columns: frozenset[str] = frozenset()
    files: int = -1


class Sidecar(NamedTuple):
    """What a folder's files are. records: how many each of them has, by its path in the folder, of those known."""

    schema: pa.Schema
    record_type: str
    records: Mapping[str, int]
    without_nulls: WithoutNulls = WithoutNulls()

    def never_null(self, files: Collection[str]) -> frozenset[str]:
        """The columns in which none of these files, by their paths in the folder, has a null, where that is known."""
        known = len(self.records) or len(files)
        mine = not self.records or all(file in self.records for file in files)
        return self.without_nulls.columns if mine and self.without_nulls.files == known else frozenset()


def to_json(sidecar: Sidecar) -> str:
    schema, record_type, records, without_nulls = sidecar
    found = {"version": 1, "recordType": record_type, "fields": [_field(f) for f in schema]}
    if without_nulls.files >= 0:
        found["withoutNulls"] = {"columns": sorted(without_nulls.columns), "files": without_nulls.files}
    if records:
        found["records"] = dict(sorted(records.items()))
    return json.dumps(found | {_CHECKED: _checksum(found)}, indent=1)


_CHECKED = "crc32c"


def _checksum(found: dict[str, Any]) -> int:
    """However it is spaced. A name of a column with another letter would be a column of nulls."""
    return crc32c(json.dumps(found, sort_keys=True).encode())


def from_json(text: str | bytes, path: str) -> Sidecar:
    """Raises InvalidArgumentError where the file says something else."""
    try:
        found = json.loads(text)
        checked = found.pop(_CHECKED, None)
        if checked is not None and checked != _checksum(found):
            raise ValueError(f"its {_CHECKED} is another: it is damaged, or was changed by hand (then leave that out)")
        if found["version"] != 1:
            raise ValueError(f"version {found['version']}")
        if found["recordType"] not in RECORD_TYPES:
            raise ValueError(f"recordType {found['recordType']}")
        told = found.get("withoutNulls")
        without_nulls = WithoutNulls() if told is None else WithoutNulls(frozenset(told["columns"]), told["files"])
        records = {name: int(count) for name, count in found.get("records", {}).items()}
        schema = pa.schema([_read_field(f) for f in found["fields"]])
        return Sidecar(schema, found["recordType"], records, without_nulls)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{path} is no schema that this version can read: {error!r}") from None


def joined(there: pa.Schema, more: pa.Schema) -> pa.Schema | None:
    """What a folder with rows of both holds; they differ in nothing but whether a value may be null. Otherwise None."""
    if there.names != more.names:
        return None
    fields = [field for a, b in zip(there, more, strict=True) if (field := _joined(a, b)) is not None]
    return pa.schema(fields) if len(fields) == len(there) else None


def _joined(a: pa.Field, b: pa.Field) -> pa.Field | None:
    """With the first one's name for the values of a list, which is no part of its type."""
    dtype: pa.DataType | None = None
    if is_list(a.type) and is_list(b.type):
        inner = _joined(a.type.value_field, b.type.value_field)
        dtype = None if inner is None else pa.list_(inner)
    elif pa.types.is_struct(a.type) and pa.types.is_struct(b.type):
        within = joined(pa.schema([*a.type]), pa.schema([*b.type]))
        dtype = None if within is None else pa.struct([*within])
    elif _type(a.type) == _type(b.type):
        dtype = _read_type(_type(a.type))
    return None if dtype is None else pa.field(a.name, dtype, a.nullable or b.nullable)


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "nullable": field.nullable, "type": _type(field.type)}


def _read_field(given: dict[str, Any]) -> pa.Field:
    return pa.field(given["name"], _read_type(given["type"]), given["nullable"])


def _type(dtype: pa.DataType) -> Any:
    if pa.types.is_struct(dtype):
        return {"struct": [_field(f) for f in dtype]}
    if is_list(dtype):
        return {"list": _field(dtype.value_field)}
    if pa.types.is_timestamp(dtype):
        return {"timestamp": dtype.unit, "tz": dtype.tz}
    if pa.types.is_time(dtype):
        return {"time": dtype.unit}
    if pa.types.is_decimal(dtype):
        return {"decimal": [dtype.precision, dtype.scale]}  # more than 38 digits are a decimal256
    return "binary" if pa.types.is_fixed_size_binary(dtype) else str(dtype)


def _read_type(given: Any) -> pa.DataType:
    if isinstance(given, str):
        return _SIMPLE[given]
    if "struct" in given:
        return pa.struct([_read_field(f) for f in given["struct"]])
    if "list" in given:
        return pa.list_(_read_field(given["list"]))
    if "timestamp" in given:
        return pa.timestamp(given["timestamp"], given["tz"])
    if "time" in given:
        return pa.time32(given["time"]) if given["time"] in ("s", "ms") else pa.time64(given["time"])
    precision, scale = given["decimal"]
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
