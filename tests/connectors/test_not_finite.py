"""A loss that is no number names the columns that have none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.layout import Layout
from sparkflow_connectors.not_finite import floats, why
from sparkflow_connectors.schema import resolve

NAN, INF = float("nan"), float("inf")


def said(columns: dict[str, Any]) -> str:
    table = pa.table(columns)
    read = resolve(table.schema, [tf.local.Column(n, shape=[2] if n == "list" else None) for n in columns], None)
    layout = Layout.of(read)
    block = layout.empty(table.num_rows)
    for array, component in zip(block, layout.components, strict=True):
        values = [np.array(table[name].to_pylist()) for name in component.columns]
        array[:] = np.stack(values, 1) if component.packed else values[0]
    return why(layout, floats(layout, block))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, 2.0], "n": [1, 2]}, "its rows are finite: lower the learning rate"),
        ({"n": [1, 2]}, "its rows are finite"),
        ({"a": [1.0, NAN], "n": [1, 2]}, "its 2 rows have nan or inf: column 'a' in 1. Drop or fill them"),
        ({"a": [1.0, 2.0], "b": [INF, -INF], "c": [NAN, 1.0]}, "column 'b' in 2, 'c' in 1. Drop"),
        ({"list": [[1.0, NAN], [INF, NAN], [1.0, 2.0]]}, "its 3 rows have nan or inf: column 'list' in 2"),
        ({c: [NAN] for c in "abcde"}, "column 'a' in 1, 'b' in 1, 'c' in 1, and 2 columns more. Drop"),
        ({"h": pa.array(np.array([1, INF], np.float16)), "d": [1.0, 2.0]}, "column 'h' in 1. Drop"),
    ],
)
def test_columns_are_named(columns: dict[str, Any], message: str) -> None:
    assert message in said(columns)


@pytest.mark.parametrize(
    ("value", "rate", "message"),
    [
        (NAN, 0.0, r"^worker 0: The loss is nan at epoch 1, step 1: its 16 rows have nan or inf: column 'x' in 1\. "),
        (1.0, 1e30, r"^worker 0: The loss is (nan|inf) at epoch \d, step 1: its rows are finite: lower the learning"),
    ],
)
def test_a_training_says_what_its_loss_may_come_of(value: float, rate: float, message: str, tmp_path: Path) -> None:
    x = np.ones(16)
    x[3] = value
    table = pa.table({"x": x, "z": np.ones(16), "n": np.arange(16)})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", [], tf.float64)
        p = w * features["x"] * features["z"]
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": p})
        loss = tf.reduce_mean(tf.square(p - 2.0))
        step = tf.train.GradientDescentOptimizer(rate).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.local.train(
            table, model_fn, label=None, workers=1, sync=False, epochs=20, batch_size=16, validation=0.0,
            checkpoint_dir=str(tmp_path / "out"),
        )  # fmt: skip


def test_a_training_says_what_a_validation_loss_may_come_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"x": [NAN] * 40, "z": np.ones(40)})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        p = tf.get_variable("w", [], tf.float64) * features["z" if mode == tf.estimator.ModeKeys.TRAIN else "x"]
        loss = tf.reduce_mean(tf.square(p))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions={"p": p}, loss=loss, train_op=step)

    with caplog.at_level("INFO", "sparkflow"):
        tf.local.train(
            table, model_fn, label=None, workers=1, sync=False, epochs=2, batch_size=16, validation=0.5,
            checkpoint_dir=str(tmp_path / "out"),
        )  # fmt: skip
    said = [r.getMessage() for r in caplog.records if "kept for validation" in r.getMessage()]
    assert len(said) == 1, "the rows are the same in every epoch"
    assert re.fullmatch(
        r"worker 0: the loss of rows that are kept for validation is nan: its (\d+) rows have nan or inf: "
        r"column 'x' in \1\. Drop or fill them",
        said[0],
    )
