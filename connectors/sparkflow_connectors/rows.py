"""What engines have, as rows of a job's layout: Arrow batches, packed ones from Spark, frames of pandas.

Everything is checked here, part by part, as it comes: names, types, nulls. Nothing is copied before the rows go to
their window, but booleans of Arrow, which are bits there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_connectors.column_types import is_list
from sparkflow_connectors.column_values import null_refused
from sparkflow_connectors.files import Part, named, read
from sparkflow_connectors.job import Job
from sparkflow_connectors.layout import Component, Piece
from sparkflow_connectors.packing import Packing
from sparkflow_connectors.schema import Columns, arrays, check_batch, check_keys
from sparkflow_runtime.wire.errors import InvalidArgumentError

Keys = Mapping[str, str | None]
_MANY_COLUMNS, _FEW_ROWS = 16, 4096
_READ_SHARE, _READ_ROWS = 4, 1 << 18  # of `feed_bytes` and at the most, what is read of a file at once


def pieces_of(batches: Iterable[pa.RecordBatch], job: Job, keys: Keys | None = None) -> Iterator[Piece]:
    """Rows of Arrow batches. keys: columns that may not be null, by what they are for.

    Raises InvalidArgumentError as `check_batch` does, on the first batch that does not fit.
    """
    layout, row = job.layout, 0
    for batch in batches:
        check_keys(batch, keys or {}, row)
        check_batch(batch, job.columns, row)
        yield layout.piece(arrays(batch, job.columns, row))
        row += batch.num_rows


def file_pieces(parts: Iterable[Part], job: Job) -> Iterator[Piece]:
    """Rows of parquet files. Raises as `files.read` and `pieces_of` do, naming the file.

    What is read at once is bounded twice: a text of thousands of bytes may become one number, or many numbers of a
    list that is short in the file.
    """
    share_bytes = max(job.feed_bytes // _READ_SHARE, 1)
    rows = min(max(share_bytes // max(job.layout.row_bytes, 1), job.batch_size), _READ_ROWS)
    for part in parts:
        with named(part):
            yield from pieces_of(read([part], job.columns.types, rows, share_bytes), job)


# ---------------------------------------------------------------------- packed in SQL


def packed_pieces(batches: Iterable[pa.RecordBatch], job: Job, packing: Packing, keys: Keys) -> Iterator[Piece]:
    """Rows of batches that Spark has packed. Raises as `pieces_of`."""
    row, plain = 0, job.columns.only(packing.plain)
    for batch in batches:
        check_keys(batch, keys, row)
        check_batch(batch, plain, row)
        blocks = {packing.blocks[name].names: array for name, array in packing.take(batch, row).items()}
        yield _as_piece(job, blocks, arrays(batch, plain, row))
        row += batch.num_rows


def _as_piece(job: Job, blocks: dict[tuple[str, ...], np.ndarray], plain: dict[str, np.ndarray]) -> Piece:
    """blocks: (rows, k) by the names of their columns."""
    columns = {name: array[:, i] for names, array in blocks.items() for i, name in enumerate(names)}
    columns.update(plain)

    def of(component: Component) -> Any:
        if component.packed:
            whole = blocks.get(component.columns)
            return [columns[name] for name in component.columns] if whole is None else whole
        return columns[component.columns[0]]

    return [of(component) for component in job.layout.components]


# ---------------------------------------------------------------------- pandas


def frame_pieces(frames: Iterable[Any], job: Job) -> Iterator[Piece]:
    """Rows of pandas frames: columns of numpy are taken as they are, others by way of Arrow. Raises as `pieces_of`."""
    row = 0
    for frame in frames:
        found = arrays_of_numpy(frame, job.columns, row)
        if rest := [name for name, source in job.columns.read.items() if not found.keys() >= source.tensors.keys()]:
            others, table = job.columns.only(rest), with_types(table_of(native(frame, rest)), job.columns)
            check_batch(table, others, row)
            found.update(arrays(table, others, row))
        if len(frame):
            yield job.layout.piece(found)
        row += len(frame)


def table_of(frame: Any) -> pa.Table:
    """A pandas frame in Arrow. Raises InvalidArgumentError on a column whose values are not of one type, or of one that
    Arrow has not."""
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise InvalidArgumentError(f"Column {name!r} is there several times: give the columns different names")
    frame = native(frame, frame.columns)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = ": ".join(str(part) for part in reversed(error.args))
        raise InvalidArgumentError(
            f"{_odd_column(frame)} has values of several types, or of one that Arrow has not: {said}. Cast it first"
        ) from error


def native(frame: Any, names: Iterable[str]) -> Any:
    """These columns of a pandas frame; numbers in the other order of bytes, which neither pandas nor Arrow take out of
    it, in this machine's."""
    names, kinds = list(names), dict(zip(frame.columns, frame.dtypes, strict=True))
    swapped = {n: k.newbyteorder("=") for n in names if isinstance(k := kinds[n], np.dtype) and not k.isnative}
    found = frame.astype(swapped) if swapped else frame
    return found if names == list(frame.columns) else found[names]


def with_types(table: pa.Table, columns: Columns) -> pa.Table:
    """Of pandas: a column of nothing but nulls, or of lists without a value, says no type (Dask calls objects strings,
    pandas what is None a float), so it has the one that is expected there."""
    for i, field in enumerate(table.schema):
        source = columns.read.get(field.name)
        if source is not None and (pa.types.is_null(field.type) or table.column(i).null_count == table.num_rows > 0):
            table = table.set_column(i, field.name, pa.nulls(table.num_rows, source.plain))
        elif source is not None and is_list(field.type) and _is_of_nothing(field.type):
            table = table.set_column(i, field.name, _lists_of(table.column(i), source.plain))
    return table


def _is_of_nothing(kind: pa.DataType) -> bool:
    return bool(pa.types.is_null(kind)) or (is_list(kind) and _is_of_nothing(kind.value_type))


def _lists_of(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Lists without a value in that type; as they are where it is none of such lists."""
    try:
        return column.cast(pa.list_(kind.value_type) if pa.types.is_fixed_size_list(kind) else kind)
    except pa.ArrowException:
        return column


def _odd_column(frame: Any) -> str:
    for i, name in enumerate(frame.columns):
        try:
            pa.Array.from_pandas(frame.iloc[:, i])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return f"Column {name!r} ({frame.dtypes.iloc[i]})"
    return "A column of the table"


def arrays_of_numpy(frame: Any, columns: Columns, first_row: int) -> dict[str, np.ndarray]:
    """Of those columns that are what they should be, without a copy. Raises InvalidArgumentError on a null."""
    kinds, groups = dict(zip(frame.columns, frame.dtypes, strict=True)), dict[np.dtype, list[str]]()
    for name, source in columns.read.items():
        kind, column = kinds[name], source.column
        if source.is_many or column.shape or column.is_by_id or not isinstance(kind, np.dtype):
            continue
        if kind == source.dtype.np and not kind.hasobject:  # strings, which may be nulls or anything
            groups.setdefault(kind, []).append(name)
    found: dict[str, np.ndarray] = {}
    for kind, names in groups.items():
        arrays, may_have_nulls = _values(frame, names)
        if kind.kind == "f" and may_have_nulls:  # NaN, which is pandas' null
            arrays = _without_nulls(arrays, columns, first_row)
        found |= arrays
    return found


def _values(frame: Any, names: list[str]) -> tuple[dict[str, np.ndarray], bool]:
    """Columns of one dtype, and whether any may have a NaN. One by one, as a frame of some columns would be a copy; but
    for each pandas takes longer than to copy a few thousand values, so many short ones are copied together."""
    if len(names) < _MANY_COLUMNS or len(frame) > _FEW_ROWS:
        return {name: frame[name].to_numpy() for name in names}, True
    values = (frame if names == list(frame.columns) else frame[names]).to_numpy()
    return {name: values[:, i] for i, name in enumerate(names)}, _may_have_nan(values)


def _without_nulls(arrays: dict[str, np.ndarray], columns: Columns, first_row: int) -> dict[str, np.ndarray]:
    """Those floats in which no row is a null. Raises InvalidArgumentError on a null that is refused."""
    found = {}
    for name, values in arrays.items():
        if _may_have_nan(values) and (nulls := np.isnan(values)).any():
            if columns.read[name].column.default is not None:
                continue
            where = f"row {first_row + int(np.flatnonzero(nulls)[0])} of its partition"
            raise null_refused(name, where, int(nulls.sum()))
        found[name] = values
    return found


def _may_have_nan(values: np.ndarray) -> bool:
    """By one sum, which costs a third of looking at each; it is NaN of inf and -inf too."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isnan(values.sum()))
