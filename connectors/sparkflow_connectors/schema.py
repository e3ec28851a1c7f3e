"""Which columns a model reads, as which tensors; and the checks that run before anything starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_connectors.arrow_numpy import is_valid
from sparkflow_connectors.column_types import Source, Tensor, is_vector, show
from sparkflow_connectors.column_values import null_refused, values_of
from sparkflow_connectors.columns import Asked, Column, asked
from sparkflow_connectors.plain_types import plain_column
from sparkflow_connectors.uncached import Uncached
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

VECTOR_LENGTH = "sparkflow.vector_length"  # in a field's metadata, where its table tells


@dataclass(frozen=True)
class Columns(Uncached):
    """The columns of a training: `sources` by name; `label` is the name of one more, which is `label_source`."""

    sources: dict[str, Source]
    label: str | None = None
    label_source: Source | None = None

    @cached_property
    def read(self) -> dict[str, Source]:
        """All columns that are read, by their names in the table."""
        label = {} if self.label is None or self.label_source is None else {self.label: self.label_source}
        return {**self.sources, **label}

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """What is fed, by name: dtype and shape of a row. A plain column is one tensor of its own name."""
        return {name: t for source in self.read.values() for name, t in source.tensors.items()}

    @property
    def all(self) -> dict[str, DType]:
        """The dtypes of the tensors."""
        return {name: tensor.dtype for name, tensor in self.tensors.items()}

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Of the columns that are read, as the table has them."""
        return {name: source.arrow for name, source in self.read.items()}

    @property
    def features(self) -> dict[str, DType]:
        """The dtypes of the features, by column."""
        return {name: source.dtype for name, source in self.sources.items()}

    @property
    def label_dtype(self) -> DType | None:
        return None if self.label_source is None else self.label_source.dtype

    @cached_property
    def last_fit(self) -> list[Any]:
        """[the schema of the last batch, where these columns are in it]."""
        return [None, []]

    def without_label(self) -> Columns:
        return Columns(self.sources)

    def only(self, names: Container[str]) -> Columns:
        """Those of these names, the label too."""
        kept = Columns({name: source for name, source in self.sources.items() if name in names})
        return replace(kept, label=self.label, label_source=self.label_source) if self.label in names else kept


def resolve(
    schema: pa.Schema,
    features: Sequence[str | Column] | Mapping[str, Any] | None,
    label: str | Column | None,
) -> Columns:
    """The Columns of a table. features: names, Columns, or names with dtypes or Columns; None takes every column but
    the label.

    Raises InvalidArgumentError on a column that is missing, of a type without a dtype, or of another type than asked
    for.
    """
    target = None if label is None else asked([label])[0]
    if features is None:
        names = [name for name in schema.names if target is None or name != target.column.name]
        check_names(schema.names, names)
        features = names
    wanted = asked(features)
    if not wanted:
        raise InvalidArgumentError("There is no feature column: name at least one in `features`")
    if target is not None and target.column.name in (one.column.name for one in wanted):
        name = target.column.name
        raise InvalidArgumentError(f"Column {name!r} is the label and among the features; take it out of `features`")
    check_names(schema.names, (one.column.name for one in wanted))
    found = {one.column.name: _source(schema, one) for one in wanted}
    columns = Columns(found)
    if target is not None:
        check_column(schema, target.column.name)
        columns = Columns(found, target.column.name, _source(schema, target))
    if len(columns.tensors) != sum(len(source.tensors) for source in columns.read.values()):
        raise InvalidArgumentError("A column bears the name of a part of another (such as tags/length); rename it")
    return columns


def _source(schema: pa.Schema, one: Asked) -> Source:
    field, column = schema.field(one.column.name), one.column.loaded()
    length = (field.metadata or {}).get(VECTOR_LENGTH.encode())
    if length is not None and column.shape is None and is_vector(field.type):
        column = replace(column, shape=[int(length)])
    source = Source(column, field.type)
    if one.dtype is not None and one.dtype is not source.dtype:
        raise InvalidArgumentError(
            f"Column {source.name!r} has type {show(source.arrow)}, and the model asks for {one.dtype.name}. Cast the "
            f"column first, or have it cast: Column({source.name!r}, cast=...)"
        )
    return source


def check_column(schema: pa.Schema, name: str, what: str = "Column") -> None:
    """Raises InvalidArgumentError unless the table has exactly one column of that name."""
    check_names(schema.names, [name], what)


def check_names(names: Iterable[str], wanted: Iterable[str], what: str = "Column") -> None:
    """Raises InvalidArgumentError unless each of those wanted is there once. They are counted once for all of them."""
    counts = Counter(iter(names))  # a mapping would be taken for counts
    for name in wanted:
        if not counts[name]:
            whole = name.partition(".")[0]
            field = f". Where it is a field of {whole!r}, make it a column first" if counts[whole] else ""
            raise InvalidArgumentError(
                f"{what} {name!r} is missing; the table has {', '.join(map(repr, counts))}{field}"
            )
        if counts[name] > 1:
            raise InvalidArgumentError(
                f"{what} {name!r} is there {counts[name]} times: give the columns different names"
            )


def check_partitioning(schema: pa.Schema, partition_by: str | None, order_by: str | None) -> None:
    """Raises InvalidArgumentError where one is no column of the table or no task gets it, or partition_by is no
    integer."""
    for what, name in (("partition_by", partition_by), ("order_by", order_by)):
        if name is not None and not isinstance(name, str):
            raise InvalidArgumentError(f"{what} must be the name of one column, got {name!r}")
    if partition_by is not None:
        check_column(schema, partition_by, "partition_by: column")
        kind = schema.field(partition_by).type
        if not pa.types.is_integer(kind):
            raise InvalidArgumentError(f"partition_by: column {partition_by!r} must be an integer, got {kind}")
    if order_by is not None:
        check_column(schema, order_by, "order_by: column")
        kind = schema.field(order_by).type
        if isinstance(kind, pa.OpaqueType):  # its nulls are looked for in the task
            raise InvalidArgumentError(
                f"order_by: column {order_by!r} has type {kind.type_name}, which no task gets. Convert it first"
            )


def unsortable(order_by: str, kind: Any) -> InvalidArgumentError:
    """Of a column of that type."""
    return InvalidArgumentError(
        f"order_by: column {order_by!r} has type {kind}, by which rows cannot be sorted. Name a column of numbers, "
        "strings or times, or cast it first"
    )


def owners(partition_by: np.ndarray, workers: int) -> np.ndarray:
    """Which worker each row is for. partition_by: integers of any size, whose type need not have so many workers."""
    return (partition_by.astype(np.int64) if partition_by.dtype.itemsize < 8 else partition_by) % workers


def check_keys(batch: pa.RecordBatch | pa.Table, keys: Mapping[str, str | None], first_row: int = 0) -> None:
    """Raises InvalidArgumentError on a null in a column that says where or when a row is trained: it would be lost.

    keys: such as {"partition_by": "row"}.
    """
    for what, name in keys.items():
        if name is not None and (column := batch.column(name)).null_count:
            row = first_row + int(np.argmin(is_valid(column)))
            raise InvalidArgumentError(f"{what}: column {name!r} is null at row {row}. Drop or fill such rows")


def check_trainable(columns: Columns) -> None:
    """Raises InvalidArgumentError on a tensor whose rows have no fixed number of bytes: rows wait in a spool and a
    queue."""
    for source in columns.read.values():
        if source.dtype is dtypes.string:
            raise InvalidArgumentError(
                f"Column {source.name!r} has type {show(source.arrow)}: a training reads strings as numbers. Give it a "
                "vocabulary or hash_buckets; bytes of one length can be read by cast=tf.uint8 and shape"
            )
        if 0 in source.tensors[source.name].shape:
            raise InvalidArgumentError(
                f"Column {source.name!r} has type {show(source.arrow)}: its rows have no value. Leave it out"
            )
        if any(None in tensor.shape for tensor in source.tensors.values()):
            raise InvalidArgumentError(
                f"Column {source.name!r} is {source.column.kind}: say how many values a row has at the most, by "
                f"Column({source.name!r}, kind={source.column.kind!r}, length=...)"
            )


def check_batch(batch: pa.RecordBatch, columns: Columns, first_row: int) -> None:
    """Raises InvalidArgumentError on a batch that differs from `columns` or holds a null that is refused; rows count
    from `first_row`."""
    for (name, source), place in zip(columns.read.items(), _places(batch.schema, columns), strict=True):
        column = batch.column(place)
        if column.null_count and source.column.default is None:
            row = first_row + int(np.argmin(is_valid(column)))
            what = "label" if name == columns.label else "feature"
            raise null_refused(name, f"row {row} of its partition", column.null_count, what)


def _places(schema: pa.Schema, columns: Columns) -> list[int]:
    """Where the columns are. Raises InvalidArgumentError unless each is there once, as it should be; that is looked at
    in the first of batches alike."""
    known, places = columns.last_fit
    if known is None or not known.equals(schema):
        names = schema.names
        check_names(names, columns.read)
        for source in columns.read.values():
            _check_type(schema, source)
        at = {name: place for place, name in enumerate(names)}
        places = [at[name] for name in columns.read]
        columns.last_fit[:] = schema, places
    return places


def _check_type(schema: pa.Schema, source: Source) -> None:
    found = schema.field(source.name).type
    if found == source.arrow:
        return
    changed = replace(source, arrow=found)  # where it is refused, that says why
    if changed.tensors != source.tensors or changed.unit != source.unit:
        raise InvalidArgumentError(
            f"Column {source.name!r} has type {show(found)}, and the table said {show(source.arrow)}: the type changed "
            "on the way. Cast the column first"
        )


def arrays(batch: pa.RecordBatch | pa.Table, columns: Columns, first_row: int = 0) -> dict[str, np.ndarray]:
    """An array for each tensor, of shape (rows, *shape of a row); shares Arrow's memory where the table of columns.py
    says so and the column is one chunk. Rows count from `first_row` in messages.

    Raises InvalidArgumentError on what a Column refuses, by column and row.
    """
    out: dict[str, np.ndarray] = {}
    for source, place in zip(columns.read.values(), _places(batch.schema, columns), strict=True):
        column = batch.column(place)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else plain_column(column)
        out.update(values_of(source, column, lambda row: f"row {first_row + row} of its partition"))
    return out


__all__ = [
    "Column", "Columns", "arrays", "check_batch", "check_column", "check_keys", "check_names", "check_partitioning",
    "check_trainable", "owners", "resolve", "unsortable",
]  # fmt: skip
