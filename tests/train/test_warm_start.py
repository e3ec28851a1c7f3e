"""Variables that begin with a checkpoint's values; reading a checkpoint without its graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        tf.get_variable("old/table", initializer=tf.constant(TABLE))
        tf.get_variable("old/bias", initializer=tf.constant([1.0, 2.0]))
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "model"), global_step=3))


def started(prefix: str, assignment: Any, make: Callable[[], Any]) -> dict[str, Any]:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        given = make()
        tf.train.init_from_checkpoint(prefix, assignment(given) if callable(assignment) else assignment)
        session.run(tf.global_variables_initializer())
        return {v.op.name: session.run(v).tolist() for v in tf.global_variables()}


def two() -> Any:
    with tf.variable_scope("new"):
        table = tf.get_variable("table", [6, 2])
        tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
    return table


@pytest.mark.parametrize(
    "assignment", [{"old/table": "new/table"}, lambda v: {"old/table": v}, lambda v: [("old/table", "new/table")]]
)
def test_one_variable(saved: str, assignment: Any) -> None:
    assert started(saved, assignment, two) == {"new/table": TABLE.tolist(), "new/bias": [0.0, 0.0]}


def test_a_scope(saved: str, tmp_path: Path) -> None:
    expected = {"new/table": TABLE.tolist(), "new/bias": [1.0, 2.0]}
    assert started(str(tmp_path), {"old/": "new/"}, two) == expected, "of the newest checkpoint of a folder"
    renamed = {f"old/{name[4:]}": value for name, value in expected.items()}
    same = {"old/table": [6, 2], "old/bias": [2]}
    assert started(saved, {"/": "/"}, lambda: [tf.get_variable(n, s) for n, s in same.items()]) == renamed


def test_parts_of_a_variable(saved: str) -> None:
    cut = tf.fixed_size_partitioner(2)
    parts = started(saved, lambda v: {"old/table": v}, lambda: tf.get_variable("t", [6, 2], partitioner=cut))
    assert parts == {"t/part_0": TABLE[:3].tolist(), "t/part_1": TABLE[3:].tolist()}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({"old/nothing": "new/table"}, "'old/nothing' is not found in checkpoint .* there are old/bias, old/table"),
        ({"old/table": "nothing"}, "there is no variable 'nothing' in the graph; it has new/bias, new/table"),
        (
            {"old/bias": "new/table"},
            r"'new/table' is float32\[6, 2\], which doesn't match 'old/bias' in .*, float32\[2\]",
        ),
        ({"old/": "new"}, "'old/' is a scope, so 'new' must end with"),
    ],
)
def test_what_does_not_fit(saved: str, assignment: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        started(saved, assignment, two)


def test_a_reader(saved: str, tmp_path: Path) -> None:
    for reader in (tf.train.NewCheckpointReader(saved), tf.train.load_checkpoint(str(tmp_path))):
        assert reader.get_variable_to_shape_map() == {"old/bias": [2], "old/table": [6, 2]}
        assert reader.get_variable_to_dtype_map()["old/bias"] == tf.float32
        assert reader.has_tensor("old/bias") and not reader.has_tensor("bias")
        assert reader.get_tensor("old/bias").tolist() == [1.0, 2.0]
        assert reader.get_rows("old/table", 2, 5).tolist() == TABLE[2:5].tolist()
    with pytest.raises(tf.errors.NotFoundError, match="No checkpoint"):
        tf.train.NewCheckpointReader(str(tmp_path / "other"))
