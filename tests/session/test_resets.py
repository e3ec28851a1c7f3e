"""Tasks that are reset while steps wait there."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import sparkflow as tf

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def _accumulated() -> Any:
    return tf.ConditionalAccumulator(tf.float32, [], shared_name="given").take_grad(1)


def _dequeued() -> Any:
    return tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="items").dequeue()


def _enqueued() -> Any:
    return tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name="full").enqueue_many([[1.0, 2.0]])


@pytest.mark.parametrize("containers", [None, ["box"]])
@pytest.mark.parametrize("wait", [_dequeued, _enqueued, _accumulated])
@pytest.mark.parametrize("at", [PS, WORKER])
def test_who_waits_is_told_of_no_end_of_data(
    cluster: Any, graph: Any, at: str, wait: Callable[[], Any], containers: Any
) -> None:
    """A queue that closes, as it is dropped, tells a training that it has seen all rows; an accumulator, nothing."""
    servers = cluster(ps=1, worker=2)
    with tf.device(at), tf.container("box"):
        waiting = wait()
    with tf.Session(servers["worker0"].target) as session, ThreadPoolExecutor(1) as pool:
        step = pool.submit(session.run, waiting)
        while not servers["ps0" if at == PS else "worker0"]._runtime.worker.rendezvous._steps:
            time.sleep(0.01)
        tf.Session.reset(servers["worker1"].target, containers)
        with pytest.raises(tf.errors.CancelledError, match="was reset, which ended this session"):
            step.result(10)
        with pytest.raises(tf.errors.AbortedError):
            session.run(waiting)


@pytest.mark.parametrize("containers", ["box", 3, [3], b"box"])
def test_containers_that_are_no_list_of_names(containers: Any) -> None:
    """Of a text each letter would be one, and nothing dropped."""
    with pytest.raises(TypeError, match="containers must be a list of their names, got"):
        tf.Session.reset("grpc://localhost:1", containers)


def test_nobody_is_waited_for_longer_than_asked() -> None:
    config = tf.ConfigProto(operation_timeout_in_ms=50)
    with pytest.raises(tf.errors.UnavailableError, match=r"no Server answers after 0\.05 s"):
        tf.Session.reset("grpc://localhost:1", config=config)
