"""Batch normalization without servers, where a worker has no rows left while others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf

pytestmark = pytest.mark.cluster


def model(features: Any, labels: Any, mode: str) -> Any:
    x = tf.layers.batch_normalization(
        tf.reshape(features["x"], [-1, 1]), momentum=0.5, training=mode == tf.estimator.ModeKeys.TRAIN, name="bn"
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": x})
    loss = tf.reduce_mean(x**2)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_who_has_no_rows_in_a_step_has_no_say_in_its_statistics(tmp_path: Path) -> None:
    """Worker 0, the chief, has one batch of zeros, worker 1 three batches of eights."""
    who = np.repeat([0, 1], [4, 12])
    rows = pa.table({"x": (who * 8).astype(np.float32), "who": who})
    tf.local.train(
        rows, model, label=None, features=["x"], partition_by="who", workers=2, strategy="all_reduce", uneven="join",
        batch_size=4, validation=0.0, checkpoint_dir=str(tmp_path),
    )  # fmt: skip
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert int(tf.train.load_variable(path, "global_step")) == 3
    assert tf.train.load_variable(path, "bn/moving_mean").tolist() == [((4 / 2 + 8) / 2 + 8) / 2]
