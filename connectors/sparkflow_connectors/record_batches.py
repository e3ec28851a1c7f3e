"""Arrow batches to records and back, column by column: no Python object a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_connectors import record_sequences
from sparkflow_connectors.arrow_numpy import arrow_of
from sparkflow_connectors.record_types import (
    BYTE_ARRAY,
    EXAMPLE,
    depth_of,
    kind_of,
    leaves,
    value_type,
)
from sparkflow_connectors.record_values import (
    DoesNotFit,
    Inside,
    Where,
    cast,
    feature,
    flat,
    lists_of,
    nested,
    text,
    typed,
)
from sparkflow_runtime.records.example import (
    MISSING,
    BadMessage,
    Index,
    Keys,
    Room,
    index,
)
from sparkflow_runtime.records.example_encode import encode
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import framed
from sparkflow_runtime.records.sequences import FeatureList, feature_lists, places
from sparkflow_runtime.records.spans import gathered
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- batches to records


def encoded(batch: pa.RecordBatch, record_type: str = EXAMPLE, room: Room | None = None) -> np.ndarray:
    """The rows as they stand in a TFRecord file, uint8; in `room`, if given, until the next call with it. Raises
    InvalidArgumentError on a null inside a list and on a number that does not fit."""
    if record_type == BYTE_ARRAY:
        return framed(*text(batch.column(0), batch.schema.field(0).name))
    if record_type != EXAMPLE:
        return record_sequences.encoded(batch)
    features = [feature(name, array) for name, array in flat(batch)]
    return encode(features, batch.num_rows, framed=True, room=room)[0]


# ---------------------------------------------------------------------- records to batches


class Decoder:
    """Makes batches of `schema` out of blocks of records.

    A scalar column takes a feature with one value; a feature of another kind, or with more values, raises
    InvalidArgumentError with column and record.
    """

    def __init__(self, schema: pa.Schema, record_type: str = EXAMPLE):
        self.schema, self.record_type = schema, record_type
        self._leaves = list(leaves(schema))
        self._lists = [f for f in self._leaves if depth_of(f.type) == 2]  # in SequenceExample alone
        self._fields = [f for f in self._leaves if depth_of(f.type) < 2]
        self._keys, self._list_keys = (Keys.of([f.name.encode() for f in some]) for some in (self._fields, self._lists))
        self._room = Room()
        self._kinds = [int(kind_of(value_type(f.type)) or 0) for f in self._fields]
        self._singles = [0 if depth_of(f.type) else k for f, k in zip(self._fields, self._kinds)]

    @property
    def features(self) -> int:
        """How many are read of a record."""
        return len(self._leaves)

    def batch(self, block: Block, path: str = "") -> pa.RecordBatch:
        """path: for messages. Raises DataLossError on a record that is no Example."""
        where = Where(block, path)
        try:
            return self._batch(block, where)
        except DoesNotFit as error:
            if (half := len(block.starts) // 2) > 0:  # until it is known in which record
                for part in (slice(half), slice(half, None)):
                    self.batch(block._replace(starts=block.starts[part], ends=block.ends[part]), path)
            raise InvalidArgumentError(f"{where.record(0)}: {error.message}") from None

    def _batch(self, block: Block, where: Where) -> pa.RecordBatch:
        if self.record_type == BYTE_ARRAY:
            data, ends = gathered(block.buffer, block.starts, block.ends)
            array = _text_array(data, ends, None, self.schema.field(0).type, "")
            return pa.record_batch([array], schema=self.schema)
        try:
            found = index(block.buffer, block.starts, block.ends, self._keys, self._singles, self._room)
            columns = _Columns(found, self._fields, self._kinds, where)
            plain, lists = iter(columns.arrays()), self._lists_of(block, where)
            arrays = iter([next(lists if depth_of(f.type) == 2 else plain) for f in self._leaves])
        except BadMessage as error:
            raise where.is_none(error.index, self.record_type) from None
        return pa.record_batch([nested(f, arrays, where) for f in self.schema], schema=self.schema)

    def _lists_of(self, block: Block, where: Where) -> Iterator[pa.Array]:
        if self._lists:
            found = feature_lists(places(block.buffer, block.starts, block.ends, self._list_keys))
            yield from map(partial(_lists_of_lists, where=where), found, self._lists)


class _Columns:
    """The fields of one block: those of one kind are read together, while the messages are in the cache."""

    def __init__(self, found: Index, fields: list[pa.Field], kinds: list[int], where: Where):
        """kinds: of the lists that hold the fields' values."""
        self._found, self._fields, self._kinds, self._where = found, fields, kinds, where

    def arrays(self) -> list[pa.Array]:
        out: list[Any] = [None] * len(self._fields)
        groups: dict[int, list[int]] = {}
        for c, field in enumerate(self._fields):
            if (values := self._found.whole(c)) is not None:
                out[c] = _values(self._found, values, field.type, field.name)
                continue
            self._check(c, field)
            if pa.types.is_null(field.type):
                out[c] = pa.nulls(self._found.kinds.shape[1])
            elif depth_of(field.type):
                groups.setdefault(self._kinds[c], []).append(c)
            else:
                out[c] = self._scalar(c, self._kinds[c])
        for kind, columns in groups.items():
            for c, array in zip(columns, self._lists(columns, kind)):
                out[c] = array
        return out

    def _check(self, column: int, field: pa.Field) -> None:
        kinds = self._found.kinds[column]
        wrong = (kinds != MISSING) & (kinds != self._kinds[column])
        if wrong.any():
            i = int(np.argmax(wrong))
            raise self._where.holds(i, field, int(kinds[i]))
        if not field.nullable and (kinds == MISSING).any():
            raise self._where.lacks(int(np.argmax(kinds == MISSING)), field)

    def _lists(self, columns: list[int], kind: int) -> Iterator[pa.Array]:
        values, counts = self._found.ragged(columns, kind)
        for c, mine, lengths in zip(columns, values, counts):
            field = self._fields[c]
            inner = _values(self._found, mine, value_type(field.type), field.name)
            array = lists_of(lengths, inner, self._found.kinds[c] == MISSING, field.type.value_field)
            yield array if array.type == field.type else cast(array, field.type, field.name)

    def _scalar(self, column: int, kind: int) -> pa.Array:
        field, (values, counts) = self._fields[column], self._found.single(column, kind)
        if counts.max(initial=0) > 1:
            i = int(np.argmax(counts > 1))
            raise self._where.has_several(i, field, int(counts[i]))
        if not field.nullable and not counts.all():  # a feature that is there and has no value
            raise self._where.lacks(int(np.argmin(counts)), field)
        return _values(self._found, values, field.type, field.name, counts == 0)


def _lists_of_lists(found: FeatureList, field: pa.Field, where: Where) -> pa.Array:
    if found.missing.any() and not field.nullable:
        raise where.lacks(int(np.argmax(found.missing)), field)
    kinds = found.features.kinds
    kind = int(kind_of(value_type(field.type)) or 0)
    kinds[kinds == MISSING] = kind  # a feature of no kind is an empty list
    inner = field.type.value_field.with_name(field.name)
    try:
        lists = _Columns(found.features, [inner], [kind], Inside(where, found.message)).arrays()[0]
    except BadMessage as error:
        raise BadMessage(found.message(error.index)) from None
    array = lists_of(found.counts, lists, found.missing, field.type.value_field)
    return array if array.type == field.type else cast(array, field.type, field.name)


def _values(
    found: Index, values: np.ndarray, dtype: pa.DataType, name: str, missing: np.ndarray | None = None
) -> pa.Array:
    if values.ndim == 2:  # where strings begin and end
        starts, ends = values[:, 0], values[:, 1]
        if missing is not None:
            starts, ends = np.where(missing, 0, starts), np.where(missing, 0, ends)
        return _text_array(*gathered(found.buffer, starts, ends), missing, dtype, name)
    null = missing if missing is not None and missing.any() else None
    if null is not None and values.dtype == np.int64:  # what was never read may be any number
        values = np.where(null, 0, values)
    return typed(arrow_of(values, null), dtype, name)


def _text_array(
    data: np.ndarray, offsets: np.ndarray, missing: np.ndarray | None, dtype: pa.DataType, name: str
) -> pa.Array:
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return cast(array, dtype, name)
