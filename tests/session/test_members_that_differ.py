"""Collectives whose members run different programs: all are told so, and nobody gets a wrong value."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import experimental
from sparkflow.ops import collective
from sparkflow_runtime.kernels.compression import from_bfloat16, from_float16
from tests.session.test_collectives import each, value, workers  # noqa: F401 - a fixture


def _carried(rank: int) -> Any:
    with experimental.carried_as("bfloat16" if rank else "float32"):
        return collective.all_reduce(value(rank), 3, 1, 1)


@pytest.mark.parametrize("build, said", [
    (lambda rank: collective.all_gather(value(rank, (3, 2 + rank)), 3, 1, 1), r"all-gather of float32 \[any, 4\]"),
    (lambda rank: collective.all_reduce(value(0), 3, 1, 1, ["Add", "Mul", "Mul"][rank]), r"\(Mul, Id\)"),
    (lambda rank: collective.all_reduce(value(0), 3, 1, 1, "Add", ["Div", "Id", "Id"][rank]), r"\(Add, Div\)"),
    (lambda rank: collective.all_reduce(value(0, (5, 2) if rank else (2, 5)), 3, 1, 1), r"float32 \[2, 5\]"),
    (_carried, "as bfloat16"),
])  # fmt: skip
def test_what_sizes_do_not_tell(workers: Any, build: Any, said: str) -> None:  # noqa: F811
    errors = each(workers(3), build)
    assert all(isinstance(e, tf.errors.InvalidArgumentError) for e in errors), errors
    assert all("The members' programs differ: " in e.message for e in errors)
    assert any(re.search(said, e.message) for e in errors)


def test_two_sources_of_a_broadcast(workers: Any) -> None:  # noqa: F811
    """Each has its own value at once; the next collective of each hears of it, and then the group forms anew."""
    servers = workers(2)

    def one(rank: int) -> Any:
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            send = collective.broadcast_send(value(rank), [1000], tf.float32, 2, 1, 1)
            add = collective.all_reduce(value(rank), 2, 1, 2)
            with tf.Session(servers[rank].target, graph, tf.ConfigProto(operation_timeout_in_ms=30_000)) as session:
                session.run(send)
                with pytest.raises(tf.errors.InvalidArgumentError, match="one of them alone may be the source"):
                    session.run(add)
                return session.run(add)

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(one, range(2))
    np.testing.assert_array_equal(first, value(0) + value(1))
    assert first.tobytes() == second.tobytes()


def test_the_deadline_of_a_step_says_for_whom_its_ring_waits(workers: Any) -> None:  # noqa: F811
    servers, built = workers(3), threading.Barrier(3)

    def build(rank: int) -> Any:
        made = tf.constant(0) if rank == 1 else collective.all_reduce(value(rank), 3, 1, 1)
        built.wait(20)  # the two are to join well before the deadline of either
        return made

    ring = each(servers, build, timeout_s=1)
    assert ring[1] == 0
    for error in (ring[0], ring[2]):
        assert isinstance(error, tf.errors.DeadlineExceededError)
        assert "not done in 1 s" in str(error) and "the group of 3 is not complete" in str(error)
    assert "task:1 did not join" in str(ring[0]), "the leader knows who is missing"


def test_a_group_that_could_never_be_complete(workers: Any) -> None:  # noqa: F811
    for error in each(workers(3), lambda rank: collective.all_reduce(value(rank), 4, 1, 1)):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "group_size 4, and there are 3 tasks at all" in error.message


@pytest.mark.parametrize("widen", [from_bfloat16, from_float16])
def test_only_what_was_narrowed_is_widened(widen: Any) -> None:
    """The loops write as many numbers as 16 bits fit into what they are given."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="float32 travels there"):
        widen(np.zeros(10, np.float32))
