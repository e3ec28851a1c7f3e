"""TPUEstimator without TPUs: batch sizes in params, host calls, metrics as functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("graph")


def _input(params: dict[str, Any]) -> Any:
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    return tf.data.Dataset.from_tensor_slices((x, 2 * x)).repeat(3).batch(params["batch_size"])


def _model(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    assert params["use_tpu"] is False and params["rate"] == 0.01
    y = tf.layers.dense(features, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.tpu.TPUEstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = tf.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    calls = tf.get_local_variable("calls", (), tf.int32, tf.zeros_initializer())
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op,
        eval_metrics=(lambda y, labels: {"off": tf.metrics.mean_absolute_error(labels, y)}, [y, labels]),
        host_call=(lambda step: [tf.assign_add(calls, 1), tf.identity(step, "seen")], {"step": tf.constant([3])}),
    )  # fmt: skip


def _estimator(folder: Path, **settings: Any) -> Any:
    config = tf.estimator.tpu.RunConfig(tf.estimator.tpu.TPUConfig(iterations_per_loop=4), model_dir=str(folder))
    sizes = {"train_batch_size": 4, "eval_batch_size": 2, "predict_batch_size": 3}
    return tf.contrib.tpu.TPUEstimator(
        _model, config=config, params={"rate": 0.01}, **{"use_tpu": False, **sizes, **settings}
    )


class Calls(tf.train.SessionRunHook):
    def end(self, session: Any) -> None:
        self.count = session.run("calls:0")


def test_it_trains_evaluates_and_predicts(tmp_path: Path) -> None:
    estimator, calls = _estimator(tmp_path), Calls()
    estimator.train(_input, hooks=[calls])
    assert tf.train.load_variable(str(tmp_path), "global_step") == 6 and calls.count == 6
    found = estimator.evaluate(_input)
    assert set(found) == {"off", "loss", "global_step"} and found["global_step"] == 6
    assert len(list(estimator.predict(_input))) == 24


def test_what_it_refuses(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="use_tpu=False"):
        _estimator(tmp_path, use_tpu=True)
    with pytest.raises(ValueError, match="config is a tpu"):
        tf.estimator.tpu.TPUEstimator(_model, config=tf.estimator.RunConfig(), use_tpu=False)
    with pytest.raises(ValueError, match="in params itself"):
        config = tf.estimator.tpu.RunConfig()
        tf.estimator.tpu.TPUEstimator(_model, config=config, params={"batch_size": 3}, use_tpu=False)
    with pytest.raises(ValueError, match="got 1 elements"):
        tf.estimator.tpu.TPUEstimatorSpec("train", eval_metrics=(abs,))
    with pytest.raises(ValueError, match="num_shards must be positive"):
        tf.estimator.tpu.TPUConfig(num_shards=0)
    with pytest.raises(TypeError, match="only works with"):
        tf.tpu.CrossShardOptimizer("adam")


def test_the_configuration() -> None:
    config = tf.estimator.tpu.RunConfig(master="grpc://here:1", save_checkpoints_steps=7)
    assert (config.master, config.evaluation_master) == ("grpc://here:1", "grpc://here:1")
    assert config.tpu_config.iterations_per_loop == 2 and config.tpu_config.per_host_input_for_training == 2
    other = config.replace(tpu_config=tf.estimator.tpu.TPUConfig(5), save_checkpoints_steps=8)
    assert other.tpu_config.iterations_per_loop == 5 and other.save_checkpoints_steps == 8
