"""A sharded Saver on two parameter servers: each writes what it holds, and all come back together or not at all."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.session.server import Server
from sparkflow_runtime.wire.errors import DataLossError


@pytest.fixture
def servers() -> Iterator[dict[str, Server]]:
    made = {
        f"{job}{i}": Server.bound(job, i, "127.0.0.1", b"secret") for job, i in (("ps", 0), ("ps", 1), ("worker", 0))
    }
    cluster = {"ps": [made["ps0"].address, made["ps1"].address], "worker": [made["worker0"].address]}
    for server in made.values():
        server.join_cluster(cluster)
    yield made
    for server in made.values():
        server.stop()


def test_save_train_on_and_restore(graph: Graph, servers: dict[str, Server], tmp_path: Path) -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        table = tf.get_variable("table", [9, 4], partitioner=tf.fixed_size_partitioner(2))
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(tf.gather(table, [1, 1, 8]) - 1.0))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, step)
        saver, init = tf.train.Saver(sharded=True), tf.global_variables_initializer()
    everything = tf.global_variables()
    assert {v.device for v in everything} == {"/job:ps/task:0", "/job:ps/task:1"}
    with tf.Session(servers["worker0"].target) as sess:
        sess.run(init)
        sess.run(train)
        before = sess.run(everything)
        prefix = saver.save(sess, str(tmp_path / "m"), step)
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "checkpoint",
            "m-1.data-00000-of-00002",
            "m-1.data-00001-of-00002",
            "m-1.index",
            "m-1.meta",
        ]
        sess.run(train)
        saver.restore(sess, prefix)
        for old, new in zip(before, sess.run(everything)):
            np.testing.assert_array_equal(old, new)
        sess.run(train)
        later = sess.run(everything)
        _damage(max(glob.glob(prefix + ".data-*")))
        with pytest.raises(DataLossError, match=r"m-1\.data-00001-of-00002: tensor"):
            saver.restore(sess, prefix)
        for old, new in zip(later, sess.run(everything)):
            np.testing.assert_array_equal(old, new)


def _damage(path: str) -> None:
    raw = bytearray(Path(path).read_bytes())
    raw[-1] ^= 1
    Path(path).write_bytes(raw)


@pytest.mark.parametrize("sharded", [False, True])
def test_nodes_wait_for_what_all_that_is_made_then_waits_for(graph: tf.Graph, tmp_path: Path, sharded: bool) -> None:
    """A library saves the values of assignments so, without making them before."""
    whole = tf.get_variable("whole", [], initializer=tf.zeros_initializer())
    split = tf.get_variable("split", [4], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2))
    assigned = [tf.assign(whole, 7.0), *[tf.assign(part, [1.0, 2.0]) for part in split]]
    with tf.control_dependencies(assigned):
        saver = tf.train.Saver(sharded=sharded)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"))
    assert tf.train.load_variable(path, "whole") == 7 and tf.train.load_variable(path, "split").tolist() == [1, 2, 1, 2]
