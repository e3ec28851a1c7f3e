"""Collectives between servers: groups that form, end and form anew; who is missing; the same bits on all."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops import collective
from sparkflow.session.server import Server
from sparkflow_runtime.outbox import Outbox
from sparkflow_runtime.resources import collectives, missing, rings
from sparkflow_runtime.resources.groups import Group, Request
from sparkflow_runtime.server import Server as RuntimeServer
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.worker.step import Step

WAIT_S = 30.0


@pytest.fixture
def workers() -> Iterator[Callable[[int], list[Server]]]:
    made: list[Server] = []

    def make(count: int) -> list[Server]:
        made.extend(Server.bound("worker", i, "127.0.0.1", b"secret") for i in range(count))
        for server in made:
            server.join_cluster({"worker": [s.address for s in made]})
        return made

    yield make
    for server in made:
        server.stop()


def each(
    servers: list[Server],
    build: Callable[[int], Any],
    steps: int = 1,
    timeout_s: float = WAIT_S,
    end: Callable[[Server], None] = lambda server: None,
) -> list[Any]:
    """Between-graph: every task builds its own graph and runs it in its own session; results or errors by rank.

    end: of each server, as soon as it has its result."""

    def one(rank: int) -> Any:
        config = tf.ConfigProto(operation_timeout_in_ms=int(timeout_s * 1000))
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            fetches = build(rank)
            with tf.Session(servers[rank].target, graph, config) as session:
                try:
                    return [session.run(fetches) for _ in range(steps)][-1]
                except tf.errors.OpError as error:
                    return error
                finally:
                    end(servers[rank])

    with ThreadPoolExecutor(len(servers)) as threads:
        return list(threads.map(one, range(len(servers))))


def together(servers: Sequence[Server]) -> Callable[[], Any]:
    """Makes an op that ends when all of them run theirs, and know the first task: what waits for it begins at once."""
    met = threading.Barrier(len(servers))
    for server in servers:
        server._runtime.channel("/job:worker/replica:0/task:0")  # type: ignore[union-attr]
    return lambda: tf.py_func(lambda: np.int32(met.wait(WAIT_S)), [], tf.int32)


def value(rank: int, shape: tuple[int, ...] = (1000,)) -> np.ndarray:
    return np.random.default_rng(rank).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("count", [2, 3])
def test_all_reduce_between_graphs(workers: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "CHUNK_BYTES", 1 << 12)
    servers = workers(count)
    results = each(servers, lambda rank: collective.all_reduce(value(rank, (5, 7000)), count, 1, 1), steps=3)
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    np.testing.assert_allclose(results[0], sum(value(r, (5, 7000)) for r in range(count)), rtol=1e-4, atol=1e-5)


def test_every_collective_at_once_in_any_order(workers: Any) -> None:
    """The ops of a step begin in another order on every task."""
    servers = workers(3)

    def build(rank: int) -> Any:
        sent = collective.broadcast_send if rank == 1 else collective.broadcast_recv
        ops = [
            lambda: collective.all_reduce(value(rank), 3, 1, 1, "Max"),
            lambda: collective.all_gather(np.full((rank + 1, 2), rank), 3, 1, 2),
            lambda: sent(*([value(9, (4, 4))] if rank == 1 else []), [4, 4], tf.float32, 3, 1, 3),
            lambda: collective.reduce_scatter(value(rank, (6, 2)), 3, 1, 4),
        ]
        made = {i: ops[i]() for i in np.random.default_rng(rank).permutation(4)}
        return [made[i] for i in range(4)]

    for rank, (largest, gathered, sent, scattered) in enumerate(each(servers, build, steps=5)):
        np.testing.assert_array_equal(largest, np.max([value(r) for r in range(3)], 0))
        assert gathered[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
        np.testing.assert_array_equal(sent, value(9, (4, 4)))
        whole = sum(value(r, (6, 2)) for r in range(3))
        np.testing.assert_allclose(scattered, whole[2 * rank : 2 * rank + 2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("timeout_s", [0.0, 20.0])
def test_what_many_at_once_cost_grows_with_their_number(
    workers: Any, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    """All that run were looked at after each of their messages: 3,000 took six times as long as they do."""
    servers, count, seen = workers(2), 400, []

    def build(rank: int) -> Any:
        return [collective.all_reduce(value(rank, (i % 5,)), 2, 1, i, timeout=timeout_s) for i in range(count)]

    each(servers, build)
    requests = Group.requests
    monkeypatch.setattr(Group, "requests", lambda self: seen.extend(found := requests(self)) or found)
    for found in each(servers, build):
        for i, summed in enumerate(found):
            np.testing.assert_allclose(summed, value(0, (i % 5,)) + value(1, (i % 5,)), rtol=1e-5)
    assert len(seen) < 4 * count, len(seen)


def test_in_one_graph(workers: Any) -> None:
    servers = workers(2)
    with tf.Graph().as_default() as graph:
        outs = []
        for rank in range(2):
            with tf.device(f"/job:worker/task:{rank}"):
                outs.append(collective.all_reduce(tf.constant(value(rank)) * 2, 2, 7, 1, "Add", "Div"))
        with tf.Session(servers[0].target, graph) as session:
            for _ in range(3):
                first, second = session.run(outs)
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(first, value(0) + value(1), rtol=1e-5, atol=1e-6)


def test_who_did_not_begin(workers: Any) -> None:
    """The group stands after the first step; then one task stays away."""
    servers = workers(3)
    first = threading.Barrier(3)

    def build(rank: int) -> Any:
        first.wait(WAIT_S)
        return [collective.all_reduce(value(rank), 3, 1, 1)]

    each(servers, build)

    def again(rank: int) -> Any:
        instance = 5 if rank == 1 else 1
        return [collective.all_reduce(value(rank), 3, 1, instance, timeout=0.5)]

    errors = each(servers, again)
    assert all(isinstance(e, tf.errors.DeadlineExceededError) for e in errors)
    said = " ".join(e.message for e in errors)
    assert "did not begin it" in said and "/job:worker/replica:0/task:1" in said


def test_who_cannot_be_dialled_keeps_nobody_from_answering(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped task answers no dial for ten seconds: meanwhile whoever dialled it was said to be missing as well."""
    servers = workers(3)
    each(servers, lambda rank: collective.all_reduce(value(rank), 3, 1, 1))
    last = servers[2]._runtime
    assert last.open_channel("/job:worker/replica:0/task:1") is None  # its data go to task 0
    dial = last._dial
    monkeypatch.setattr(last, "_dial", lambda *where: (time.sleep(5), dial(*where))[1])

    met = together(servers[::2])

    def again(rank: int) -> Any:
        if rank == 1:
            return tf.no_op()
        with tf.control_dependencies([met()]):
            return collective.all_reduce(value(rank), 3, 1, 1, timeout=1 - rank / 4)

    begun = time.monotonic()
    errors = each(servers, again)
    assert time.monotonic() - begun < 4.5 and errors[1] is None
    for error in (errors[0], errors[2]):
        assert isinstance(error, tf.errors.DeadlineExceededError)
        assert " s: /job:worker/replica:0/task:1 did not begin it" in error.message, error.message


def test_a_group_that_does_not_complete(workers: Any) -> None:
    servers = workers(3)
    met = together(servers[::2])

    def build(rank: int) -> Any:
        if rank == 1:
            return tf.no_op()
        with tf.control_dependencies([met()]):
            return collective.all_reduce(value(rank), 3, 1, 1, timeout=0.5)

    errors = each(servers, build)
    assert errors[1] is None
    for error in (errors[0], errors[2]):
        assert isinstance(error, tf.errors.DeadlineExceededError)
        assert "group of 3 is not complete: /job:worker/replica:0/task:1 did not join, " in error.message
        assert "/job:worker/replica:0/task:0, /job:worker/replica:0/task:2 did." in error.message
    results = each(servers, lambda rank: collective.all_reduce(value(rank), 3, 1, 1))
    assert all(isinstance(r, np.ndarray) for r in results), "the group forms when all ask for it"


def test_the_config_names_the_leader() -> None:
    config = tf.ConfigProto()
    config.experimental.collective_group_leader = "/job:worker/task:1"
    made = [RuntimeServer("worker", i, "127.0.0.1:0", b"secret", config=config) for i in range(2)]
    try:
        for server in made:
            server.join_cluster(ClusterSpec({"worker": [s.address for s in made]}))
        made[0].stop()  # who leads when nobody says
        with tf.Graph().as_default() as graph, tf.device("/job:worker/task:1"):
            out = collective.all_reduce(value(1), 1, 1, 1, timeout=5.0)
            with tf.Session(made[1].target, graph) as session:
                np.testing.assert_array_equal(session.run(out), value(1))
    finally:
        for server in made:
            server.stop()


@contextmanager
def kept(servers: Sequence[Server]) -> Iterator[None]:
    """The ports of servers that are stopped: one of another process's tests may come to listen there."""
    with ExitStack() as stack:
        for server in servers:
            held, (host, _, port) = stack.enter_context(socket.socket()), server.address.rpartition(":")
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, int(port)))
        yield


def test_a_leader_that_is_not_there(workers: Any) -> None:
    servers = workers(2)
    servers[0].stop()

    def build(rank: int) -> Any:
        return tf.no_op() if rank == 0 else collective.all_reduce(value(rank), 2, 1, 1, timeout=0.7)

    with tf.Graph().as_default() as graph, tf.device("/job:worker/task:1"):
        out = build(1)
        says = "task:0, which forms it, does not answer"
        with (
            kept(servers[:1]),
            tf.Session(servers[1].target, graph) as session,
            pytest.raises(tf.errors.OpError, match=says) as error,
        ):
            session.run(out)
    assert isinstance(error.value, tf.errors.DeadlineExceededError)


def test_a_leader_that_does_not_come_back(workers: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """It is lost while the group forms: a collective without a deadline ends, too, and says whom it lacked."""
    monkeypatch.setattr(collectives, "_LEADER_S", 1.0)
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.2")
    servers = workers(3)
    threading.Timer(0.5, servers[0].stop).start()

    def build(rank: int) -> Any:
        return tf.no_op() if rank == 0 else collective.all_reduce(value(rank), 3, 1, 1)

    errors = each(servers, build)
    assert errors[0] is None
    leader = "/job:worker/replica:0/task:0"
    for error in errors[1:]:
        assert isinstance(error, tf.errors.UnavailableError)
        assert f"{leader}, which forms the groups, could not be reached for 1 s" in error.message
    assert any(f"the group of 3 is not complete; {leader} forms it" in text for text in caplog.messages)


@pytest.mark.parametrize("left", [1, 2])
def test_members_that_have_ended_are_not_waited_for_without_end(
    workers: Any, monkeypatch: pytest.MonkeyPatch, left: int, caplog: Any
) -> None:
    """A worker that starts anew when all others are done, or some: its collective, without a deadline, names them."""
    monkeypatch.setattr(missing, "LATE_S", 0.5)
    servers = workers(3)
    met = together(servers[:left])
    for server in servers[left:]:
        server.stop()

    def build(rank: int) -> Any:
        with tf.control_dependencies([met()]):
            return collective.all_reduce(value(rank), 3, 1, 1)

    with kept(servers[left:]):
        errors = each(servers[:left], build)
    gone = ", ".join(f"/job:worker/replica:0/task:{rank}" for rank in range(left, 3))
    for error in errors:
        assert isinstance(error, tf.errors.UnavailableError)
        assert f"the group of 3 is not complete: {gone} did not join, /job:worker/replica:0/task:0" in error.message
        assert "for 0.5 s nobody answers there" in error.message
    warned = [text for text in caplog.messages if f"{gone} did not join" in text and "waited for, for 0.5 s" in text]
    assert len(warned) == 1, "as soon as they are looked for, and not at each look"


def test_a_member_that_is_there_is_waited_for(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes until it asks; nor does one count that the group can do without."""
    monkeypatch.setattr(missing, "LATE_S", 0.2)
    servers = workers(3)
    looked: list[Any] = []
    found = missing.Missing.found

    def seen(self: Any, key: int, away: Any) -> None:
        found(self, key, away)
        looked.append(away)

    monkeypatch.setattr(missing.Missing, "found", seen)
    servers[2].stop()

    def build(rank: int) -> Any:
        while rank and len(looked) < 8:
            time.sleep(0.01)
        return collective.all_reduce(value(rank), 2, 1, 1)

    with kept(servers[2:]):
        results = each(servers[:2], build)
    assert all(isinstance(r, np.ndarray) for r in results)
    assert {*looked[0]} == {"/job:worker/replica:0/task:2"}


def test_a_slow_ring_says_in_the_log_for_whom_it_waits(
    workers: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("SPARKFLOW_SLOW_STEP_S", "0.2")
    servers = workers(2)
    each(servers, lambda rank: collective.all_reduce(value(rank), 2, 1, 1))

    def slowly() -> Any:
        time.sleep(0.6)
        return value(1)

    def build(rank: int) -> Any:
        x = tf.py_func(slowly, [], tf.float32) if rank else value(0)
        return collective.all_reduce(tf.reshape(x, [1000]), 2, 1, 1)

    assert all(isinstance(found, np.ndarray) for found in each(servers, build))
    neighbour = "/job:worker/replica:0/task:1"
    assert any(f"waits for data of {neighbour}, of /job:worker" in text for text in caplog.messages)


def test_a_lost_task_ends_it_for_all_others(workers: Any) -> None:
    servers = workers(3)
    each(servers, lambda rank: collective.all_reduce(value(rank), 3, 1, 1))
    begun = threading.Event()

    def build(rank: int) -> Any:
        if rank == 2:
            threading.Timer(0.3, lambda: (begun.set(), servers[2].stop())).start()
            return tf.no_op()
        return collective.all_reduce(value(rank), 3, 1, 1)

    errors = each(servers, build)
    assert begun.is_set() and errors[2] is None
    for error in errors[:2]:
        assert isinstance(error, tf.errors.UnavailableError), error
        assert "task:2" in error.message


def test_a_task_that_stops_after_its_last_step_takes_it_from_nobody(workers: Any) -> None:
    for _ in range(5):
        servers = workers(3)
        made = servers[-3:]
        for server in made:
            server.join_cluster({"worker": [s.address for s in made]})
        for found in each(
            made, lambda rank: collective.all_reduce(value(rank, (100_000,)), 3, 1, 1), 2, end=Server.stop
        ):
            np.testing.assert_allclose(found, sum(value(r, (100_000,)) for r in range(3)), rtol=1e-4, atol=1e-5)
        servers.clear()


CHILD = """
import sys, numpy as np, sparkflow as tf
from sparkflow.ops import collective
from sparkflow.session.server import Server
server = Server.bound("worker", 1, "127.0.0.1", b"secret")
print(server.address, flush=True)
server.join_cluster({"worker": [sys.stdin.readline().strip(), server.address]})
with tf.device("/job:worker/task:1"):
    out = collective.all_reduce(tf.ones([1 << 20]), 2, 1, 1).op
with tf.Session(server.target) as session:
    while True:
        session.run(out)
        print("step", flush=True)
"""


def test_a_worker_that_is_killed_is_named(workers: Any) -> None:
    [server] = workers(1)
    command, peer = [sys.executable, "-c", CHILD], "/job:worker/replica:0/task:1"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdin is not None and child.stdout is not None
            server.join_cluster({"worker": [server.address, child.stdout.readline().strip()]})
            print(server.address, file=child.stdin, flush=True)
            with tf.Graph().as_default() as graph, tf.device("/job:worker/task:0"):
                out = collective.all_reduce(tf.ones([1 << 20]), 2, 1, 1)
                with tf.Session(server.target, graph) as session:
                    for _ in range(5):
                        assert (session.run(out) == 2).all()
                    child.stdout.readline()
                    child.kill()
                    with pytest.raises(tf.errors.OpError) as error:
                        while True:
                            session.run(out)
            assert isinstance(error.value, tf.errors.UnavailableError)
            # lost in a step, while it sent or waited, or found missing at the beginning of the next
            said = error.value.message
            assert f"lost {peer}" in said or f"{peer} is not there" in said, said
        finally:
            child.kill()


def test_a_neighbour_that_takes_no_data_is_named(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = workers(2)
    assert not isinstance(each(servers, lambda rank: collective.all_reduce(value(rank), 2, 1, 1))[0], Exception)
    held = servers[0]._runtime._collectives
    push = held._push

    def broken(task: str, meta: bytes, tensors: Any) -> None:
        if len(tensors):
            raise tf.errors.UnavailableError(None, None, "Broken pipe")
        push(task, meta, tensors)

    monkeypatch.setattr(held, "_push", broken)
    error, other = each(servers, lambda rank: collective.all_reduce(value(rank), 2, 1, 2), timeout_s=3.0)
    assert isinstance(error, tf.errors.UnavailableError)
    assert "lost /job:worker/replica:0/task:1: Broken pipe" in error.message
    assert isinstance(other, tf.errors.OpError)  # told, or too late for that: it waits then


def test_a_failed_step_aborts_the_others_and_the_group_forms_anew(workers: Any) -> None:
    servers = workers(2)

    def build(rank: int) -> Any:
        first = collective.all_reduce(value(rank), 2, 1, 1)
        with tf.control_dependencies([first]):
            if rank == 1:
                return tf.reshape(tf.constant(value(rank)), tf.cast(first[:2], tf.int32))  # of no such shape
            return collective.all_reduce(value(rank), 2, 1, 2)

    errors = each(servers, lambda rank: collective.all_reduce(np.zeros(3 + rank), 2, 1, 1))
    assert all(isinstance(e, tf.errors.InvalidArgumentError) for e in errors)
    assert all("float64 [3] here" in e.message or "float64 [4] here" in e.message for e in errors)
    for timeout_s in (0.5, WAIT_S):  # a step cancelled by its deadline takes the group with it

        def late(rank: int, timeout_s: float = timeout_s) -> Any:
            if rank == 1 and timeout_s < 1:
                return tf.no_op()
            return collective.all_reduce(value(rank), 2, 1, 1)

        results = each(servers, late, timeout_s=timeout_s)
        if timeout_s < 1:
            assert isinstance(results[0], tf.errors.DeadlineExceededError)
        else:
            assert results[0].tobytes() == results[1].tobytes()


def test_a_step_that_fails_between_two_collectives_is_told(workers: Any) -> None:
    """Else the others would wait for what a program that goes on never begins. They go on with it, too."""
    servers, met = workers(3), threading.Barrier(3)

    def one(rank: int) -> list[Any]:
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            limit = tf.placeholder(tf.float32, [])
            first = collective.all_reduce(tf.ones([3]), 3, 1, 1)
            with tf.control_dependencies([tf.debugging.assert_less(first, limit, message="too much")]):
                second = collective.all_reduce(first * 2, 3, 1, 2)
            told = []
            with tf.Session(servers[rank].target, graph) as session:
                for step in range(4):
                    met.wait(WAIT_S)
                    try:
                        told.append(session.run(second, {limit: 1.0 if step in (1, 2) and rank == 1 else 9.0})[0])
                    except tf.errors.OpError as error:
                        told.append(error)
        return told

    with ThreadPoolExecutor(3) as threads:
        for rank, (good, bad, again, last) in enumerate(threads.map(one, range(3), timeout=WAIT_S)):
            assert (good, last) == (18.0, 18.0)
            for error in (bad, again):
                assert isinstance(error, tf.errors.InvalidArgumentError if rank == 1 else tf.errors.AbortedError)
                assert "too much" in str(error)
                assert rank == 1 or "a step of /job:worker/replica:0/task:1 failed before" in str(error)


def test_a_step_that_fails_before_or_after_its_collectives_is_nobody_else_s(workers: Any) -> None:
    """The others wait for the member's next step, or have all they need."""
    servers = workers(2)

    def one(rank: int) -> list[Any]:
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            before, after = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
            with tf.control_dependencies([tf.debugging.assert_less(before, 1.0)]):
                value = tf.ones([2])
            total = collective.all_reduce(collective.all_reduce(value, 2, 1, 1), 2, 1, 2)
            with tf.control_dependencies([tf.debugging.assert_less(total, after)]):
                result = tf.identity(total)
            told: list[Any] = []
            with tf.Session(servers[rank].target, graph) as session:
                for first, last in [(0.0, 9.0), (2.0, 9.0), (0.0, 9.0), (0.0, 3.0), (0.0, 9.0)]:
                    if first > 1 and rank == 0:
                        continue
                    try:
                        told.append(session.run(result, {before: first, after: last if rank else 9.0})[0])
                    except tf.errors.InvalidArgumentError:
                        told.append("failed")
        return told

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(one, range(2), timeout=WAIT_S)
    assert first == [4.0] * 4
    assert second == [4.0, "failed", 4.0, "failed", 4.0]


def test_sizes_of_groups_that_differ(workers: Any) -> None:
    servers = workers(3)
    errors = each(servers, lambda rank: collective.all_reduce(value(rank), 2 + rank % 2, 1, 1, timeout=5))
    assert any(isinstance(e, tf.errors.InvalidArgumentError) and "group" in e.message for e in errors)


def test_a_session_without_a_cluster() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = collective.all_reduce(value(0), 1, 1, 1, "Add", "Div")
        np.testing.assert_array_equal(session.run(x), value(0))
        with pytest.raises(tf.errors.InvalidArgumentError, match="group_size 2, and there is one task"):
            session.run(collective.all_reduce(value(0), 2, 3, 1))


def test_static_shapes_and_refusals() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 4])
        assert collective.all_reduce(x, 2, 1, 1).shape.as_list() == [None, 4]
        assert collective.all_gather(x, 2, 1, 1).shape.as_list() == [None, 4]
        assert collective.all_gather(tf.zeros([3, 4]), 2, 1, 1).shape.as_list() == [6, 4]
        assert collective.reduce_scatter(tf.zeros([6, 4]), 2, 1, 1).shape.as_list() == [3, 4]
        assert collective.broadcast_recv([2, 3], tf.int32, 2, 1, 1).shape.as_list() == [2, 3]
        with pytest.raises(tf.errors.InvalidArgumentError, match="merge_op 'Sum'"):
            collective.all_reduce(x, 2, 1, 1, "Sum")
        with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
            collective.all_gather(1.0, 2, 1, 1)


@pytest.mark.parametrize("ended", [True, False])
def test_what_begins_as_its_task_stops_is_refused(ended: bool) -> None:
    """Its thread has ended, or is about to."""
    told: list[Any] = []
    own = collectives.Collectives("/job:worker/task:0")
    own._put(lambda: None)
    thread = own._events.thread
    assert thread is not None
    if ended:
        own.close()
        thread.join(20)
    request = Request("r", 1, 2, 1, lambda place, send: None, lambda *result: told.append(result))  # type: ignore[arg-type, return-value]
    own.start(request)
    own.close()
    until = time.monotonic() + 20
    while own._events.running and time.monotonic() < until:
        time.sleep(0.001)
    assert not own._events.running and [type(error) for error, _ in told] == [tf.errors.CancelledError]


def test_a_group_is_described_as_it_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another thread, between any two steps of it."""
    seen: list[str] = []

    class Watched(Group):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if "away_since" in self.__dict__:  # the last to be there
                seen.append(self.waits(request, [], []))

    own = collectives.Collectives("/job:worker/task:0")
    request = Request("r", 1, 2, 1, lambda place, send: None, lambda *result: None)  # type: ignore[arg-type, return-value]
    own._groups.current[1] = Watched(1, 2, 7, "/job:worker/task:0")
    members = {"/job:worker/task:0": 7, "/job:worker/task:1": 8}
    own._formed("/job:worker/task:0", {"group": 1, "generation": 5, "members": members})
    assert "waits for data of /job:worker/task:1" in seen[-1]


@pytest.mark.parametrize("begun", [1, 2, 3])
def test_ctrl_c_before_a_collective_begins_is_told(workers: Any, begun: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be it the step's last one: the others would wait for it, and this member for their first."""
    servers, real, starts = workers(2), collectives.Collectives.start, [0]

    def start(own: collectives.Collectives, request: Request) -> Any:
        if own.name.endswith("1"):
            starts[0] += 1
            if starts[0] == 3 + begun:
                raise KeyboardInterrupt
        return real(own, request)

    monkeypatch.setattr(collectives.Collectives, "start", start)

    def one(rank: int) -> list[Any]:
        with tf.Graph().as_default() as graph, tf.device(f"/job:worker/task:{rank}"):
            total = tf.ones([3])
            for instance in range(3):
                total = collective.all_reduce(total, 2, 1, instance, timeout=20)
            told: list[Any] = []
            with tf.Session(servers[rank].target, graph) as session:
                while len(told) < 4:
                    try:
                        told.append(session.run(total)[0])
                    except (tf.errors.AbortedError, KeyboardInterrupt) as error:
                        told.append(type(error))
        return told

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(one, range(2), timeout=WAIT_S)
    assert first == [8.0, tf.errors.AbortedError, 8.0, 8.0]
    assert second == [8.0, KeyboardInterrupt, 8.0, 8.0]


def test_a_program_s_thread_does_not_wait_for_a_member_to_read(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it began goes on from it: to one that is stopped, maybe, and the step has a deadline."""
    servers, shape, waited = workers(3), (3 << 20,), set[str]()

    class Noted(Outbox):
        def push(self, *arguments: Any) -> None:
            if arguments[-1]:
                waited.add(threading.current_thread().name)
            super().push(*arguments)

    def build(rank: int) -> Any:
        formed = collective.all_reduce(tf.ones([3]), 3, 1, 1)
        with tf.control_dependencies([formed, *([tf.py_func(late, [], tf.int32)] if rank == 1 else ())]):
            x = tf.ones(shape)
        if rank == 0:
            return collective.broadcast_send(x, shape, tf.float32, 3, 1, 2)[:3]
        with tf.control_dependencies([x]):
            return collective.broadcast_recv(shape, tf.float32, 3, 1, 2)[:3]

    def late() -> np.int32:
        """When chunks have come."""
        known, end = servers[1]._runtime._collectives._groups, time.monotonic() + WAIT_S
        while not known.current[1].early and time.monotonic() < end:
            time.sleep(0.01)
        return np.int32(0)

    for server in servers:
        monkeypatch.setattr(server._runtime.outbox, "__class__", Noted)
    assert all(np.all(result == 1) for result in each(servers, build))
    assert waited and all(name.startswith("sparkflow-rings") for name in waited)


def test_ctrl_c_as_a_wait_gives_up_its_lock_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `with` around it ends a lock that nobody holds, and says so instead."""

    def interrupted(step: Step, timeout_s: float | None) -> None:
        with step._lock:
            step._wake._release_save()  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(1, [tf.int32])
        item = queue.dequeue()
        with monkeypatch.context() as patch:
            patch.setattr(Step, "_run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.run(item)
        session.run(queue.enqueue(3))
        assert session.run(item) == 3
