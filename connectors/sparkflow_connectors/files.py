"""Tables that are nothing but parquet files: each worker reads its share of their row groups itself.

Rows that a task reads from the file need not go through another process, and that is ten times as fast. The shares are
equal to a row, and the same in every attempt, so that no partition is uneven and every row of an epoch is used once
after a restart, without `order_by`. A table that is scored is read in runs of whole row groups, in its own order.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkflow_connectors.column_types import is_list, show
from sparkflow_connectors.limits import exhausted
from sparkflow_runtime.wire.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
)

_FOOTERS_AT_ONCE = 16
_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 64 << 20
_FEW_ROWS = 128
_VERSION, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"  # in the footer
_GREGORIAN = 3  # the first version of Spark that writes such dates
_BUFFER_BYTES = 1 << 16  # of each column. Not mapped: a file that is cut short meanwhile would end the process


Types = Mapping[str, pa.DataType]  # of columns, by name


class Part(NamedTuple):
    """Rows [start, stop) of a row group, which has `rows`, in a file of so many `groups`."""

    path: str
    group: int
    start: int
    stop: int
    rows: int
    groups: int


def local_paths(uris: Sequence[str]) -> list[str] | None:
    """The paths of files of a file system that is mounted; None where one is elsewhere."""
    parts = [urlsplit(uri) for uri in uris]
    if any(part.scheme not in ("", "file") or part.netloc for part in parts):
        return None
    return sorted(unquote(part.path) for part in parts)


def schema(path: str) -> pa.Schema:
    """Raises as `shares` does."""
    with _opened(path) as file:
        return file.schema_arrow


def reads_the_same(path: str, types: Types) -> bool:
    """Whether a file has all the columns, in the types of the table, and its dates are of the calendar in use. Raises
    NotFoundError and DataLossError as `shares` does."""
    with _opened(path) as file:
        found = file.schema_arrow
        return not _is_julian(file, types, range(file.num_row_groups)) and all(
            len(found.get_all_field_indices(name)) == 1 and found.field(name).type == kind
            for name, kind in types.items()
        )


def shares(paths: Sequence[str], types: Types, workers: int, seed: int) -> list[list[Part]]:
    """For each worker, what it reads: row groups in an order drawn from `seed`, of equally many rows (but for one).

    Raises InvalidArgumentError where files differ in the type of a column, NotFoundError and DataLossError on a file
    that cannot be read.
    """
    groups = row_groups(paths, types)
    groups = [groups[i] for i in np.random.Generator(np.random.Philox(key=[seed, 0])).permutation(len(groups))]
    ends = np.cumsum([part.stop for part in groups]).tolist()
    total = ends[-1] if ends else 0
    if not total:
        raise InvalidArgumentError(f"The table is empty: there is no row in its {len(paths)} files")
    cuts = [total * i // workers for i in range(workers + 1)]
    return [list(_between(groups, ends, a, b)) for a, b in pairwise(cuts)]


def row_groups(paths: Sequence[str], types: Types) -> list[Part]:
    """All of them, file by file. Raises as `shares` does."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return [part for found in pool.map(partial(_groups, types=types), paths) for part in found]


def runs(groups: Sequence[Part], run_bytes: int) -> list[list[Part]]:
    """Row groups that are read one after the other: as many as make about `run_bytes` of their files, in order."""
    total_bytes = sum(os.path.getsize(path) for path in {part.path for part in groups})
    rows = [part.stop - part.start for part in groups]
    wanted = max(sum(rows) * run_bytes // max(total_bytes, 1), 1)
    found: list[list[Part]] = []
    room = 0
    for part, n in zip(groups, rows, strict=True):
        if room <= 0:
            found.append([])
            room = wanted
        found[-1].append(part)
        room -= n
    return found


def _groups(path: str, types: Types) -> list[Part]:
    with _opened(path) as file:
        check_file(path, file, types, range(file.num_row_groups))
        rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        return [Part(path, i, 0, n, n, len(rows)) for i, n in enumerate(rows)]


def _between(groups: Sequence[Part], ends: Sequence[int], first: int, last: int) -> Iterator[Part]:
    """The parts of rows [first, last) of all groups, one after the other. ends: of each group, in these rows."""
    for part, end in zip(groups, ends, strict=True):
        begin = end - part.stop
        start, stop = max(first, begin), min(last, end)
        if start < stop:
            yield part._replace(start=start - begin, stop=stop - begin)


def check_file(path: str, file: pq.ParquetFile, types: Types, groups: Iterable[int]) -> None:
    """Raises InvalidArgumentError unless the file has the columns as the table has them. groups: that are read."""
    schema = file.schema_arrow
    if _is_julian(file, types, groups):
        raise InvalidArgumentError(
            f"{path}: its dates may be of the Julian calendar, as Spark 2 and Hive write those before 1582. Write that "
            "file anew, or have the engine read them all: read_files=False"
        )
    for name, wanted in types.items():
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            raise InvalidArgumentError(
                f"{path}: column {name!r} is there {len(found)} times; the table has it once. Write that file anew, or "
                "have the engine read them all: read_files=False"
            )
        kind = schema.field(found[0]).type
        if kind != wanted:
            raise InvalidArgumentError(
                f"{path}: column {name!r} has type {show(kind)}, and the table said {show(wanted)}: the files "
                "differ. Write that file anew, or have the engine read them all: read_files=False"
            )


def _is_julian(file: pq.ParquetFile, types: Types, groups: Iterable[int]) -> bool:
    """Whether days may have to be counted anew, as Spark does when it reads such a file.

    A file of Spark's says so in its footer. How Spark reads one of Hive, Impala or Arrow, its settings say, and options
    of the reader, which no plan shows; so such a file is as it seems only where its days are all recent.
    """
    days = [name for name, kind in types.items() if _has_days(kind)]
    if not days:
        return False
    told = file.schema_arrow.metadata or {}
    if _LEGACY in told or _VERSION in told:
        return _LEGACY in told or int(told[_VERSION].partition(b".")[0]) < _GREGORIAN
    stored = [i for numbers in _stored(file, days).values() for i in numbers if _is_of_days(file.schema.column(i))]
    return not all(_is_recent(file.metadata.row_group(group).column(i)) for group in groups for i in stored)


def _is_of_days(column: pq.ColumnSchema) -> bool:
    return column.logical_type.type in ("DATE", "TIMESTAMP") or column.physical_type == "INT96"


def _is_recent(column: pq.ColumnChunkMetaData) -> bool:
    """Whether it says of all its days that they are after 1900: from then on both calendars and all time zones agree in
    what Spark makes of them."""
    told = column.statistics
    if not column.num_values:
        return True
    if told is None or column.physical_type == "INT96":
        return False
    if not told.has_min_max:
        return bool(told.has_null_count and told.null_count == column.num_values)
    try:
        return bool(told.min.year > 1900)
    except (ValueError, OverflowError):  # no year that Python has
        return False


def _stored(file: pq.ParquetFile, names: Collection[str]) -> dict[str, range]:
    """The numbers of these columns in the file, where a struct or a list has those of what is in it."""
    found, at = {}, 0
    for field in file.schema_arrow:
        begin, at = at, at + _leaves(field.type)
        if field.name in names:
            found[field.name] = range(begin, at)
    return found


def _leaves(kind: pa.DataType) -> int:
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


def _has_days(kind: pa.DataType) -> bool:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_days(field.type) for field in kind)
    return is_list(kind) and _has_days(kind.value_type)


@contextmanager
def named(part: Part) -> Iterator[None]:
    """What is refused in its rows is said with the file."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{part.path}, row group {part.group} from row {part.start} on: {error.message}"
        ) from error


def read(
    parts: Sequence[Part], types: Types, batch_rows: int = _BATCH_ROWS, batch_bytes: int = _BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows of the parts, in their order, at most `batch_rows` at a time (65,536 cost a third more than 262,144),
    nor many more than make `batch_bytes` in memory. Raises as `shares` does, when it comes to the file.

    Pages are checked against their checksums, if they have any, as those that Spark writes. That costs a fifth of the
    reading; but a flipped bit is another number without, and Spark would see it by the checksums that it keeps beside.
    """
    for part in parts:
        with _opened(part.path, checked=True) as file:
            if file.num_row_groups != part.groups or file.metadata.row_group(part.group).num_rows != part.rows:
                raise DataLossError(f"{part.path} is another file than at the start")
            check_file(part.path, file, types, [part.group])
            try:
                yield from _rows(file, part, types, batch_rows, batch_bytes)
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(part.path, error, f"row group {part.group}") from error


def _rows(
    file: pq.ParquetFile, part: Part, types: Types, batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    rows, done = min(batch_rows, _rows_of(file, part, types, batch_bytes)), part.start
    while done < part.stop:
        at = 0
        for batch in file.iter_batches(rows, [part.group], list(types), use_threads=False):
            at, begin = at + batch.num_rows, at
            large = batch.nbytes > 2 * batch_bytes and rows > 1
            if large:  # as rows further on may be, whatever the first ones are
                rows = max(batch.num_rows * batch_bytes // batch.nbytes, 1)
            while done < min(part.stop, at):
                batch_end = min(done + rows, part.stop, at)
                yield batch.slice(done - begin, batch_end - done)
                done = batch_end
            if large or done >= part.stop:
                break
        else:
            return


def _rows_of(file: pq.ParquetFile, part: Part, types: Types, size_bytes: int) -> int:
    """How many rows of the group make so many bytes in memory.

    Where each value has a size of its own, pages say what they take, but for what a dictionary or another encoding
    makes small; of such columns a few rows are read to see.
    """
    row_bytes = sum(_bits(kind) or 0 for kind in types.values()) / 8
    wide = [name for name, kind in types.items() if _bits(kind) is None]
    if wide and part.rows:
        group = file.metadata.row_group(part.group)
        chunks = {name: [group.column(i) for i in numbers] for name, numbers in _stored(file, wide).items()}
        told = {n: sum(c.total_uncompressed_size for c in found) / part.rows for n, found in chunks.items()}
        packed = [name for name, found in chunks.items() if not all(map(_is_plain, found))]
        row_bytes += sum(told.values())
        few = min(_FEW_ROWS, max(int(size_bytes / max(row_bytes, 1)), 1))
        if packed and part.rows > few:
            first = next(file.iter_batches(few, [part.group], packed, use_threads=False))
            row_bytes += max(first.nbytes / first.num_rows - sum(told[name] for name in packed), 0)
    return max(int(size_bytes / max(row_bytes, 1)), 1)


def _bits(kind: pa.DataType) -> int | None:
    """Of a value; None where each has its own size."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return None


def _is_plain(column: pq.ColumnChunkMetaData) -> bool:
    """Whether values lie there as they are: RLE, and what came before it, is for nulls and lengths of lists."""
    return not column.has_dictionary_page and {"PLAIN", "RLE", "BIT_PACKED"}.issuperset(column.encodings)


def without(paths: Sequence[str], columns: Iterable[str]) -> tuple[str, str] | None:
    """The first file with rows that has not one of the columns, by a name of whatever case, nor is in a partition
    folder of that name, and which."""

    def gone(path: str) -> list[str]:
        with _opened(path) as file:
            if not file.metadata.num_rows:
                return []
            there = {name.lower() for name in file.schema_arrow.names}
        there |= of_folders([path])
        return [name for name in wanted if name.lower() not in there]

    wanted = list(columns)
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        return next(((path, names[0]) for path, names in zip(paths, pool.map(gone, paths), strict=True) if names), None)


def of_folders(paths: Iterable[str]) -> set[str]:
    """What the folders of the files, such as day=3, may be the values of: names of columns, in lower case."""
    folders = {folder for place in {os.path.dirname(path) for path in paths} for folder in place.split("/")}
    return {unquote(folder.partition("=")[0]).lower() for folder in folders if "=" in folder}


def _opened(path: str, checked: bool = False) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, page_checksum_verification=checked)
    except FileNotFoundError:
        raise NotFoundError(
            f"{path}: the file is not there, or this machine does not see it. A table cannot overwrite the path it is "
            "read from"
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error, "its footer") from error


def _unreadable(path: str, error: Exception, what: str) -> OpError:
    """A file that this process cannot read may be whole."""
    if (limit := exhausted(error)) is not None:
        return ResourceExhaustedError(f"{path}: {what} cannot be read: {limit.message}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"{path}: this process may not read the file. Give its user the right to")
    return DataLossError(f"{path}: {what} cannot be read: {error}. Write the file anew, or leave it out")
