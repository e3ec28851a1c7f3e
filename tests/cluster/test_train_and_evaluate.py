"""train_and_evaluate under TF_CONFIG: one process for each task, as schedulers of clusters start them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sparkflow as tf

pytestmark = pytest.mark.cluster

PROGRAM = """
import sys
import numpy as np
import sparkflow as tf

X = np.random.default_rng(0).random((64, 3), np.float32)
Y = X @ np.array([[1.0], [2.0], [3.0]], np.float32)


def model(features, labels, mode):
    y = tf.layers.dense(features["x"], 1, name="line")
    loss = tf.losses.mean_squared_error(labels, y)
    train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat().batch(8)


config = tf.estimator.RunConfig(save_checkpoints_steps=50)
estimator = tf.estimator.Estimator(model, sys.argv[1], config)
spec = tf.estimator.EvalSpec(rows, steps=8, start_delay_secs=0, throttle_secs=0)
found = tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(rows, max_steps=200), spec)
print("found", found[0])
"""


def _addresses(count: int) -> list[str]:
    """Ports that nobody listens at: all are held until the last is known."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


def test_chief_worker_servers_and_evaluator(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    chief, worker, *servers = _addresses(4)
    cluster = {"chief": [chief], "worker": [worker], "ps": servers}
    tasks: dict[tuple[str, int], subprocess.Popen[str]] = {}
    try:
        for kind, index in (("ps", 0), ("ps", 1), ("worker", 0), ("chief", 0), ("evaluator", 0)):
            told = {"cluster": cluster, "task": {"type": kind, "index": index}}
            here = {**os.environ, "TF_CONFIG": json.dumps(told), "SPARKFLOW_SECRET": "5" * 32, "OMP_NUM_THREADS": "1"}
            here["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            tasks[kind, index] = subprocess.Popen(
                [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "model")],
                env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        said = {key: task.communicate(timeout=200)[0] for key, task in tasks.items() if key[0] != "ps"}
        assert [tasks[key].returncode for key in said] == [0, 0, 0], said
        assert tasks["ps", 0].poll() is None and tasks["ps", 1].poll() is None  # until they are killed
    finally:
        for task in tasks.values():
            task.kill()
            task.wait()
    assert "'global_step': np.int64(20" in said["evaluator", 0]
    path = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert path is not None and int(tf.train.load_variable(path, "global_step")) >= 200
    assert abs(tf.train.load_variable(path, "line/kernel").reshape(-1) - [1, 2, 3]).max() < 0.5
