"""What a stream that goes on must find as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.schema import resolve
from sparkflow_connectors.stream_columns import forget, note

SCHEMA = pa.schema([("s", pa.string()), ("x", pa.float32()), ("n", pa.int64())])


def begun(folder: Path, *features: Any) -> bool:
    return note("the folder", str(folder / "stream"), resolve(SCHEMA, list(features), None))


def words(*of: Any, oov: int = 0) -> Column:
    return Column("s", vocabulary=list(of), num_oov_buckets=oov)


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (words("a", "b"), words("a", "b"), None),
        (words("a", "b"), words(b"a", b"b", b"c"), None),
        (
            words("a", "b"),
            words("b", "a"),
            "'s' by a vocabulary of 2, .* of which the first 2 are others or in other pl",
        ),
        (words("a", "b"), words("c", "a", "b"), "by a vocabulary of 3, of which the first 2 are others"),
        (words("a", "b"), words("a"), "by a vocabulary of 2, and this stream reads it by a vocabulary of 1"),
        (words("a", oov=3), words("a", oov=4), "a vocabulary of 1 and 3 more, and .* by a vocabulary of 1 and 4 more"),
        (words("a", oov=3), words("a", "b", oov=3), "by a vocabulary of 2 and 3 more"),
        (words("a"), Column("s", hash_buckets=9), "'s' .* as places in a vocabulary, .* as hashes modulo 9"),
        ("x", "n", r"'x' \(features\) as numbers, and this stream reads it not at all"),
    ],
)
def test_what_a_stream_goes_on_with(first: Any, then: Any, message: str | None, tmp_path: Path) -> None:
    assert begun(tmp_path, first) and not begun(tmp_path, first)
    if message is None:
        assert not begun(tmp_path, then)
        return
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"the folder holds a stream's training .*{message}"):
        begun(tmp_path, then)
    forget(str(tmp_path / "stream"))
    assert begun(tmp_path, then)


def test_words_that_came_later_are_known_too(tmp_path: Path) -> None:
    begun(tmp_path, words("a"))
    begun(tmp_path, words("a", "b"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="of which the first 2 are others"):
        begun(tmp_path, words("a", "c"))


def test_a_note_without_vocabularies(tmp_path: Path) -> None:
    """As streams wrote it before they told of vocabularies."""
    path = tmp_path / "stream" / "columns.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"features": {"s": "places in a vocabulary"}, "label": {}}))
    assert not begun(tmp_path, words("a"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="of which the first 1 are others"):
        begun(tmp_path, words("b"))
