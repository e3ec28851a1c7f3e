"""What is looked at where it is asked for, how messages are called, and whose memory the values are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.registry import find
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


@pytest.mark.parametrize("lengths", [[300, 0, 250, 500], [3, 0, 1], [700], [0, 0], []])
def test_places_of_short_and_long_rows(graph: Any, lengths: list[int]) -> None:
    serialized = tf.placeholder(tf.string, [None])
    parsed = tf.io.parse_example(serialized, {"v": tf.VarLenFeature(tf.int64)})["v"]
    rows = [[10**9 * (i + 1) + k for k in range(n)] for i, n in enumerate(lengths)]
    messages = [example(v=row) if row else b"" for row in rows]
    for _ in range(2):
        found = run(parsed, {serialized: np.array(messages, object)})
        assert found.values.tolist() == [value for row in rows for value in row]
        assert found.indices.tolist() == [[i, k] for i, n in enumerate(lengths) for k in range(n)]
        assert found.dense_shape.tolist() == [len(lengths), max(lengths, default=0)]


def test_a_feature_of_no_values_without_a_default_is_required_too(graph: Any) -> None:
    spec = {"v": tf.FixedLenFeature([0], tf.int64)}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Feature: v .* is required but could not be found"):
        run(tf.io.parse_example([b""], spec))


@pytest.mark.parametrize("op", ["Example", "ExampleV2", "SingleExample", "SingleSequenceExample", "SequenceExampleV2"])
def test_what_is_fetched_of_parsers_is_not_copied(op: str) -> None:
    """They keep nothing, so their arrays are nobody else's: to copy them took half as long as to make them."""
    for name in (f"Parse{op}", "DecodeCSV"):
        kernel = find(name, "CPU")
        assert not kernel.stateful and not kernel.aliases
