"""Arrow batches to SequenceExample messages and back, a message at a time by protobuf's own classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from sparkflow.errors import DataLossError, InvalidArgumentError
from sparkflow.train import SequenceExample
from sparkflow_connectors.record_types import depth_of, kind_of, leaves, value_type
from sparkflow_connectors.record_values import Where, flat, mapped, nested, plain, typed
from sparkflow_runtime.records.example import KIND_NAMES
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import frame

_LISTS = ("", "bytes_list", "float_list", "int64_list")
_PLAIN = (pa.null(), pa.binary(), pa.float32(), pa.int64())


def encoded(batch: pa.RecordBatch) -> np.ndarray:
    """Lists of lists are feature lists, everything else is context."""
    columns = []
    for name, array in flat(batch):
        kind = int(kind_of(value_type(array.type)) or 0)
        rows = mapped(array, partial(plain, kind=kind, name=name)).to_pylist()
        columns.append((name, depth_of(array.type), _LISTS[kind], rows))
    out = []
    for i in range(batch.num_rows):
        message = SequenceExample()
        for name, depth, kind_name, rows in columns:
            if rows[i] is not None:
                _add(message, name, depth, kind_name, rows[i])
        out.append(frame(message.SerializeToString()))
    return np.frombuffer(b"".join(out), np.uint8)


def _add(message: Any, name: str, depth: int, kind: str, value: Any) -> None:
    try:
        if depth < 2:
            _extend(getattr(message.context.feature[name], kind), value if depth else [value])
            return
        features = message.feature_lists.feature_list[name].feature
        for inner in value:
            _extend(getattr(features.add(), kind), inner)
    except TypeError:
        raise InvalidArgumentError(f"column {name!r}: a null inside a list cannot be in a feature") from None


def _extend(target: Any, values: Any) -> None:
    target.SetInParent()  # an empty list has a type too
    target.value.extend(values)


def decoded(block: Block, schema: pa.Schema, where: Where) -> pa.RecordBatch:
    """Raises DataLossError on a record that is none, InvalidArgumentError where it does not fit the schema."""
    fields = list(leaves(schema))
    columns: list[list[Any]] = [[] for _ in fields]
    for i, record in enumerate(block.records()):
        try:
            message = SequenceExample.FromString(record)
        except DecodeError:
            raise DataLossError(f"{where.record(i)} is no tf.train.SequenceExample") from None
        for field, column in zip(fields, columns):
            column.append(_value(message, field, where, i))
    arrays = iter([_typed_column(column, field) for column, field in zip(columns, fields)])
    return pa.record_batch([nested(f.type, arrays) for f in schema], schema=schema)


def _value(message: Any, field: pa.Field, where: Where, i: int) -> Any:
    depth = depth_of(field.type)
    if depth == 2:
        if field.name not in message.feature_lists.feature_list:
            return _null(field, where, i)
        return [_list(f, field, where, i) for f in message.feature_lists.feature_list[field.name].feature]
    if field.name not in message.context.feature:
        return _null(field, where, i)
    values = _list(message.context.feature[field.name], field, where, i)
    if depth:
        return values
    if len(values) > 1:
        raise where.has_several(i, field, len(values))
    return values[0] if values else _null(field, where, i)


def _list(feature: Any, field: pa.Field, where: Where, i: int) -> list[Any]:
    kind = int(kind_of(value_type(field.type)) or 0)
    found = feature.WhichOneof("kind")
    if found not in (None, _LISTS[kind]):
        held = KIND_NAMES[_LISTS.index(found)]
        raise InvalidArgumentError(
            f"{where.record(i)}: feature {field.name!r} holds {held}, the schema says {field.type}"
        )
    return list(getattr(feature, _LISTS[kind]).value)


def _null(field: pa.Field, where: Where, i: int) -> None:
    if not field.nullable:
        raise InvalidArgumentError(
            f"{where.record(i)} has no feature {field.name!r}, which the schema says is never null"
        )


def _typed_column(values: list[Any], field: pa.Field) -> pa.Array:
    inner = value_type(field.type)
    dtype = _PLAIN[int(kind_of(inner) or 0)]
    for _ in range(depth_of(field.type)):
        dtype = pa.list_(dtype)
    array = mapped(pa.array(values, dtype), lambda leaf: typed(leaf, inner, field.name), field)
    return array if array.type == field.type else array.cast(field.type)
