"""The vocabularies and hashes that a training read its columns by, written down beside its checkpoints: one that goes
on there by other words, the same ones in other places, or another number of hashes would take each row of an embedding
for another word's.

A vocabulary may grow at its end, unless what it has not is numbered after it (num_oov_buckets).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire.errors import FailedPreconditionError

_FILE = "vocabularies.json"


@contextlib.contextmanager
def kept(checkpoint_dir: str, columns: Columns) -> Iterator[None]:
    """While a training makes or goes on with the checkpoint there. Raises FailedPreconditionError where its
    vocabularies or hashes are others than those of the checkpoint."""
    path, now = os.path.join(checkpoint_dir, _FILE), {**vocabularies(columns), **_hashes(columns)}
    before = read(path) if tf.train.latest_checkpoint(checkpoint_dir) else None
    for name, was, is_now in differences(before or {}, columns):
        raise FailedPreconditionError(
            f"{checkpoint_dir} holds the checkpoint of a training that read column {name!r} {was}, and this one reads "
            f"it {is_now}. Give another checkpoint_dir, or read it as before. Where it is the same model, "
            f"remove {path}"
        )
    if now and now != before:
        write(path, now)
    try:
        yield
    except BaseException:
        if not tf.train.latest_checkpoint(checkpoint_dir):
            with contextlib.suppress(OSError):
                os.unlink(path)
        raise


def vocabularies(columns: Columns) -> dict[str, list[Any]]:
    """By column: [how many words, their digest, num_oov_buckets]."""
    found = {name: source.column for name, source in columns.read.items() if source.column.vocabulary is not None}
    return {name: _noted(column) for name, column in found.items()}


def _hashes(columns: Columns) -> dict[str, int]:
    """By column: how many hash buckets."""
    return {name: source.column.hash_buckets for name, source in columns.read.items() if source.column.hash_buckets}


def differences(before: Mapping[str, Any], columns: Columns) -> Iterator[tuple[str, str, str]]:
    """(a column that is read otherwise than before, how it was read, how it is read). before: of columns that were read
    by vocabulary what `vocabularies` says, and of others how many hash buckets they had."""
    for name, had in before.items():
        source = columns.read.get(name)
        if source is None:
            continue
        column = source.column
        if isinstance(had, int) or column.vocabulary is None:
            if had != column.hash_buckets:
                yield name, _spoken_as(had), _spoken_as(_noted(column))
            continue
        (count, digest, others), words = had, column.words
        was, is_now = _spoken_as(had), _spoken_as(_noted(column))
        if others != column.num_oov_buckets or count > len(words) or (others and count != len(words)):
            yield name, was, is_now
        elif _digest(words[:count]) != digest:
            yield name, was, f"{is_now}, of which the first {count} are others or in other places"


def read(path: str) -> dict[str, Any] | None:
    """Of a JSON file; None where there is none."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return dict(json.load(file))
    return None


def write(path: str, fields: Mapping[str, Any]) -> None:
    """As JSON, whole or not at all."""
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=1)
    os.replace(unfinished, path)


def _digest(words: Sequence[str | bytes]) -> str:
    texts = [word.decode(errors="surrogateescape") if isinstance(word, bytes) else word for word in words]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _noted(column: Column) -> Any:
    """What is written down of a column; 0 of one that is read as it is."""
    if column.vocabulary is not None:
        return [len(column.words), _digest(column.words), column.num_oov_buckets]
    return column.hash_buckets


def _spoken_as(noted: Any) -> str:
    if not noted:
        return "as it is"
    if isinstance(noted, int):
        return f"by hashes modulo {noted}"
    words, _, others = noted
    return f"by a vocabulary of {words}" + (f" and {others} more" if others else "")
