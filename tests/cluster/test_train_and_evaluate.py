"""train_and_evaluate under TF_CONFIG: one process for each task, as schedulers of clusters start them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    train_op = tf.train.GradientDescentOptimizer(0.2).minimize(loss, tf.train.get_global_step())
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


def _run(
    tmp_path: Path, program: str, cluster: dict[str, list[str]], order: list[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """What the processes of a cluster's tasks said, all of which ended well but for servers, which end never."""
    (tmp_path / "program.py").write_text(program)
    tasks: dict[tuple[str, int], subprocess.Popen[str]] = {}
    try:
        for kind, index in order:
            told = {"cluster": cluster, "task": {"type": kind, "index": index}}
            here = {**os.environ, "TF_CONFIG": json.dumps(told), "SPARKFLOW_SECRET": "5" * 32, "OMP_NUM_THREADS": "1"}
            here["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            tasks[kind, index] = subprocess.Popen(
                [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "model")],
                env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        said = {key: task.communicate(timeout=200)[0] for key, task in tasks.items() if key[0] != "ps"}
        assert [tasks[key].returncode for key in said] == [0] * len(said), said
        assert all(tasks[key].poll() is None for key in tasks if key[0] == "ps")
        return said
    finally:
        for task in tasks.values():
            task.kill()
            task.wait()


def test_chief_worker_servers_and_evaluator(tmp_path: Path) -> None:
    chief, worker, *servers = _addresses(4)
    cluster = {"chief": [chief], "worker": [worker], "ps": servers}
    order = [("ps", 0), ("ps", 1), ("worker", 0), ("chief", 0), ("evaluator", 0)]
    said = _run(tmp_path, PROGRAM, cluster, order)
    assert "'global_step': np.int64(20" in said["evaluator", 0]
    path = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert path is not None and int(tf.train.load_variable(path, "global_step")) >= 200
    assert abs(tf.train.load_variable(path, "line/kernel").reshape(-1) - [1, 2, 3]).max() < 0.5


# Of a table and a line; each worker has its own rows, and every other one of all.
MIRRORED = """
import sys
import numpy as np
import sparkflow as tf

rng = np.random.default_rng(0)
X, I = rng.random((64, 3), np.float32), rng.integers(0, 9, 64)
Y = X @ np.array([[1.0], [2.0], [3.0]], np.float32)


def model(features, labels, mode):
    table = tf.get_variable("table", [9, 1], initializer=tf.random_normal_initializer(0, 0.1))
    y = tf.layers.dense(features["x"], 1, name="line") + tf.nn.embedding_lookup(table, features["i"])
    loss = tf.losses.mean_squared_error(labels, y)
    opt = tf.train.MomentumOptimizer(0.02, 0.5)
    train_op = opt.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(input_context=None):
    data = tf.data.Dataset.from_tensor_slices(({"x": X, "i": I}, Y))
    count = input_context.num_input_pipelines
    data = data.shard(count, input_context.input_pipeline_id)
    return data.repeat().batch(input_context.get_per_replica_batch_size(16))


strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
config = tf.estimator.RunConfig(save_checkpoints_steps=20, train_distribute=strategy)
estimator = tf.estimator.Estimator(model, sys.argv[1], config)
spec = tf.estimator.EvalSpec(rows, steps=8, start_delay_secs=0, throttle_secs=0)
for end in (30, 40):  # the second time from the checkpoint of the first
    found = tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(rows, max_steps=end), spec)
    if config.task_type == "evaluator":
        break
print("found", found[0], strategy.num_replicas_in_sync)
"""


def test_workers_that_apply_the_mean_of_their_gradients(tmp_path: Path) -> None:
    """Two workers with a half of each batch come to what one with all of it does."""
    found = {}
    for name, cluster, order in (
        ("one", {}, [("worker", 0)]),
        ("two", {"worker": _addresses(2)}, [("worker", 0), ("worker", 1), ("evaluator", 0)]),
        ("with a chief", {"chief": _addresses(1), "worker": _addresses(1)}, [("worker", 0), ("chief", 0)]),
    ):
        (tmp_path / name).mkdir()
        said = _run(tmp_path / name, MIRRORED, cluster, order)
        assert name != "two" or "'global_step': np.int64(" in said["evaluator", 0]
        path = tf.train.latest_checkpoint(str(tmp_path / name / "model"))
        assert path is not None and path.endswith("-40")
        found[name] = {v: tf.train.load_variable(path, v) for v, _ in tf.train.list_variables(path)}
        events = list((tmp_path / name / "model").glob("events*"))
        assert len(events) <= 2  # of two trainings of one process
    for other in ("two", "with a chief"):
        assert found[other].keys() == found["one"].keys()
        for v, value in found["one"].items():
            np.testing.assert_allclose(found[other][v], value, rtol=2e-4, atol=2e-6, err_msg=v)


# Models of other sizes and optimizers, whose variables have the same names; by both doors.
ONE_AFTER_THE_OTHER = """
import sys
import numpy as np
import sparkflow as tf


def train(width, opt, through):
    X = np.random.default_rng(width).random((64, width), np.float32)
    Y = X.sum(1, keepdims=True)

    def model(features, labels, mode):
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, name="line"))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=opt.minimize(loss, tf.train.get_global_step()))

    def rows():
        return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(8)

    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(train_distribute=strategy)
    estimator = tf.estimator.Estimator(model, f"{sys.argv[1]}/{width}", config)
    through(estimator, rows)
    if config.is_chief:
        print("found", width, estimator.evaluate(rows, steps=8)["global_step"])


def both(estimator, rows):
    spec = tf.estimator.EvalSpec(rows, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(rows, max_steps=7), spec)


train(3, tf.train.AdamOptimizer(0.1), lambda estimator, rows: estimator.train(rows, max_steps=5))
train(4, tf.train.GradientDescentOptimizer(0.1), lambda estimator, rows: estimator.train(rows, steps=6))
train(5, tf.train.AdagradOptimizer(0.1), both)
"""


def test_estimators_one_after_the_other_in_the_same_processes(tmp_path: Path) -> None:
    """They are the same tasks of the cluster, whose addresses are bound once."""
    order = [("worker", i) for i in range(3)]
    said = _run(tmp_path, ONE_AFTER_THE_OTHER, {"worker": _addresses(3)}, order)
    found = [line.split()[1:] for line in said["worker", 0].splitlines() if line.startswith("found")]
    assert found == [["3", "5"], ["4", "6"], ["5", "7"]]


# Worker r has rows around r alone, of deviation r + 1.
NORMALIZED = """
import sys
import numpy as np
import sparkflow as tf

strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
config = tf.estimator.RunConfig(train_distribute=strategy)
rank = config.task_id
X = np.stack([np.full([4, 2], rank + sign * (rank + 1)) for sign in (-1, 1)], 1).reshape(-1, 2).astype(np.float32)


def model(features, labels, mode):
    x = tf.layers.batch_normalization(features, momentum=0.75, training=mode == "train", fused=False, name="bn")
    loss = tf.reduce_mean(tf.layers.dense(x, 1) ** 2)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


tf.estimator.Estimator(model, sys.argv[1], config).train(lambda: (tf.constant(X), None), max_steps=3)
"""


def test_moving_averages_follow_the_rows_of_all_workers(tmp_path: Path) -> None:
    """As in TensorFlow, where those of the replicas are averaged when they are read; and not the chief's alone."""
    _run(tmp_path, NORMALIZED, {"worker": _addresses(3)}, [("worker", i) for i in range(3)])
    path = tf.train.latest_checkpoint(str(tmp_path / "model"))
    kept = 0.75**3
    means, variances = (tf.train.load_variable(path, f"bn/moving_{name}") for name in ("mean", "variance"))
    np.testing.assert_allclose(means, [1 - kept] * 2, rtol=1e-5)  # of 0, 1 and 2
    np.testing.assert_allclose(variances, [kept + (1 - kept) * (1 + 4 + 9) / 3] * 2, rtol=1e-5)
