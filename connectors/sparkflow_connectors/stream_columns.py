"""What a stream reads, written down beside Spark's notes of it: for the stream that goes on from its checkpoint.

Other columns, or the same ones read otherwise, would be another model in variables of the same names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from sparkflow_connectors.column_types import Source
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import FailedPreconditionError

_COLUMNS = "columns.json"
_VOCABULARIES = "vocabularies"


def note(checkpoint_dir: str, notes: str, columns: Columns) -> bool:
    """Write down what a stream reads, that begins; whether one does. Raises FailedPreconditionError where one goes on
    that has read other columns, or these otherwise. A vocabulary may have grown at its end."""
    now: dict[str, Any] = {**_reads(columns), _VOCABULARIES: _vocabularies(columns)}
    before = _noted(notes)
    if before is not None:
        for name, was, is_now in _differences(before, now, columns):
            raise FailedPreconditionError(
                f"{checkpoint_dir} holds a stream's training that read column {name} {was}, and this stream reads it "
                f"{is_now}. Give another checkpoint_dir; a model function can begin with those variables by "
                f"tf.train.init_from_checkpoint. Where it is the same model, remove {os.path.join(notes, _COLUMNS)}"
            )
        if before.get(_VOCABULARIES) == now[_VOCABULARIES]:
            return False
    os.makedirs(notes, exist_ok=True)
    path = os.path.join(notes, _COLUMNS)
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(now, file, indent=1)
    os.replace(unfinished, path)
    return before is None


def forget(notes: str) -> None:
    """The stream has not begun."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(notes, _COLUMNS))


def _noted(notes: str) -> dict[str, Any] | None:
    with contextlib.suppress(FileNotFoundError), open(os.path.join(notes, _COLUMNS), encoding="utf-8") as file:
        return dict(json.load(file))
    return None


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


def _vocabularies(columns: Columns) -> dict[str, list[Any]]:
    """By column: [how many words, their digest, num_oov_buckets]."""
    found = {name: source.column for name, source in columns.read.items() if source.column.vocabulary is not None}
    return {name: [len(c.words), _digest(c.words), c.num_oov_buckets] for name, c in found.items()}


def _digest(words: Sequence[str | bytes]) -> str:
    texts = [word.decode(errors="surrogateescape") if isinstance(word, bytes) else word for word in words]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _differences(before: dict[str, Any], now: dict[str, Any], columns: Columns) -> list[tuple[str, str, str]]:
    """(a column, how it was read, how it is read)."""
    found = []
    for kind in ("features", "label"):
        had, has = before.get(kind, {}), now[kind]
        for name in [*had, *has]:
            if had.get(name) != has.get(name):
                was, is_now = (f"as {it[name]}" if name in it else "not at all" for it in (had, has))
                found.append((f"{name!r} ({kind})", was, is_now))
    for name, (count, digest, others) in before.get(_VOCABULARIES, {}).items():
        if name in now[_VOCABULARIES]:
            has_count, _, has_others = now[_VOCABULARIES][name]
            was, is_now = (f"by {_spoken(*it)}" for it in ((count, others), (has_count, has_others)))
            if others != has_others or count > has_count or (others and count != has_count):
                found.append((repr(name), was, is_now))
            elif _digest(columns.read[name].column.words[:count]) != digest:
                found.append((repr(name), was, f"{is_now}, of which the first {count} are others or in other places"))
    return found


def _spoken(words: int, others: int) -> str:
    return f"a vocabulary of {words}" + (f" and {others} more" if others else "")
