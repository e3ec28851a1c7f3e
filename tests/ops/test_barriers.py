"""Barriers: elements that become complete component by component."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.ops.barriers import Barrier

FIRST = -(2**63)
PS = "/job:ps/task:0"


class Pairs:
    """A barrier of (float32 [], string [2]); its nodes take keys by feeds."""

    def __init__(self, **options: Any):
        self.barrier = Barrier((tf.float32, tf.string), ((), (2,)), name="pairs", **options)
        self.keys = tf.placeholder(tf.string, [None])
        numbers = tf.strings.to_number(tf.strings.substr(self.keys, 1, 9))
        self.numbers = self.barrier.insert_many(0, self.keys, numbers)
        self.texts = self.barrier.insert_many(1, self.keys, tf.stack([self.keys, self.keys], 1))
        self.close, self.cancel = self.barrier.close(), self.barrier.close(cancel_pending_enqueues=True)
        self.sizes = [self.barrier.ready_size(), self.barrier.incomplete_size()]

    def put(self, session: Any, what: Any, *keys: str) -> list[int]:
        """The sizes afterwards."""
        session.run(what, {self.keys: keys})
        return [int(n) for n in session.run(self.sizes)]


@pytest.fixture
def pairs(graph: Graph) -> Pairs:
    return Pairs()


def waits(session: Any) -> None:
    """Until a take of it is in the queue's line."""
    resources = session._runtime._worker.resources._containers
    while not any(getattr(r, "_ready", None) and r._ready._gets for held in resources.values() for r in held.values()):
        time.sleep(0.005)


def test_elements_come_in_the_order_of_their_first_insertion(pairs: Pairs) -> None:
    taken = pairs.barrier.take_many(3)
    assert [t.shape.as_list() for t in (taken.indices, taken.keys, *taken.values)] == [[3], [3], [3], [3, 2]]
    with tf.Session() as session:
        assert pairs.put(session, pairs.numbers, "k1", "k2") == [0, 2]
        assert pairs.put(session, pairs.numbers, "k3") == [0, 3]
        assert pairs.put(session, pairs.texts, "k3", "k2") == [2, 1]
        assert pairs.put(session, pairs.texts, "k1") == [3, 0]
        found = session.run(taken)
    assert found.indices.tolist() == [FIRST, FIRST, FIRST + 1] and found.keys.tolist() == [b"k2", b"k1", b"k3"]
    np.testing.assert_array_equal(found.values[0], np.array([2, 1, 3], np.float32))
    assert found.values[1].tolist() == [[b"k2"] * 2, [b"k1"] * 2, [b"k3"] * 2]


def test_what_is_not_taken(pairs: Pairs) -> None:
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="Key b'k1' already has a value for component 0"):
            pairs.put(session, pairs.numbers, "k1", "k1")
        assert pairs.put(session, pairs.texts) == [0, 1], "the first of them is there"
        for shape, message in ((2, "keys must be .n. and values .n, ...., got shapes .1,. and .2,"), ((1, 1), "shape")):
            insert = pairs.barrier.insert_many(0, ["k9"], tf.ones(shape))
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(insert)
        of_none = tf.raw_ops.BarrierInsertMany(
            handle=pairs.barrier.barrier_ref, keys=["a"], values=[1.0], component_index=2
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match="has 2 components, and none of number 2"):
            session.run(of_none)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Timeout not supported yet"):
            session.run(pairs.barrier.take_many(1, timeout=5))
        with pytest.raises(tf.errors.InvalidArgumentError, match="cannot take -1 elements"):
            session.run(pairs.barrier.take_many(-1))


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "All of the component shapes must be specified"),
        ({"shapes": [[2]], "capacity": 3}, "only accepts capacity=-1, got 3"),
    ],
)
def test_how_it_may_not_be_made(graph: Graph, options: dict[str, Any], message: str) -> None:
    made = tf.raw_ops.Barrier(component_types=[tf.float32], **options)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(tf.raw_ops.BarrierReadySize(handle=made))
    with pytest.raises(ValueError, match="All shapes must be fully defined"):
        Barrier(tf.float32, shapes=[[None]])


def test_a_closed_one_is_completed(pairs: Pairs) -> None:
    one, rest = pairs.barrier.take_many(1), pairs.barrier.take_many(9, allow_small_batch=True)
    with tf.Session() as session:
        pairs.put(session, pairs.numbers, "k1", "k2", "k3")
        session.run(pairs.close)
        with pytest.raises(tf.errors.CancelledError, match="attempted to insert a brand new key: b'k4'"):
            pairs.put(session, pairs.numbers, "k4")
        with pytest.raises(tf.errors.CancelledError, match="Barrier 'pairs' is already closed"):
            session.run(pairs.close)
        pairs.put(session, pairs.texts, "k1", "k2")
        assert session.run(rest).keys.tolist() == [b"k1", b"k2"]
        pairs.put(session, pairs.texts, "k3")
        assert session.run(one).keys.tolist() == [b"k3"]
        with pytest.raises(tf.errors.OutOfRangeError, match=r"insufficient elements \(requested 1, total size 0\)"):
            session.run(one)
        with pytest.raises(tf.errors.CancelledError, match="Number of incomplete keys: 0"):
            pairs.put(session, pairs.texts, "k3")


@pytest.mark.parametrize("how", ["completed", "closed", "cancelled"])
def test_who_waits(pairs: Pairs, how: str) -> None:
    one = pairs.barrier.take_many(1)
    with tf.Session() as session, ThreadPoolExecutor(1) as pool:
        pairs.put(session, pairs.numbers, "k1")
        taken = pool.submit(session.run, one)
        waits(session)
        if how == "completed":
            pairs.put(session, pairs.texts, "k1")
            assert taken.result(20).keys.tolist() == [b"k1"]
            return
        session.run(pairs.cancel if how == "cancelled" else pairs.close)
        if how == "closed":
            pairs.put(session, pairs.texts, "k1")
            assert taken.result(20).keys.tolist() == [b"k1"]
        else:
            with pytest.raises(tf.errors.OutOfRangeError):
                taken.result(20)


def test_a_deadline_says_what_is_missing(pairs: Pairs) -> None:
    one, options = pairs.barrier.take_many(1), tf.RunOptions(timeout_in_ms=100)
    with tf.Session() as session:
        pairs.put(session, pairs.numbers, "k1", "k2")
        message = r"Barrier 'pairs' has 2 incomplete keys, of which b'k1' lacks components \[1\]"
        with pytest.raises(tf.errors.DeadlineExceededError, match=message):
            session.run(one, options=options)
        pairs.put(session, pairs.texts, "k2")
        assert session.run(one).keys.tolist() == [b"k2"], "who gave up has taken nothing"


def test_two_sessions_share_one_on_a_server(cluster: Any, graph: Graph) -> None:
    servers = cluster(ps=1, worker=2)
    with tf.device(PS):
        pairs = Pairs(shared_name="shared")
    two = pairs.barrier.take_many(2)
    with tf.Session(servers["worker0"].target) as a, tf.Session(servers["worker1"].target) as b:
        pairs.put(a, pairs.numbers, "k1", "k2")
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(a.run, two)
            assert pairs.put(b, pairs.texts, "k2")[1] == 1
            pairs.put(b, pairs.texts, "k1")
            assert taken.result(20).keys.tolist() == [b"k2", b"k1"]
        tf.Session.reset(servers["worker0"].target)
    with tf.Session(servers["worker0"].target) as session:
        assert pairs.put(session, pairs.numbers) == [0, 0]


def test_outputs_of_raw_ops_by_name(pairs: Pairs) -> None:
    """One that is a list is one."""
    taken = tf.raw_ops.BarrierTakeMany(
        handle=pairs.barrier.barrier_ref, num_elements=1, component_types=[tf.float32, tf.string]
    )
    assert [t.dtype for t in taken.values] == [tf.float32, tf.string] and taken.keys.shape.as_list() == [1]
