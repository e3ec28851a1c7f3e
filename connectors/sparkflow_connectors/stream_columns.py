"""What a stream reads, written down beside Spark's notes of it: for the stream that goes on from its checkpoint.

Other columns, or the same ones read otherwise, would be another model in variables of the same names.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from sparkflow_connectors.column_types import Source
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.vocabularies import differences, read, vocabularies, write
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import FailedPreconditionError

_COLUMNS = "columns.json"
_VOCABULARIES = "vocabularies"


def note(checkpoint_dir: str, notes: str, columns: Columns) -> bool:
    """Write down what a stream reads, that begins; whether one does. Raises FailedPreconditionError where one goes on
    that has read other columns, or these otherwise. A vocabulary may have grown at its end."""
    now: dict[str, Any] = {**_reads(columns), _VOCABULARIES: vocabularies(columns)}
    path = os.path.join(notes, _COLUMNS)
    before = read(path)
    if before is not None:
        for name, was, is_now in _differences(before, now, columns):
            raise FailedPreconditionError(
                f"{checkpoint_dir} holds a stream's training that read column {name} {was}, and this stream reads it "
                f"{is_now}. Give another checkpoint_dir; a model function can begin with those variables by "
                f"tf.train.init_from_checkpoint. Where it is the same model, remove {path}"
            )
        if before.get(_VOCABULARIES) == now[_VOCABULARIES]:
            return False
    os.makedirs(notes, exist_ok=True)
    write(path, now)
    return before is None


def forget(notes: str) -> None:
    """The stream has not begun."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(notes, _COLUMNS))


def _reads(columns: Columns) -> dict[str, dict[str, str]]:
    """What each column is to a model, by name: what a stream that goes on must find again. Numbers may be of another
    dtype, as wider ones."""
    label = {} if columns.label is None else {columns.label: columns.read[columns.label]}
    kinds = {"features": columns.sources, "label": label}
    return {kind: {name: _read_as(source) for name, source in found.items()} for kind, found in kinds.items()}


def _read_as(source: Source) -> str:
    column = source.column
    if column.vocabulary is not None:
        what = "places in a vocabulary"
    elif column.hash_buckets:
        what = f"hashes modulo {column.hash_buckets}"
    else:
        what = "strings" if source.dtype is dtypes.string else source.unit or "numbers"
    shape = list(source.tensors[source.name].shape)
    return f"{what}, {column.kind} {shape}" if shape else what


def _differences(before: dict[str, Any], now: dict[str, Any], columns: Columns) -> list[tuple[str, str, str]]:
    """(a column, how it was read, how it is read)."""
    found = []
    for kind in ("features", "label"):
        had, has = before.get(kind, {}), now[kind]
        for name in [*had, *has]:
            if had.get(name) != has.get(name):
                was, is_now = (f"as {it[name]}" if name in it else "not at all" for it in (had, has))
                found.append((f"{name!r} ({kind})", was, is_now))
    by = differences(before.get(_VOCABULARIES, {}), columns)
    return found + [(repr(name), was, is_now) for name, was, is_now in by]
