"""A worker of several whose training ends by an error: the others hear of it, and do not wait for one that is gone."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.estimator.replicas import server_of
from sparkflow_runtime.resources import ended


def _model(features: Any, labels: Any, mode: str) -> Any:
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(features * w - 1.0))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _rows(bad: bool) -> Any:
    def rows() -> Iterator[np.float32]:
        for row in range(1000):
            if bad and row == 5:
                raise ValueError("this row is bad")
            yield np.float32(row % 3)

    return tf.data.Dataset.from_generator(rows, tf.float32, []).batch(2)


@pytest.mark.parametrize("bad", [0, 1])
def test_the_others_are_told_who_ended_and_why(bad: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chief, which forms the groups, or another one. Its server serves on, as where a notebook has the program."""
    monkeypatch.setattr(ended, "ENDED_S", 0.2)
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in held]}
    for one in held:
        one.close()
    estimators = []
    for index in range(2):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}))
        strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
        config = tf.estimator.RunConfig(train_distribute=strategy, log_step_count_steps=None)
        estimators.append(tf.estimator.Estimator(_model, str(tmp_path), config))

    def train(index: int) -> str:
        with pytest.raises(tf.errors.OpError) as error:
            estimators[index].train(lambda: _rows(index == bad), max_steps=400)
        return f"{type(error.value).__name__}: {error.value}"

    try:
        with ThreadPoolExecutor(2) as threads:
            said = list(threads.map(train, range(2), timeout=30))
    finally:
        for estimator in estimators:
            server_of(estimator.config).stop()
    assert "this row is bad" in said[bad]
    assert f"/job:worker/replica:0/task:{bad} ended by an error and was not started again" in said[1 - bad]
    assert "FailedPreconditionError" in said[1 - bad] and "this row is bad" in said[1 - bad]
