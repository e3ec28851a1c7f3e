"""Which columns a model reads, as which dtypes; and the checks that run before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError

_ARROW = {
    pa.bool_(): dtypes.bool_,
    **{
        getattr(pa, n)(): dtypes.ALL[n]
        for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    **{getattr(pa, n)(): dtypes.ALL[n] for n in ("float16", "float32", "float64")},
}


@dataclass(frozen=True)
class Columns:
    """The columns of a training: `features` maps a name to its dtype; `label` is one of the table's columns too."""

    features: dict[str, DType]
    label: str | None = None
    label_dtype: DType | None = None

    @property
    def all(self) -> dict[str, DType]:
        label = {self.label: self.label_dtype} if self.label is not None and self.label_dtype is not None else {}
        return {**self.features, **label}

    def without_label(self) -> Columns:
        return Columns(self.features)


def resolve(schema: pa.Schema, features: Sequence[str] | Mapping[str, Any] | None, label: str | None) -> Columns:
    """The Columns of a table. features: names, or names with dtypes; None takes every column but the label.

    Raises InvalidArgumentError on a column that is missing, of no numeric type, or of another type than asked for.
    """
    if isinstance(features, str):
        raise InvalidArgumentError(f"features must be a list of column names, got the string {features!r}")
    if features is None:
        features = [name for name in schema.names if name != label]
    if not features:
        raise InvalidArgumentError("There is no feature column: name at least one in `features`")
    wanted = dict(features) if isinstance(features, Mapping) else dict.fromkeys(features)
    if label is not None and label in wanted:
        raise InvalidArgumentError(f"Column {label!r} is the label and among the features; take it out of `features`")
    found = {name: _column(schema, name, dtype) for name, dtype in wanted.items()}
    return Columns(found, label, None if label is None else _column(schema, label, None))


def _column(schema: pa.Schema, name: str, wanted: Any) -> DType:
    check_column(schema, name)
    arrow = schema.field(name).type
    dtype = _ARROW.get(arrow)
    if dtype is None:
        raise InvalidArgumentError(
            f"Column {name!r} has type {arrow}, which is no number. Encode it first (for example as an index into "
            "a vocabulary)"
        )
    if wanted is not None and as_dtype(wanted) is not dtype:
        raise InvalidArgumentError(
            f"Column {name!r} has type {arrow}, and the model asks for {as_dtype(wanted).name}. Cast the column first: "
            "values are never cast on the way"
        )
    return dtype


def check_column(schema: pa.Schema, name: str, what: str = "Column") -> None:
    """Raises InvalidArgumentError unless the table has exactly one column of that name."""
    count = len(schema.get_all_field_indices(name))
    if count == 0:
        raise InvalidArgumentError(f"{what} {name!r} is missing; the table has {', '.join(map(repr, schema.names))}")
    if count > 1:
        raise InvalidArgumentError(f"{what} {name!r} is there {count} times: give the columns different names")


def check_partitioning(schema: pa.Schema, partition_by: str | None, order_by: str | None) -> None:
    """Raises InvalidArgumentError where one is no column of the table, or partition_by is no integer."""
    if partition_by is not None:
        check_column(schema, partition_by, "partition_by: column")
        kind = schema.field(partition_by).type
        if not pa.types.is_integer(kind):
            raise InvalidArgumentError(f"partition_by: column {partition_by!r} must be an integer, got {kind}")
    if order_by is not None:
        check_column(schema, order_by, "order_by: column")


def check_keys(batch: pa.RecordBatch | pa.Table, keys: Mapping[str, str | None], first_row: int = 0) -> None:
    """Raises InvalidArgumentError on a null in a column that says where or when a row is trained: it would be lost.

    keys: such as {"partition_by": "row"}.
    """
    for what, name in keys.items():
        if name is not None and (column := batch.column(name)).null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise InvalidArgumentError(f"{what}: column {name!r} is null at row {row}. Drop or fill such rows")


def check_batch(batch: pa.RecordBatch, columns: Columns, first_row: int) -> None:
    """Raises InvalidArgumentError on a batch that differs from `columns` or holds a null; rows count from
    `first_row`."""
    for name, dtype in columns.all.items():
        _column(batch.schema, name, dtype)
        column = batch.column(batch.schema.get_field_index(name))
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            what = "label" if name == columns.label else "feature"
            raise InvalidArgumentError(
                f"Column {name!r} ({what}) is null at row {row} of its partition ({column.null_count} nulls in "
                "that batch). "
                "Drop or fill nulls before training"
            )


def arrays(batch: pa.RecordBatch | pa.Table, columns: Columns) -> dict[str, np.ndarray]:
    """One array a column, of shape (rows,); shares Arrow's memory where the column is one chunk and not boolean."""
    out = {}
    for name in columns.all:
        column = batch.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        out[name] = column.to_numpy(zero_copy_only=column.type != pa.bool_())
    return out
