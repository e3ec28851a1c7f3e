"""Variables on several parameter servers: whole, in parts, shared between tasks. The servers are real."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ROWS, DIM = 11, 3
TABLE = np.random.default_rng(3).normal(size=(ROWS, DIM)).astype(np.float32)
IDS = [[0, 10, 3], [3, 3, 7]]


def setter(servers: Any, **options: Any) -> Any:
    return tf.device(
        tf.train.replica_device_setter(
            cluster=servers["worker0"].server_def.cluster, worker_device="/job:worker/task:0", **options
        )
    )


PARTITIONERS = {
    "fixed": (tf.fixed_size_partitioner(3), 3),
    "axis": (tf.variable_axis_size_partitioner(max_shard_bytes=4 * DIM * 3), 4),
    "min_max": (tf.min_max_variable_partitioner(max_partitions=3, min_slice_size=4 * DIM * 4), 3),
}


@pytest.mark.parametrize("kind", PARTITIONERS)
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a_partitioned_table_is_looked_up_and_trained(cluster: Any, graph: Any, kind: str, strategy: str) -> None:
    """The same rows, and the same table after a step, as of one table in one place."""
    servers = cluster(ps=2, worker=1)
    partitioner, parts = PARTITIONERS[kind]
    with setter(servers):
        table = tf.get_variable("table", initializer=TABLE, partitioner=partitioner)
        ids = tf.placeholder(tf.int64, [2, 3])
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy=strategy)
        loss = tf.reduce_sum(tf.square(rows) * tf.constant([[[1.0], [2.0], [3.0]]]))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    shards = list(table)
    assert len(shards) == parts
    assert {v.device for v in shards} == {"/job:ps/task:0", "/job:ps/task:1"}
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        order = _row_order(parts, strategy, [v.shape.as_list()[0] for v in shards])
        whole = session.run(table.as_tensor())
        np.testing.assert_array_equal(whole, TABLE)
        for _ in range(3):
            np.testing.assert_array_equal(session.run(rows, {ids: IDS}), whole[order][IDS])
            session.run(train, {ids: IDS})
            whole = session.run(table.as_tensor())
        np.testing.assert_allclose(whole[order], _trained(TABLE[order]), rtol=1e-5)


def _row_order(parts: int, strategy: str, sizes: list[int]) -> list[int]:
    """Where row i of the look-up lies in the concatenated table; -1 where no such row is (mod, uneven parts)."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if strategy == "div":
        return list(range(ROWS))
    return [int(starts[i % parts] + i // parts) for i in range(ROWS)]


def _trained(table: np.ndarray) -> np.ndarray:
    table, seen = table.astype(np.float64), np.full_like(table, 0.1, np.float64)
    for _ in range(3):
        gradient = np.zeros_like(table)
        for row in IDS:
            for weight, i in zip((1.0, 2.0, 3.0), row):
                gradient[i] += 2 * weight * table[i]
        seen += gradient**2
        table -= 0.1 * gradient / np.sqrt(seen)
    return table


def test_min_max_partitioner() -> None:
    """As TensorFlow's: not below min_slice_size, not above max_partitions, not above the axis."""
    cut = tf.min_max_variable_partitioner(max_partitions=10, min_slice_size=1 << 10)
    for rows in (1, 8, 64, 10_000):
        expected = max(1, min(rows, 10, math.ceil(rows * 16 * 4 / 1024)))
        assert cut(shape=[rows, 16], dtype=tf.float32) == [expected, 1]
    assert tf.min_max_variable_partitioner(4, axis=1, min_slice_size=1)(shape=[2, 3], dtype=tf.string) == [1, 3]
    assert tf.min_max_variable_partitioner()(shape=[1 << 20], dtype=tf.float32) == [1]
    with pytest.raises(ValueError, match="must be positive"):
        tf.min_max_variable_partitioner(0)


def test_bytes_are_balanced_over_the_servers(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with setter(servers, ps_strategy=strategy):
        made = [tf.get_variable(f"v{i}", [n, 8]) for i, n in enumerate((100, 30, 30, 30, 20))]
        total = tf.add_n([tf.reduce_sum(v) for v in made])
    assert [v.device[-1] for v in made] == ["0", "1", "1", "1", "1"]
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        values = session.run(made)
        np.testing.assert_allclose(session.run(total), sum(v.sum() for v in values), rtol=1e-4)


def test_other_ops_may_live_on_the_servers_and_devices_merge(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    with setter(servers, ps_ops=["Variable", "VariableV2", "Add", "AddV2"]), tf.device("/cpu:0"):
        v = tf.Variable([1.0, 2.0])
        x = tf.placeholder(tf.float32, [2])
        y = x + v
        z = y * 2.0
    assert v.device == "/job:ps/task:0/device:CPU:0" and z.device == "/job:worker/task:0/device:CPU:0"
    assert y.device == "/job:ps/task:1/device:CPU:0", "what is in ps_ops takes its turn"
    with setter(servers, merge_devices=False), tf.device("/job:worker/task:0/cpu:0"):
        kept = tf.Variable(1.0)
    assert kept.device.startswith("/job:worker/task:0")
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(z, {x: [1.0, 1.0]}).tolist() == [4, 6]


def test_containers_are_shared_by_tasks_and_dropped_one_by_one(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=2)
    with tf.device("/job:ps/task:0"):
        with tf.container("experiment"):
            mine = tf.Variable(1.0, name="v")
        other = tf.Variable(2.0, name="w")
    bump = tf.assign_add(mine, 1.0)
    with tf.Session(servers["worker0"].target) as session:
        session.run([mine.initializer, other.initializer])
        session.run(bump)
    with tf.Session(servers["worker1"].target) as session:
        assert session.run([mine, other]) == [2, 2], "both workers see one container"
    tf.Session.reset(servers["worker1"].target, ["experiment"])
    with tf.Session(servers["worker0"].target) as session:
        assert session.run(other) == 2
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            session.run(mine)


@pytest.mark.parametrize("distinct", [False, True])
def test_an_index_out_of_range_names_what_the_user_wrote(cluster: Any, graph: Any, distinct: bool) -> None:
    """Look-ups and updates of several tables are one node by then, on either side of the wire."""
    servers = cluster(ps=1, worker=1)
    with tf.device("/job:ps/task:0"):
        tables = [tf.get_variable(f"t{i}", [10, 2]) for i in range(3)]
    ids = tf.placeholder(tf.int64, [3, 4])
    with tf.device("/job:worker/task:0"):
        rows = [tf.nn.embedding_lookup(table, ids[i]) for i, table in enumerate(tables)]
        loss = tf.add_n([tf.reduce_sum(tf.square(r)) for r in rows])
        grads = [(tf.IndexedSlices(tf.ones([4, 2]), ids[i]), table) for i, table in enumerate(tables)]
        update = tf.train.AdagradOptimizer(0.1).apply_gradients(grads)
        train = tf.train.AdagradOptimizer(0.1, name="Other").minimize(loss)
    bad = np.zeros([3, 4])
    bad[1, 2] = 12
    looked_up = "embedding_lookup_1"
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        for fetch, name in ((rows, looked_up), (train, looked_up)) if distinct else ((update, "t1"),):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"12 is not in \[0, 10\)") as caught:
                session.run(fetch, {ids: bad})
            assert name in str(caught.value) and "defined at" in str(caught.value)
            assert caught.value.op is not None and caught.value.op.name == caught.value.node_def.name
