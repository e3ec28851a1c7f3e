"""Scalar columns that leave Spark's JVM as a few arrays: one `array(...)` for each type, which Arrow hands over whole.

A batch of 40 scalar columns costs Spark 40 vectors to fill and Python 40 to take over; packed, it is two or three, and
each is one (rows, k) block of the batch's own memory. Columns of a block are views of it with a stride.

| Arrow type of the column | what is packed | dtype of the block |
|---|---|---|
| int8, int16, int32, int64, float32, float64 | the value | the same |
| bool | 0 or 1 in a byte | bool |
| date32 | days since 1970-01-01 | int32 |
| timestamp with a zone (Spark's TIMESTAMP) | microseconds since 1970-01-01 UTC | int64 |
| decimal | the nearest double | float64 |
| any of these, of which a Column wants floats | that, rounded as numpy rounds | float32, float64 |

Anything else passes as it is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparkflow_connectors.arrow_numpy import is_valid, numpy_of
from sparkflow_connectors.column_values import null_refused
from sparkflow_connectors.schema import Columns, arrays, check_batch
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SQL = {
    pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.float32(): "float", pa.float64(): "double",
}  # fmt: skip
# Spark makes one function of a query's expressions where it has at most 100 columns (spark.sql.codegen.maxFields): of
# 2,000 computed ones in a few arrays that took minutes and more than 1 GB of its heap. So many columns are more blocks.
_MANY, _BLOCKS_OF_MANY = 1000, 128
_FLOATS = {"float32": "float", "float64": "double"}


class _Form(NamedTuple):
    """How a column is packed: the SQL type of its block, the block's dtype, and the value with {} for the column."""

    sql: str
    dtype: np.dtype[Any]
    value: str


@dataclass(frozen=True)
class Block:
    """Columns that travel as one array column. dtype: of the tensor; a boolean travels as a byte."""

    names: tuple[str, ...]
    dtype: np.dtype[Any]

    def of(self, name: str, packed: pa.Array, first_row: int = 0) -> np.ndarray:
        """(rows, k), a view of the array's memory. Raises InvalidArgumentError on a null, naming column and row; rows
        count from `first_row`."""
        flat, width = packed.flatten(), len(self.names)
        if len(flat) != len(packed) * width:
            raise InvalidArgumentError(
                f"Packed column {name!r} has {len(flat)} values in {len(packed)} rows, where each row has {width}"
            )
        if flat.null_count:
            row, column = divmod(int(np.argmin(is_valid(flat))), width)
            raise null_refused(self.names[column], f"row {first_row + row} of its partition", flat.null_count)
        return numpy_of(flat).view(self.dtype).reshape(-1, width)


@dataclass(frozen=True)
class Packing:
    """expressions: for `DataFrame.selectExpr`. blocks: the array columns among them, by name. plain: the others."""

    expressions: list[str]
    blocks: dict[str, Block]
    plain: list[str]

    @property
    def packed(self) -> list[str]:
        """The expressions of the blocks."""
        return self.expressions[len(self.plain) :]

    def take(self, batch: pa.RecordBatch, first_row: int = 0) -> dict[str, np.ndarray]:
        """A (rows, k) array for each block, sharing the batch's memory. Raises as `Block.of` does."""
        return {name: block.of(name, batch.column(name), first_row) for name, block in self.blocks.items()}

    def unpack(self, batch: pa.RecordBatch, first_row: int = 0) -> dict[str, np.ndarray]:
        """An array of shape (rows,) for each packed column, sharing the batch's memory: the stride is the block's
        width. Raises as `Block.of` does."""
        taken = self.take(batch, first_row)
        return {
            column: taken[name][:, i] for name, block in self.blocks.items() for i, column in enumerate(block.names)
        }


def packing_of(columns: Columns) -> Packing:
    """How to select what `columns` reads: packed, where it is a number and its tensor too."""
    packable = {
        name: source
        for name, source in columns.read.items()
        if not (source.is_many or source.column.shape or source.dtype is dtypes.string or source.column.is_by_id)
    }
    defaults = {name: s.column.default for name, s in packable.items() if s.column.default is not None}
    casts = {name: s.column.cast for name, s in packable.items() if s.column.cast is not None}
    found = pack(pa.schema([(name, source.arrow) for name, source in packable.items()]), defaults, casts, columns.read)
    others = [name for name in columns.read if name not in packable]
    return Packing([*map(quoted, others), *found.expressions], found.blocks, [*others, *found.plain])


def tensors_of(batch: pa.RecordBatch, plain: Columns, packing: Packing, first_row: int = 0) -> dict[str, np.ndarray]:
    """What a batch selected by `packing_of` holds, by tensor; rows count from `first_row` in messages. plain: those of
    the columns that are not packed.

    Raises InvalidArgumentError as `check_batch`, `arrays` and `Block.of` do.
    """
    check_batch(batch, plain, first_row)
    return {**arrays(batch, plain, first_row), **packing.unpack(batch, first_row)}


def pack(
    schema: pa.Schema,
    defaults: Mapping[str, Any] | None = None,
    casts: Mapping[str, DType] | None = None,
    taken: Iterable[str] = (),
) -> Packing:
    """How to select the columns of `schema` packed.

    defaults: what stands for a null, by column, in the unit of the block; a null of another column is refused when the
    block is taken. casts: the dtype of the tensor, where it is not that of the type. taken:
    names that no block may have. A column that shares its type with
    no other is left alone, unless it has a default or changes.
    """
    defaults, casts = defaults or {}, casts or {}
    forms = {f.name: form for f in schema if (form := _form(f.type, casts.get(f.name))) is not None}
    grouped: dict[tuple[str, np.dtype[Any]], list[str]] = {}
    for name, form in forms.items():
        grouped.setdefault((form.sql, form.dtype), []).append(name)
    blocks, expressions, packed = dict[str, Block](), list[str](), set[str]()
    most = len(forms) if len(forms) <= _MANY else len(forms) // _BLOCKS_OF_MANY
    parts = ((dtype, names[i : i + most]) for (_, dtype), names in grouped.items() for i in range(0, len(names), most))
    for dtype, names in parts:
        if len(names) == 1 and names[0] not in defaults and forms[names[0]].value == "{}":
            continue
        block = free_name(f"packed_{dtype.name}", {*schema.names, *taken, *blocks})
        values = ", ".join(_value(name, forms[name], defaults.get(name)) for name in names)
        expressions.append(f"array({values}) as {quoted(block)}")
        blocks[block] = Block(tuple(names), dtype)
        packed.update(names)
    plain = [name for name in schema.names if name not in packed]
    return Packing([*map(quoted, plain), *expressions], blocks, plain)


def quoted(name: str) -> str:
    """A column's name as SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _form(arrow: pa.DataType, cast: DType | None) -> _Form | None:
    form = _plain_form(arrow)
    if form is None or cast is None or cast.np == form.dtype:
        return form
    if cast.name not in _FLOATS:  # to whole numbers SQL casts what does not fit as well; Python refuses it
        return None
    return _Form(_FLOATS[cast.name], cast.np, f"cast({form.value} as {_FLOATS[cast.name]})")


def _plain_form(arrow: pa.DataType) -> _Form | None:
    if arrow in _SQL:
        return _Form(_SQL[arrow], np.dtype(arrow.to_pandas_dtype()), "{}")
    if pa.types.is_boolean(arrow):
        return _Form("tinyint", np.dtype(np.bool_), "cast({} as tinyint)")
    if pa.types.is_date32(arrow):
        return _Form("int", np.dtype(np.int32), "unix_date({})")
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return _Form("bigint", np.dtype(np.int64), "unix_micros({})")
    if pa.types.is_decimal(arrow):
        return _Form("double", np.dtype(np.float64), "cast({} as double)")
    return None


def _value(name: str, form: _Form, default: Any) -> str:
    value = form.value.format(quoted(name))
    if default is None:
        return value
    # From text: a literal 0.5 is a decimal in SQL, and NaN is none at all. Rounded here, as Python rounds it elsewhere:
    # what the text of a double comes to as a float may be another one.
    whole = form.dtype.kind in "biu"
    text = str(int(default)) if whole else repr(pa.scalar(default, pa.from_numpy_dtype(form.dtype)).as_py())
    return f"coalesce({value}, cast('{text}' as {form.sql}))"


def free_name(name: str, taken: Container[str]) -> str:
    """The name, or one like it that is not taken."""
    while name in taken:
        name += "_"
    return name
