"""Bytes and n-grams of strings, as RaggedTensors."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf

ROWS = [["a", "b", "c"], ["d"], [], ["e", "f"]]


def _values(made: Any) -> Any:
    with tf.Session() as session:
        value = session.run(made)
    return value.to_list() if hasattr(value, "to_list") else value.tolist()


def test_bytes_of_strings(graph: Any) -> None:
    split = tf.strings.bytes_split
    assert _values(split("ab")) == [b"a", b"b"]
    assert _values(split(["ab", "", "c"])) == [[b"a", b"b"], [], [b"c"]]
    assert _values(split([["ab", "x"], ["", "c"]])) == [[[b"a", b"b"], [b"x"]], [[], [b"c"]]]
    assert _values(split(tf.ragged.constant([["ab"], ["x", "c"]]))) == [[[b"a", b"b"]], [[b"x"], [b"c"]]]
    with pytest.raises(ValueError, match="rank of input must be known"):
        split(tf.placeholder(tf.string))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ngram_width": 2}, [["a b", "b c"], [], [], ["e f"]]),
        ({"ngram_width": (1, 2), "separator": ""}, [["a", "b", "c", "ab", "bc"], ["d"], [], ["e", "f", "ef"]]),
        ({"ngram_width": 2, "pad_values": ("<", ">"), "separator": ""},
         [["<a", "ab", "bc", "c>"], ["<d", "d>"], ["<>"], ["<e", "ef", "f>"]]),
        ({"ngram_width": 3, "pad_values": "_", "padding_width": 1, "separator": ""},
         [["_ab", "abc", "bc_"], ["_d_"], [], ["_ef", "ef_"]]),
        ({"ngram_width": 3, "preserve_short_sequences": True}, [["a b c"], ["d"], [], ["e f"]]),
    ],
)  # fmt: skip
def test_ngrams_of_rows(graph: Any, given: dict[str, Any], expected: list[list[str]]) -> None:
    found = _values(tf.strings.ngrams(tf.ragged.constant(ROWS), **given))
    assert found == [[text.encode() for text in row] for row in expected]


def test_ngrams_of_tensors(graph: Any) -> None:
    assert _values(tf.strings.ngrams(["a", "b", "c"], 2)) == [b"a b", b"b c"]
    assert _values(tf.strings.ngrams([["a", "b"], ["c", "d"]], 2)) == [[b"a b"], [b"c d"]]
    nested = tf.strings.ngrams(tf.ragged.constant([[["a", "b"], ["c"]], [[]]]), 2)
    assert _values(nested) == [[[b"a b"], []], [[]]]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"ngram_width": 0}, ValueError, "greater than 0"),
        ({"ngram_width": 2, "padding_width": 1}, ValueError, "pad_values must be provided"),
        ({"ngram_width": 2, "pad_values": "x", "padding_width": 0}, ValueError, "padding_width"),
        ({"ngram_width": 2, "pad_values": 3}, TypeError, "pad_values"),
    ],
)
def test_what_ngrams_refuse(graph: Any, given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tf.strings.ngrams(["a"], **given)
    with pytest.raises(ValueError, match="known rank of at least 1"):
        tf.strings.ngrams("a", 1)
