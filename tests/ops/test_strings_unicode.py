"""Strings of UTF-8 and their code points, in one go and one by one."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

GOOD = ["", "abc", "\0", "\u00e9\u4e2d\U0001f600", "\ufeffx", "", "tab\t", "\U0010ffff"] * 4


def _run(made: Any) -> Any:
    with tf.Session() as session:
        return session.run(made)


@pytest.mark.parametrize("given", [GOOD, [""], ["a"], [b"", b""]])
def test_there_and_back(graph: Any, given: list[str]) -> None:
    points, offsets = tf.strings.unicode_decode_with_offsets(given, "UTF-8")
    found, at, back, parts = _run(
        [points, offsets, tf.strings.unicode_encode(points, "UTF-8"), tf.strings.unicode_split(given, "UTF-8")]
    )
    texts = [t if isinstance(t, str) else t.decode() for t in given]
    assert found.to_list() == [[*map(ord, t)] for t in texts]
    assert at.to_list() == [[len(t[:i].encode()) for i in range(len(t))] for t in texts]
    assert back.tolist() == [t.encode() for t in texts]
    assert parts.to_list() == [[c.encode() for c in t] for t in texts]


def test_a_character_in_two_strings_is_none(graph: Any) -> None:
    """Though their bytes, end to end, are UTF-8."""
    found = _run(tf.strings.unicode_decode([b"a\xc3", b"\xa9b"], "UTF-8"))
    assert found.to_list() == [[97, 0xFFFD], [0xFFFD, 98]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid formatting"):
        _run(tf.strings.unicode_decode([b"a\xc3", b"\xa9b"], "UTF-8", errors="strict"))


def test_controls_are_replaced_among_good_strings(graph: Any) -> None:
    found = _run(tf.strings.unicode_decode(["a\t", "b"], "UTF-8", replacement_char=33, replace_control_characters=True))
    assert found.to_list() == [[97, 33], [98]]


def test_what_is_no_character_among_many(graph: Any) -> None:
    points = tf.ragged.constant([[97, 0xD800]] + [[98]] * 30)
    assert _run(tf.strings.unicode_encode(points, "UTF-8")).tolist() == ["a\ufffd".encode()] + [b"b"] * 30
    with pytest.raises(tf.errors.InvalidArgumentError, match="Code point is out of range"):
        _run(tf.strings.unicode_encode(points, "UTF-8", errors="strict"))
