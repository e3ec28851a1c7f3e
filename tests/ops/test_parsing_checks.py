"""Ragged features: what is looked at where it is asked for, and how messages are called."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from tests.ops.test_parsing import ROWS, example, run


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("RowSplits", [0, 2, 1]),
        ("RowLengths", [1, 1]),
        ("RowStarts", [1]),
        ("RowLimits", [3, 1, 3]),
        ("ValueRowIds", [0, 1, 0]),
    ],
)
def test_partitions_are_looked_at_where_asked(graph: Any, kind: str, wrong: list[int], single: bool) -> None:
    part = tf.io.RaggedFeature
    for validate in (True, False):
        spec = {"v": part(tf.int64, "v", [getattr(part, kind)("k")], validate=validate)}
        message = example(v=[7, 8, 9], k=wrong)
        found = (tf.io.parse_single_example(message, spec) if single else tf.io.parse_example([message], spec))["v"]
        if not validate:
            run(found.flat_values)
            continue
        with pytest.raises(tf.errors.InvalidArgumentError, match="'k'"):
            run(found.nested_row_splits)


def test_names_of_messages_are_tensors_too(graph: Any) -> None:
    names = tf.placeholder(tf.string, [None])
    found = tf.io.parse_example(ROWS, {"v": tf.io.RaggedFeature(tf.string)}, example_names=names)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Name: b, Feature: v"):
        session.run(found["v"], {names: ["b", "c", "d"]})
