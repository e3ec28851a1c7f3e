"""Placement on parameter servers; the expected devices are TensorFlow's."""

from __future__ import annotations

import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


def test_round_robin(graph: Graph) -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        a = tf.get_variable("a", [3, 2])
        b = tf.Variable(tf.zeros([2]), name="b")
        c = tf.Variable(1.0, name="c")
        x = tf.matmul(tf.ones([1, 3]), a) + b
        with tf.device("/cpu:0"):
            y = x * 2.0
            d = tf.Variable(2.0, name="d")
        with tf.device("/job:ps/task:1"):
            e = tf.Variable(2.0, name="e")
        with tf.device("/gpu:1"):
            f = tf.Variable(2.0, name="f")
    assert [v.device for v in (a, b, c, d, e, f)] == [
        "/job:ps/task:0",
        "/job:ps/task:1",
        "/job:ps/task:0",
        "/job:ps/task:1/device:CPU:0",
        "/job:ps/task:1",
        "/job:ps/task:1/device:GPU:1",
    ]
    assert x.device == "/job:worker" and y.device == "/job:worker/device:CPU:0"
    assert a.initializer.device == a.value().device == a.initial_value.device == a.device


def test_slots_and_updates_stay_with_their_variable(graph: Graph) -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:1")):
        tf.get_variable("a", [2])
        b = tf.get_variable("b", [2])
        optimizer = tf.train.AdagradOptimizer(0.1)
        optimizer.apply_gradients([(tf.ones([2]), b)])
    assert optimizer.get_slot(b, "accumulator").device == "/job:ps/task:1"
    assert graph.get_operation_by_name("Adagrad/update_b/ApplyAdagrad").device == "/job:ps/task:1"
    assert graph.get_operation_by_name("Adagrad/learning_rate").device == "/job:worker/task:1"


def test_cluster_says_how_many(graph: Graph) -> None:
    cluster = {"ps": ["a:1", "b:1", "c:1"], "worker": ["d:1"]}
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        made = [tf.Variable(1.0) for _ in range(4)]
    assert [v.device for v in made] == [f"/job:ps/task:{i}" for i in (0, 1, 2, 0)]
    assert tf.train.replica_device_setter(cluster={"worker": ["d:1"]}) is None
    assert tf.train.replica_device_setter() is None


def test_greedy(graph: Graph) -> None:
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        made = [tf.Variable(tf.zeros([n])) for n in (100, 10, 10, 10, 90)]
    assert [v.device[-1] for v in made] == ["0", "1", "1", "1", "1"]


def test_slots_take_their_turn_and_stay_beside_their_variable(graph: Graph) -> None:
    """As in TensorFlow, where they count as a load, too."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        a = tf.Variable([1.0], name="a")
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(a * a)
        tf.train.ExponentialMovingAverage(0.5).apply([a])
        b = tf.Variable(1.0, name="b")
    assert {v.device for v in tf.global_variables() if v.name.startswith("a")} == {"/job:ps/task:0"}
    assert b.device == "/job:ps/task:1"


def test_refusals(graph: Graph) -> None:
    with pytest.raises(TypeError, match="must be callable"):
        tf.train.replica_device_setter(ps_tasks=1, ps_strategy=3)  # type: ignore[arg-type]
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(1, tf.contrib.training.byte_size_load_fn)
    unknown = tf.placeholder(tf.float32)
    with (
        tf.device(tf.train.replica_device_setter(ps_tasks=1, ps_strategy=strategy)),
        pytest.raises(ValueError, match="size is not known"),
    ):
        tf.Variable(unknown, validate_shape=False)
