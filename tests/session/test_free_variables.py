"""Variables that ask for no task, in a cluster: where the whole graph puts them, they stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

PS, WORKER = "/job:ps/task:1", "/job:worker/task:1"


def test_an_update_in_another_device_scope_moves_no_variable(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=2)
    v = tf.Variable(np.ones(3, np.float32))
    with tf.device(PS):
        add = tf.assign_add(v, 2 * v)
    with tf.device(WORKER):
        y = v + 1
    other = tf.assign_sub(v, [1.0, 1.0, 1.0])
    with tf.Session(servers["worker0"].target) as session:
        session.run(v.initializer)
        for fetch, expected in ((v, 1), (add, 3), (y, 4), (v, 3), (other, 2), (y, 3), (add, 6), (v, 6)):
            np.testing.assert_array_equal(session.run(fetch), np.full(3, expected))


def test_an_update_that_is_made_later_goes_where_the_variable_is(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    v = tf.Variable(5.0, use_resource=True)
    q = tf.FIFOQueue(4, [tf.float32])
    with tf.Session(servers["worker0"].target) as session:
        session.run(v.initializer)
        with tf.device(PS):
            add, put = tf.assign_add(v, 1.0), q.enqueue(v + 0.5)
        session.run(add)
        session.run(put)
        assert session.run([v, q.size()]) == [6, 1]
        with tf.device("/job:ps/task:0"):
            got = q.dequeue()
        assert session.run(got) == 6.5


def test_what_cannot_be_placed_troubles_only_its_own_run(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    with tf.device("/job:nowhere/task:0"):
        lost = tf.assign_add(w, 1.0)
    with tf.Session(servers["worker0"].target) as session:
        session.run(v.initializer)
        assert session.run(v) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="nowhere"):
            session.run(lost)
