"""Folders of TFRecord files as Arrow tables.

    table = tf.local.read_tfrecord("folder", columns=["label", "x"])

`column=value` folders are partitions, as Spark and Hive write them; other names that begin with _ or . are not read.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_connectors.plain_types import plain_schema
from sparkflow_connectors.record_batches import Decoder
from sparkflow_connectors.record_types import (
    BYTE_ARRAY,
    BYTE_ARRAY_SCHEMA,
    EXAMPLE,
    RECORD_TYPES,
    SIDECAR,
    Sidecar,
    check_schema,
    from_json,
    is_text,
)
from sparkflow_connectors.tfrecord_asked import as_asked, check_case, in_units_of
from sparkflow_connectors.tfrecord_commit import held, settled
from sparkflow_connectors.tfrecord_infer import Inference
from sparkflow_connectors.tfrecord_paths import files_of, local_path, partition_value, roots_of
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.files import BLOCK_BYTES, Block, RecordFile
from sparkflow_runtime.wire.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
)

CODECS = {"": "", "none": "", "gzip": "GZIP", "zlib": "ZLIB", "deflate": "ZLIB"}
_HADOOP = "org.apache.hadoop.io.compress."  # spark-tfrecord takes the names of Hadoop's classes
_HADOOP_CODECS = {"gzipcodec": "gzip", "defaultcodec": "deflate", "deflatecodec": "deflate"}
SUFFIXES = {"": "", "GZIP": ".gz", "ZLIB": ".zlib"}
_READ_SUFFIXES = {".gz": "GZIP", ".zlib": "ZLIB", ".deflate": "ZLIB"}  # Hadoop calls the second the third
BATCH_ROWS = 10_000  # about; half as many again at the most
# Each block costs some microseconds a column: of many columns one is larger, so that it has several hundred rows.
_COLUMN_BYTES, _MOST_BYTES = 16 << 10, 32 << 20
_SAMPLE_FILES = 64
log = logging.getLogger("sparkflow")
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Options:
    """How records are read. on_error: 'raise', or 'skip' what is damaged and count it. sample: how many records the
    schema is inferred from, spread over the files (64 of them at the most); 0: all. codec: of files whose names do not
    tell."""

    record_type: str = ""  # '': what the sidecar says, else Example
    schema: pa.Schema | None = None
    on_error: str = "raise"
    sample: int = 10_000
    codec: str = ""

    def __post_init__(self) -> None:
        if self.record_type not in ("", *RECORD_TYPES):
            raise InvalidArgumentError(
                f"recordType: expected one of {', '.join(RECORD_TYPES)}, got {self.record_type!r}"
            )
        if self.on_error not in ("raise", "skip"):
            raise InvalidArgumentError(f"on_error: expected 'raise' or 'skip', got {self.on_error!r}")
        compression_of("", self.codec)


@dataclass
class Counts:
    """What a reading met."""

    records: int = 0
    damaged: int = 0


@dataclass(frozen=True)
class Dataset:
    """The files of one or more folders or patterns, and their schema; partition columns come last, as strings or
    whole numbers. without_nulls: columns in which none of these files has a null, where that is known."""

    files: tuple[str, ...]
    schema: pa.Schema
    record_type: str
    options: Options
    partitions: dict[str, dict[str, str | None]] = field(default_factory=dict)  # file -> column -> value
    without_nulls: frozenset[str] = frozenset()
    records: dict[str, int] = field(default_factory=dict)  # file -> how many were written to it, where that is known
    written: pa.Schema | None = None  # where another schema is asked for

    def batches(
        self, files: Sequence[str] | None = None, columns: Sequence[str] | None = None, counts: Counts | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of these files (of all), with these columns (all). Raises DataLossError and InvalidArgumentError with
        file and position."""
        ready.wait()
        counts = Counts() if counts is None else counts
        wanted = self._of_columns(columns)
        own = {c for folders in self.partitions.values() for c in folders}
        inside = Decoder(in_units_of(self._inside(wanted, own), self.written), self.record_type)
        block_bytes = min(max(BLOCK_BYTES, inside.features * _COLUMN_BYTES), _MOST_BYTES)
        for path in self.files if files is None else files:
            compression = compression_of(path, self.options.codec)
            with self._opened(path, compression, block_bytes) as file:
                before, damaged = counts.records, counts.damaged
                for block in file.blocks():
                    yield from self._of_block(block, path, inside, wanted, counts)
                counts.damaged += file.skipped
                if skipped := counts.damaged - damaged:
                    _left_out(path, skipped, f"{path}: {skipped} damaged places were left out")
                else:
                    self._check_count(path, counts.records - before, counts)

    def _opened(self, path: str, compression: str, block_bytes: int) -> RecordFile:
        try:
            return RecordFile(path, compression, self.options.on_error == "skip", block_bytes, reuse=True)
        except NotFoundError:
            raise NotFoundError(
                f"{path} is gone since its folder was listed, as by a writing that replaced it. Read the folder anew: "
                "a table that is not computed yet, such as a DataFrame, keeps to the files that were there"
            ) from None

    def _check_count(self, path: str, found: int, counts: Counts) -> None:
        """A file that ends between two records shows no damage: only who wrote it knows that there were more."""
        written = self.records.get(path, found)
        if found == written:
            return
        what = f"{path} has {found} records, and {written} were written to it, as {SIDECAR} says"
        if self.options.on_error == "raise":
            raise DataLossError(
                f"{what}: it was cut short between two of them, or replaced. Copy or write it anew; on_error='skip' "
                "reads what is there"
            )
        counts.damaged += 1
        _left_out(path, 1, what)

    def _inside(self, wanted: pa.Schema, own: set[str]) -> pa.Schema:
        """What is read of the records; of those that are one column, that one in any case."""
        found = pa.schema([f for f in wanted if f.name not in own])
        if self.record_type == BYTE_ARRAY and not len(found):
            return BYTE_ARRAY_SCHEMA
        return found

    def _of_block(
        self, block: Block, path: str, inside: Decoder, wanted: pa.Schema, counts: Counts
    ) -> Iterator[pa.RecordBatch]:
        parts = max(round(len(block.starts) / BATCH_ROWS), 1)  # alike: a few rows cost as much as thousands
        for starts, ends in zip(np.array_split(block.starts, parts), np.array_split(block.ends, parts)):
            values = self.partitions.get(path, {})
            for rows, batch in self._decoded(block._replace(starts=starts, ends=ends), path, inside, counts):
                counts.records += rows
                found = iter(batch.columns)
                arrays = [
                    _repeated(values[f.name], f, rows, path) if f.name in values else as_asked(next(found), f.type)
                    for f in wanted
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted) if arrays else batch

    def _decoded(self, part: Block, path: str, inside: Decoder, counts: Counts) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Those records with how many they are; in halves where one is to be left out, whose bytes are as they were
        written and no message."""
        rows = len(part.starts)
        try:
            batch = inside.batch(part, path)
        except DataLossError:
            if self.options.on_error == "raise":
                raise
        else:
            yield rows, batch
            return
        if rows == 1:
            counts.damaged += 1
            return
        for half in (slice(rows // 2), slice(rows // 2, rows)):
            yield from self._decoded(
                part._replace(starts=part.starts[half], ends=part.ends[half]), path, inside, counts
            )

    def table(
        self, files: Sequence[str] | None = None, columns: Sequence[str] | None = None, counts: Counts | None = None
    ) -> pa.Table:
        """What `batches` gives; of no columns a table that has as many rows as there are records."""
        counts = Counts() if counts is None else counts
        before, schema = counts.records, self._of_columns(columns)
        batches = list(self.batches(files, columns, counts))
        if not len(schema):
            return pa.table({"": pa.nulls(counts.records - before)}).select([])
        return pa.Table.from_batches(batches, schema)

    def _of_columns(self, columns: Sequence[str] | None) -> pa.Schema:
        """Raises InvalidArgumentError on a column that is not there, or wanted twice."""
        if columns is None:
            return self.schema
        there: dict[str, pa.Field] = {f.name: f for f in self.schema}  # asked of the schema, each name is a search
        seen = set[str]()
        for name in names_of(columns):
            if name in seen:
                raise InvalidArgumentError(f"column {name!r} is named twice in columns")
            if name not in there:
                raise InvalidArgumentError(f"column {name!r} is missing; the records have {', '.join(there)}")
            seen.add(name)
        return pa.schema([there[name] for name in names_of(columns)])

    def of(self, path: str) -> Dataset:
        """One of the files: what a task is sent that reads it, for whom what is known of all others is a burden."""
        partitions, records = self.partitions.get(path), self.records.get(path)
        return replace(
            self,
            files=(path,),
            partitions={} if partitions is None else {path: partitions},
            records={} if records is None else {path: records},
        )


def _left_out(path: str, damaged: int, what: str) -> None:
    """In the log. Where Spark keeps its Python workers' logs, `context` is a column of them."""
    log.warning("%s (on_error='skip')", what, extra={"context": {"path": path, "damaged": str(damaged)}})


def names_of(named: Any) -> list[Any]:
    """Of columns or paths; one may be named without a list around it, whose letters are no names."""
    return list(named) if isinstance(named, Iterable) and not isinstance(named, str | os.PathLike) else [named]


def compression_of(path: str, codec: str = "") -> str:
    """By the codec, else by the name of the file. Raises InvalidArgumentError on a codec that there is not."""
    name = codec.lower()
    if name.startswith(_HADOOP):
        name = _HADOOP_CODECS.get(name.removeprefix(_HADOOP), codec)
    if name not in CODECS:
        raise InvalidArgumentError(f"codec: expected one of {', '.join(c for c in CODECS if c)}, got {codec!r}")
    if name:
        return CODECS[name]
    return next((kind for suffix, kind in _READ_SUFFIXES.items() if path.endswith(suffix)), "")


# ---------------------------------------------------------------------- reading


def options_of(given: Mapping[str, Any]) -> Options:
    """Raises InvalidArgumentError on an option there is not."""
    known = [f.name for f in fields(Options)]
    if unknown := [name for name in given if name not in known]:
        raise InvalidArgumentError(f"Option {unknown[0]!r} is unknown; there are {', '.join(known)}")
    return Options(**given)


def open_tfrecord(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], options: Options | None = None
) -> Dataset:
    """Finds the files of folders, files and patterns, and their schema: given, beside them, or inferred.

    Raises NotFoundError where there is no file, InvalidArgumentError where folders contradict each other.
    """
    options = options or Options()
    folders: list[list[tuple[str, dict[str, str | None]]]] = []  # as given: a path that is there twice is read twice
    sidecars: dict[str, Sidecar] = {}
    full, records = list[frozenset[str]](), dict[str, int]()
    for path in map(local_path, names_of(paths)):
        for root in roots_of(path):
            settled(root)
            with held(root, shared=True):  # no writer shows files meanwhile
                files, (folder, side) = list(files_of(root)), sidecar_above(root)
            folders.append(files)
            if side is not None:
                sidecars[root] = side
                names = {path: os.path.relpath(path, folder) for path, _ in files}
                full.append(side.never_null(names.values()))
                records |= {path: side.records[name] for path, name in names.items() if name in side.records}
    found = [one for files in folders for one in files]
    if not found and not sidecars:
        raise NotFoundError(f"{paths}: there is no record file; names that begin with _ or . are not read")
    record_type, schema, written = options.record_type or EXAMPLE, options.schema, None
    for root, (its_schema, its_type, *_) in sidecars.items():
        first, other = next(iter(sidecars.items()))
        if (its_schema, its_type) != other[:2]:
            raise InvalidArgumentError(f"{root} and {first} have different schemas; read them one by one")
        record_type = options.record_type or its_type
        if options.schema is not None and record_type == its_type != BYTE_ARRAY:
            check_case(options.schema.names, its_schema.names, root)
            written = its_schema
        schema = its_schema if schema is None and record_type == its_type else schema
    if record_type == BYTE_ARRAY:
        schema = schema if schema is not None else BYTE_ARRAY_SCHEMA
    if schema is None:
        schema = inferred([path for path, _ in found], record_type, options)
    partitions = {path: values for path, values in found if values}
    folders_of = {name for values in partitions.values() for name in values}
    schema = plain_schema(schema)
    check_schema(pa.schema([f for f in schema if f.name not in folders_of]), record_type)
    without = frozenset.intersection(*full) if 0 < len(full) == len(folders) else frozenset()
    schema = _with_partitions(schema, found)
    return Dataset(tuple(p for p, _ in found), schema, record_type, options, partitions, without, records, written)


def read_tfrecord(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Sequence[str] | None = None,
    counts: Counts | None = None,
    **options: Any,
) -> pa.Table:
    """All records as a table. options: the fields of Options."""
    return open_tfrecord(paths, options_of(options)).table(columns=columns, counts=counts)


def sidecar_of(folder: str) -> Sidecar | None:
    """The one in that folder; what it says of files is by their paths there."""
    path = Path(folder, SIDECAR)
    try:
        return from_json(path.read_bytes(), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def sidecar_above(root: str) -> tuple[str, Sidecar | None]:
    """(folder, its sidecar), that which a folder or file lies in: itself or above partition folders, whose columns are
    not in the records."""
    folder, columns = Path(root if os.path.isdir(root) else os.path.dirname(root)), set[str]()
    while (side := sidecar_of(str(folder))) is None:
        if "=" not in folder.name:
            return root, None
        columns.add(partition_value(folder.name)[0])
        folder = folder.parent
    return str(folder), side._replace(schema=pa.schema([f for f in side.schema if f.name not in columns]))


def _with_partitions(schema: pa.Schema, found: list[tuple[str, dict[str, str | None]]]) -> pa.Schema:
    """Partition columns are whole numbers where every value is one; a column that the sidecar names keeps its type."""
    columns: dict[str, list[str | None]] = {}
    for _, values in found:
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    lacking = next((path for path, values in found if not values.keys() >= columns.keys()), None)
    if lacking is not None:
        told = ", ".join(f"{name}=..." for name in columns)
        raise InvalidArgumentError(
            f"{lacking} is not in folders {told}, as other files are: read those with partitions and those without "
            "one by one"
        )
    for name, given in columns.items():
        whole = all(v is None or _WHOLE.fullmatch(v) for v in given)
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.int64() if whole else pa.string()))
    return schema


def _repeated(value: str | None, column: pa.Field, rows: int, path: str) -> pa.Array:
    if value is None and not column.nullable:
        raise InvalidArgumentError(f"{path}: partition column {column.name!r} is null, the schema says it is never")
    if value is None:
        return pa.nulls(rows, column.type)
    text = pa.scalar(value.encode(errors="surrogateescape"))
    try:
        return pa.repeat((text if is_text(column.type) else text.cast(pa.string())).cast(column.type), rows)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"{path}: partition column {column.name!r}: {error}") from None


def inferred(files: list[str], record_type: str, options: Options) -> pa.Schema:
    """What the records are as columns. Raises as open_tfrecord and Dataset.batches."""
    inference, left = Inference(record_type, options.on_error == "skip"), options.sample or None
    some = files if left is None else _spread(files, min(left, _SAMPLE_FILES))
    for number, path in enumerate(some):
        share = None if left is None else -(-left // (len(some) - number))
        with RecordFile(path, compression_of(path, options.codec), options.on_error == "skip") as file:
            for block in file.blocks():
                inference.add(block, path, share)
                if share is None or left is None:
                    continue
                seen = min(len(block.starts), share)
                left, share = left - seen, share - seen
                if not share:
                    break
    return inference.schema()


def _spread(files: list[str], most: int) -> list[str]:
    """At most so many of them, evenly, the first and the last among them: later files may have features more."""
    if len(files) <= most:
        return files
    return [files[round(i * (len(files) - 1) / max(most - 1, 1))] for i in range(most)]
