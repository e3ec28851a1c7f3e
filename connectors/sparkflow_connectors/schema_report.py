"""What a table's columns are as tensors, in words: `sparkflow schema`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkflow_connectors.column_types import Source, is_list, show
from sparkflow_connectors.columns import Column
from sparkflow_connectors.plain_types import plain_type
from sparkflow_connectors.schema import check_column
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

_FORMATS = {
    ".parquet": "parquet", ".arrow": "ipc", ".feather": "feather", ".ipc": "ipc", ".csv": "csv", ".json": "json",
    ".orc": "orc", ".tfrecord": "tfrecord", ".tfrecords": "tfrecord", ".gz": "tfrecord", ".zlib": "tfrecord",
}  # fmt: skip
FORMATS = sorted({*_FORMATS.values()})
_TOLD = {"parquet", "ipc", "feather", "orc"}  # each file says its columns' types; of others they are guessed
_FOOTERS_AT_ONCE = 16
_LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True)
class Line:
    """One column. dtype, shape: of its tensor; both empty where it needs a Column, as `note` says."""

    name: str
    arrow: str
    dtype: str
    shape: str
    note: str


def report(schema: pa.Schema, columns: Mapping[str, Column] | None = None) -> list[Line]:
    """A line a column. columns: those with a Column. Raises InvalidArgumentError where one is not in the table."""
    columns = columns or {}
    for name in columns:
        check_column(schema, name)
    return [_line(field, columns.get(field.name, Column(field.name))) for field in schema]


def _line(field: pa.Field, column: Column) -> Line:
    try:
        source = Source(column.loaded(), field.type)
    except InvalidArgumentError as error:
        known = f"Column {field.name!r} has type {show(field.type)}, "
        return Line(field.name, show(field.type), "", "", error.message.removeprefix(known))
    shape = source.tensors[field.name].shape
    return Line(
        field.name,
        show(field.type),
        source.dtype.name,
        f"[{', '.join(['rows', *('?' if n is None else str(n) for n in shape)])}]",
        source.spoken(),
    )


def text(lines: list[Line]) -> str:
    """As a table."""
    head = Line("column", "type", "dtype", "shape", "")
    rows = [(line.name, line.arrow, line.dtype or "-", line.shape or "-", line.note) for line in (head, *lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[4]]).rstrip() for row in rows)


def schema_of_path(path: str, kind: str = "") -> pa.Schema:
    """Of a file or folder. kind: one of FORMATS; by default what its names tell.

    Raises NotFoundError, InvalidArgumentError where it cannot be read as that, or files differ in a column's type.
    """
    if not os.path.exists(path):
        raise NotFoundError(f"{path}: no such file or directory")
    kind = kind or _kind_of(path)
    if kind not in FORMATS:
        raise InvalidArgumentError(f"--format: expected one of {', '.join(FORMATS)}, got {kind!r}")
    if kind == "tfrecord":
        from sparkflow_connectors.tfrecord import open_tfrecord

        return open_tfrecord(path).schema
    import pyarrow.dataset

    try:
        found = pyarrow.dataset.dataset(path, format=kind, partitioning="hive")
        if kind in _TOLD:
            _check_alike(list(found.get_fragments()))
        return found.schema
    except (pa.ArrowException, OSError) as error:
        raise InvalidArgumentError(f"{path} cannot be read as {kind}: {error}") from None


def _check_alike(files: list[Any]) -> None:
    """Of fragments of a dataset. Raises InvalidArgumentError on a column that two of them have in different types."""
    first: dict[str, tuple[pa.DataType, str]] = {}
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        for file, schema in zip(files, pool.map(lambda file: file.physical_schema, files), strict=True):
            for field in schema:
                kind, path = first.setdefault(field.name, (field.type, file.path))
                if not _alike(kind, field.type):
                    raise InvalidArgumentError(
                        f"{file.path}: column {field.name!r} has type {show(field.type)}, and in {path} it has type "
                        f"{show(kind)}: the files differ. Write one of them anew"
                    )


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether they are read as the same values, in whatever form they are stored."""
    one, other = plain_type(one), plain_type(other)
    if is_list(one) and is_list(other):
        return _alike(one.value_type, other.value_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = zip(one, other, strict=False)
        return one.num_fields == other.num_fields and all(
            a.name == b.name and _alike(a.type, b.type) for a, b in fields
        )
    return bool(_LARGE.get(one, one) == _LARGE.get(other, other))


def _kind_of(path: str) -> str:
    names = [path] if os.path.isfile(path) else [n for _, _, inner in os.walk(path) for n in sorted(inner)]
    for name in names:
        base = os.path.basename(name)
        stem, last = os.path.splitext(base)
        inner = _FORMATS.get(os.path.splitext(stem)[1], "") if last == ".gz" else ""  # such as rows.csv.gz
        if not base.startswith(("_", ".")) and (found := inner or _FORMATS.get(last)):
            return found
    raise InvalidArgumentError(f"{path}: its names do not tell what is in it; give --format {'|'.join(FORMATS)}")


def schema_of_spark(query: str) -> pa.Schema:
    """Of a table or a SELECT, in the session that Spark's own configuration describes.

    Raises InvalidArgumentError where Spark knows no such table, or cannot read the SELECT.
    """
    from pyspark.errors import PySparkException

    from sparkflow_connectors.java import ensure_java
    from sparkflow_connectors.spark import session
    from sparkflow_connectors.spark_schema import arrow_schema

    ensure_java()
    spark: Any = session("sparkflow schema")
    try:
        frame = spark.sql(query) if len(query.split()) > 1 else spark.table(query)
        return arrow_schema(frame)
    except PySparkException as error:
        said = str(error).strip().partition("\n")[0]  # the plan follows
        raise InvalidArgumentError(f"Spark has no columns for {query!r}: {said}") from None
    finally:
        spark.stop()


def parsed(text: str) -> Column:
    """`name:key=value,key=value` as a Column. Raises InvalidArgumentError on a key that there is not."""
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in _READERS:
            raise InvalidArgumentError(f"{text!r}: a column has no {key!r}; there are {', '.join(_READERS)}")
        try:
            options[key] = _READERS[key](value)
        except ValueError:
            raise InvalidArgumentError(f"{text!r}: {key} cannot be {value!r}") from None
    return Column(name, **options)


def _value(given: str) -> Any:
    for read in (int, float):
        try:
            return read(given)
        except ValueError:
            continue
    return given


def _flag(given: str) -> bool:
    if given.lower() not in ("", "true", "false"):
        raise ValueError(given)
    return given.lower() != "false"


_READERS: dict[str, Any] = {
    "default": _value, "cast": str, "shape": lambda v: [int(n) for n in v.split("x")], "pad": _value, "truncate": _flag,
    "kind": str, "length": int, "vocabulary": str, "num_oov_buckets": int, "hash_buckets": int,
}  # fmt: skip
