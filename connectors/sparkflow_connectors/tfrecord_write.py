"""Folders of TFRecord files, written so that no reader sees half of one.

    tf.local.to_tfrecord(table, "folder", partition_by=["day"], codec="gzip")

Parts are written under `_temporary-...` and moved in place at the end, with `_SUCCESS` and the sidecar schema. The name
says which process that ends with, so that the next writer removes what a killed one has left.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkflow_connectors.plain_types import from_start, plain_batch, plain_schema
from sparkflow_connectors.record_batches import encoded
from sparkflow_connectors.record_types import (
    BYTE_ARRAY,
    EXAMPLE,
    Sidecar,
    WithoutNulls,
    check_folder_type,
    check_schema,
    joined,
    kind_of,
    leaves,
    to_json,
    value_type,
)
from sparkflow_connectors.record_values import null_where_none_may_be
from sparkflow_connectors.record_vectors import listed_batch, listed_schema
from sparkflow_connectors.tfrecord import (
    BATCH_ROWS,
    SUFFIXES,
    Options,
    compression_of,
    inferred,
    names_of,
    sidecar_of,
)
from sparkflow_connectors.tfrecord_commit import (
    TEMPORARY,
    held,
    is_showing,
    remove_abandoned,
    settle,
    settled,
    show,
)
from sparkflow_connectors.tfrecord_folders import folder_of, groups_of
from sparkflow_connectors.tfrecord_paths import files_of, local_path
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.example import Room
from sparkflow_runtime.records.files import RecordWriter
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
)

_FOREIGN = 1000  # records of others that are looked at before one appends to them
_HELD_OPEN = 200  # files of one part; a process may have 1024 open, often
PARTITIONS = "overwrite_partitions"
MODES = ("error", "append", "overwrite", PARTITIONS)


class FolderWriter:
    """Writes parts of one folder; parts may be written by several processes that share the file system.

    `path`: a local folder. Nothing is visible before `commit`; `abort` leaves the folder as it was.
    mode: 'error' where there is something already, 'append', 'overwrite', which replaces it at the commit, or
    'overwrite_partitions', which replaces what is in the partitions that rows are written to. process: that the writing
    ends with, where that is not this one; 0: not known.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        mode: str = "error",
        record_type: str = EXAMPLE,
        codec: str = "",
        partition_by: Sequence[str] = (),
        token: str = "",
        process: int | None = None,
    ):
        if mode not in MODES:
            raise InvalidArgumentError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
        path = local_path(path)
        self.path, self.mode, self.record_type = path.rstrip("/") or path, mode, record_type
        self.compression, self.partition_by = compression_of("", codec), names_of(partition_by)
        if not len(schema):
            raise InvalidArgumentError("The table has no column: there is nothing to write")
        if twice := [c for c in self.partition_by if self.partition_by.count(c) > 1]:
            raise InvalidArgumentError(f"partition_by: column {twice[0]!r} is named twice")
        missing = [c for c in self.partition_by if c not in schema.names]
        if missing:
            raise InvalidArgumentError(
                f"partition_by: column {missing[0]!r} is missing; the table has {', '.join(schema.names)}"
            )
        if mode == PARTITIONS and not self.partition_by:
            raise InvalidArgumentError(f"mode={mode!r} is for folders with partitions: give partition_by")
        self.schema = schema = listed_schema(plain_schema(schema))
        self.inside = pa.schema([f for f in schema if f.name not in self.partition_by])
        if not len(self.inside):
            raise InvalidArgumentError("partition_by names every column: nothing is left for the records")
        for name in self.partition_by:
            check_folder_type(schema.field(name))
        check_schema(self.inside, record_type)
        self.token = token or secrets.token_hex(8)
        name = f"{TEMPORARY}-{self.token}"
        self.temporary = os.path.join(self.path, name if process == 0 else temporaries.temporary(name, process))
        self._nulls: dict[str, set[str]] = {}

    @property
    def nulls(self) -> frozenset[str]:
        """The columns with a null in what this process has written."""
        return frozenset[str]().union(*list(self._nulls.values()))

    def begin(self) -> None:
        """Raises AlreadyExistsError, PermissionDeniedError, InvalidArgumentError where another schema is there."""
        settled(self.path)
        self._check()
        self._made(self.temporary)

    def _check(self) -> pa.Schema:
        """What is there already; the schema of that and of what is added."""
        first = next(files_of(self.path), None) if os.path.isdir(self.path) else None
        if first is None:
            return self.schema
        if self.mode == "error":
            raise AlreadyExistsError(f"{self.path} has record files already; mode='append' or 'overwrite' goes on")
        if self.mode == "overwrite":
            return self.schema
        if first[1].keys() != set(self.partition_by):
            raise InvalidArgumentError(
                f"{self.path} has {_folders(first[1])}, and what is appended would have {_folders(self.partition_by)}: "
                "give the same partition_by, or another folder"
            )
        there = sidecar_of(self.path)
        if there is None:
            self._check_foreign()
            return self.schema
        schema = joined(there.schema, self.schema) if there.record_type == self.record_type else None
        if schema is None:
            raise InvalidArgumentError(
                f"{self.path} holds {there.record_type} of {_line(there.schema)}; what is appended is "
                f"{self.record_type} of {_line(self.schema)}"
            )
        return schema

    def _check_foreign(self) -> None:
        """Raises InvalidArgumentError where records that others wrote have features that the schema, which is to be
        written beside them, has not, or has of another kind."""
        if self.record_type == BYTE_ARRAY:
            return
        mine = {field.name: field for field in leaves(self.schema)}
        files = [path for path, _ in files_of(self.path)]
        for field in inferred(files, self.record_type, Options(sample=_FOREIGN)):
            own = mine.get(field.name)
            if own is None or kind_of(value_type(own.type)) != kind_of(value_type(field.type)):
                has = "has not" if own is None else f"has as {own.type}"
                raise InvalidArgumentError(
                    f"{self.path} holds records with {field.name!r}, {field.type}, which what is appended {has}. Give "
                    "them the same columns, or write to another folder"
                )

    def write(self, batches: Iterator[pa.RecordBatch], part: int, attempt: str = "") -> dict[str, int]:
        """One part; the files that it made, below `temporary`, and how many records each has. attempt: which, of
        several that may run at once. Of a failed one nothing is left."""
        ready.wait()
        file = f"part-{part:05d}-{self.token}{attempt}.tfrecord{SUFFIXES[self.compression]}"
        open_files: dict[str, RecordWriter] = {}
        records: dict[str, int] = {}
        room, nulls = Room(), self._nulls.setdefault(file, set())
        try:
            for batch in batches:
                batch = self._as_told(batch)
                nulls.update(n for n, c in zip(self.schema.names, batch.columns) if c.null_count)
                for folder, rows in self._split(batch):
                    name = os.path.join(folder, file)
                    if name not in open_files:
                        self._part_folder(folder)
                        held = len(open_files) < _HELD_OPEN
                        open_files[name] = RecordWriter(os.path.join(self.temporary, name), self.compression, held)
                    open_files[name].write_framed(encoded(rows, self.record_type, room))
                    records[name] = records.get(name, 0) + rows.num_rows
            for writer in open_files.values():
                writer.close()
        except BaseException as error:
            for name, writer in open_files.items():
                with suppress(OSError):  # the disk is full: what is left is removed
                    writer.close()
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.temporary, name))
            if isinstance(error, FileNotFoundError | NotFoundError) and not os.path.isdir(self.temporary):
                raise FailedPreconditionError(
                    f"{self.temporary} is gone: the writing is over, as another attempt of part {part} was quicker or "
                    "another part failed"
                ) from None
            if isinstance(error, OSError):
                raise ResourceExhaustedError(
                    f"{self.temporary}: part {part} could not be written: {error}. Nothing of it is left"
                ) from error
            raise
        return records

    def _as_told(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """In the schema's types. Raises InvalidArgumentError on a null where it says there is none: a reader would find
        that the feature is missing."""
        if batch.schema != self.schema:
            batch = listed_batch(plain_batch(batch))
        for field, column in zip(self.schema, batch.columns):
            if (found := null_where_none_may_be(field.name, field, column)) is not None:
                name, row = found
                raise InvalidArgumentError(
                    f"column {name!r}: row {row} of the batch is null, and the schema says it never is. Say that it "
                    "may be, or fill it"
                )
        return batch if batch.schema == self.schema else batch.cast(self.schema)

    def commit(self, files: Mapping[str, int], nulls: Collection[str] | None = None) -> None:
        """Show these files, with so many records, then the sidecar and `_SUCCESS`. nulls: the columns that have some in
        these files, where that is known. Of writers that commit at once one does so after the other. Raises as `begin`
        where another was quicker, with what the mode or the schema does not allow."""
        with held(self.path):
            settle(self.path)
            schema = self._check()
            before = {} if self.mode == "overwrite" else self._records()
            without = WithoutNulls() if nulls is None else self._without_nulls(len(before), len(files), nulls)
            gone = self._replaced(files) if self.mode == PARTITIONS else []
            known = {name: n for name, n in before.items() if n is not None and name not in gone}
            without = without._replace(files=max(without.files - len(gone), -1))
            side = Sidecar(schema, self.record_type, known | dict(files), without)
            show(self.path, self.temporary, list(files), self.mode == "overwrite", to_json(side), gone)
            remove_abandoned(self.path)

    def _replaced(self, files: Collection[str]) -> list[str]:
        """What there is in the partitions of these files, by its path in the folder, whoever named theirs."""
        mine = [values for path, values in files_of(self.temporary) if os.path.relpath(path, self.temporary) in files]
        return [os.path.relpath(path, self.path) for path, values in files_of(self.path) if values in mine]

    def _records(self) -> dict[str, int | None]:
        """How many records each file has that is there, as far as that is known."""
        there = sidecar_of(self.path)
        names = (os.path.relpath(path, self.path) for path, _ in files_of(self.path))
        return {name: None if there is None else there.records.get(name) for name in names}

    def _without_nulls(self, before: int, files: int, nulls: Collection[str]) -> WithoutNulls:
        """Of the rows there are and so many files more. A struct of nulls cannot be told from a null."""
        tells = [f.name for f in self.schema if not (pa.types.is_struct(f.type) or pa.types.is_null(f.type))]
        full = frozenset(tells) - set(nulls)
        if not before:
            return WithoutNulls(full, files)
        there = sidecar_of(self.path)
        if there is None or there.without_nulls.files != before:
            return WithoutNulls()
        return WithoutNulls(full & there.without_nulls.columns, before + files)

    def abort(self) -> None:
        if is_showing(self.path, self.temporary):  # there is no way back: who comes next finishes that
            return
        self._end()
        with suppress(OSError):  # something is in it, or another writer has taken it away
            os.rmdir(self.path)

    def _end(self) -> None:
        """Take `temporary` away, by another name first: a task that still writes makes nothing new in it then."""
        name = os.path.basename(self.temporary)
        gone = os.path.join(self.path, f"{TEMPORARY}-gone{name.removeprefix(TEMPORARY)}")
        with suppress(OSError):  # it was never made
            os.rename(self.temporary, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _part_folder(self, folder: str) -> None:
        """A partition's folder below `temporary`, which is there until the writing is over."""
        at = self.temporary
        for name in Path(folder).parts:
            at = os.path.join(at, name)
            with suppress(FileExistsError):
                os.mkdir(at)

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition folder."""
        if not self.partition_by:
            yield "", batch
            return
        groups, of_row = groups_of([batch.column(name) for name in self.partition_by])
        order = np.argsort(of_row, kind="stable")
        inside = [from_start(batch.column(name)) for name in self.inside.names]
        rows = pa.RecordBatch.from_arrays(inside, schema=self.inside).take(pa.array(order))
        ends = np.cumsum(np.bincount(of_row, minlength=len(groups)))
        for values, start, end in zip(groups, [0, *ends], ends):
            folder = os.path.join(*(folder_of(n, v) for n, v in zip(self.partition_by, values)))
            yield folder, rows.slice(start, end - start)

    def _made(self, folder: str) -> None:
        try:
            _make(folder)
        except PermissionError:
            raise PermissionDeniedError(f"{folder}: this process may not write here") from None
        except (NotADirectoryError, FileExistsError):
            raise InvalidArgumentError(f"{self.path} is a file, not a folder") from None
        except OSError as error:  # a read-only file system, /proc, a name that is too long
            raise FailedPreconditionError(f"{folder}: the folder cannot be made: {error.strerror}") from None


def to_tfrecord(
    table: pa.Table,
    path: str | os.PathLike[str],
    mode: str = "error",
    record_type: str = EXAMPLE,
    codec: str = "",
    partition_by: Sequence[str] = (),
    rows_per_file: int = 1_000_000,
) -> None:
    """A table as a folder of record files. Raises what FolderWriter raises; nothing is left of a failed writing."""
    if not isinstance(rows_per_file, int | np.integer) or rows_per_file < 1:
        raise InvalidArgumentError(f"rows_per_file must be a whole number of at least 1, got {rows_per_file!r}")
    writer = FolderWriter(path, table.schema, mode, record_type, codec, partition_by)
    writer.begin()
    try:
        files: dict[str, int] = {}
        for part, at in enumerate(range(0, max(1, table.num_rows), rows_per_file)):
            files |= writer.write(iter(table.slice(at, rows_per_file).to_batches(BATCH_ROWS)), part)
        writer.commit(files, writer.nulls)
    except BaseException:
        writer.abort()
        raise


def _make(folder: str, times: int = 100) -> None:
    """Another writer may take away the folder above, which was empty, at any moment before."""
    for left in reversed(range(times)):
        try:
            return os.makedirs(folder, exist_ok=True)
        except FileNotFoundError:
            if not left:
                raise


def _folders(names: Collection[str]) -> str:
    return f"folders {'/'.join(f'{name}=...' for name in names)}" if names else "no partition folders"


def _line(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)
