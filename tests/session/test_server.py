"""tf.train.Server: how one is described, started and found."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.dialling import near_url
from sparkflow_runtime.remote_session import RemoteSession
from sparkflow_runtime.server import Server as RuntimeServer
from sparkflow_runtime.transport.base import dial
from sparkflow_runtime.wire import tasks
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import DeadlineExceededError, OpError
from sparkflow_runtime.wire.server_def import ServerDef


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def stopped() -> Iterator[list[tf.train.Server]]:
    made: list[tf.train.Server] = []
    yield made
    for server in made:
        server.stop()


def answers(server: tf.train.Server) -> bool:
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        return bool(session.run(tf.constant(2.0) + 1.0) == 3)


def test_a_local_server(stopped: Any) -> None:
    server = tf.train.Server.create_local_server()
    stopped.append(server)
    assert answers(server) and not server.target.endswith(":0")
    told = server.server_def
    assert (told.job_name, told.task_index, told.protocol) == ("localhost", 0, "grpc")
    assert tf.train.ClusterSpec(told.cluster).task_address("localhost", 0) == server.address


def test_a_server_of_a_server_def(stopped: Any) -> None:
    described = ServerDef(job_name="worker", task_index=3, protocol="grpc")
    described.cluster.job.add(name="worker", tasks={3: free_address()})
    described.default_session_config.operation_timeout_in_ms = 100
    server = tf.train.Server(described)
    stopped.append(server)
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        assert [d.name for d in session.list_devices()] == ["/job:worker/replica:0/task:3/device:CPU:0"]
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(tf.FIFOQueue(1, [tf.float32]).dequeue())
    assert ServerDef.FromString(server.server_def.SerializeToString()) == described


@pytest.mark.parametrize("spell", ["localhost:{}", "127.0.0.1:{}"])
def test_a_server_is_found_under_each_spelling_of_its_host(stopped: Any, spell: str) -> None:
    port = free_address().rpartition(":")[2]
    server = tf.train.Server({"worker": [spell.format(port)]})
    stopped.append(server)
    assert answers(server)
    for target in (f"grpc://localhost:{port}", f"sparkflow://127.0.0.1:{port}"):
        with tf.Graph().as_default(), tf.Session(target) as session:
            assert session.run(tf.constant(1.0)) == 1
            assert type(session._runtime).__name__ == "RuntimeSession", "no socket within a process"


def test_a_server_that_starts_later(stopped: Any) -> None:
    address = free_address()
    server = tf.train.Server({"worker": [address]}, start=False)
    stopped.append(server)
    assert server.target == f"sparkflow://{address}"
    with pytest.raises(tf.errors.FailedPreconditionError, match="is not started"):
        server.join()
    server.start()
    server.start()
    assert answers(server)
    joined = threading.Thread(target=server.join)
    joined.start()
    server.stop()
    joined.join(10)
    assert not joined.is_alive()
    unbound = tf.train.Server({"worker": ["localhost:0"]}, start=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="free port"):
        unbound.target.upper()


def test_tasks_with_holes_between_their_indices(stopped: Any) -> None:
    addresses = {0: free_address(), 7: free_address()}
    for index in addresses:
        stopped.append(tf.train.Server({"worker": addresses}, "worker", index))
    with tf.Graph().as_default(), tf.device("/job:worker/task:7/cpu:0"):
        x = tf.placeholder_with_default(1.0, [])
        y = x + 1.0
        with tf.Session(stopped[0].target) as session:
            assert session.run(y) == 2


def test_servers_say_what_is_missing_in_one_tensor_each(stopped: Any) -> None:
    cluster = {"ps": [free_address(), free_address()], "worker": [free_address()]}
    stopped += [tf.train.Server(cluster, "ps", i) for i in range(2)] + [tf.train.Server(cluster, "worker", 0)]
    with tf.Graph().as_default() as graph:
        with tf.device(tf.train.replica_device_setter(cluster=cluster)):
            made = [tf.Variable(1.0, name=name) for name in "abcde"]
        report = tf.report_uninitialized_variables()
        packs = [op.device for op in graph.get_operations() if op.type == "Pack"]
        assert packs == ["/job:ps/task:0", "/job:ps/task:1"]
        with tf.Session(stopped[-1].target) as session:
            assert session.run(report).tolist() == [b"a", b"b", b"c", b"d", b"e"]
            session.run([made[1].initializer, made[2].initializer])
            assert session.run(report).tolist() == [b"a", b"d", b"e"]


def test_refusals() -> None:
    two = {"ps": ["127.0.0.1:0"], "worker": ["127.0.0.1:0", "127.0.0.1:0"]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="job_name must be given"):
        tf.train.Server(two)
    with pytest.raises(tf.errors.InvalidArgumentError, match="task_index must be given"):
        tf.train.Server(two, "worker")
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no task 5"):
        tf.train.Server(two, "worker", 5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"protocol 'grpc\+verbs' is not known"):
        tf.train.Server(two, "ps", protocol="grpc+verbs")
    with pytest.raises(tf.errors.InvalidArgumentError, match="without a job secret"):
        tf.train.Server({"ps": ["0.0.0.0:0"]})


def test_who_has_another_secret_is_named(stopped: Any) -> None:
    stopped.extend(tf.train.Server.bound("worker", i, "127.0.0.1", secret) for i, secret in enumerate([b"one", b"two"]))
    for server in stopped:
        server.join_cluster({"worker": [s.address for s in stopped]})
    said = pytest.raises(tf.errors.UnauthenticatedError, match=r"task:1 at 127\.0\.0\.1.*SPARKFLOW_SECRET")
    with tf.Graph().as_default(), tf.device("/job:worker/task:1"), tf.Session(stopped[0].target) as session, said:
        session.run(tf.constant(1.0) + tf.Variable(1.0))


def test_a_server_that_stops_ends_what_waits_here(stopped: Any) -> None:
    """Also at what has no line of its own to be closed; the sessions are over with it."""
    server = tf.train.Server.create_local_server()
    stopped.append(server)
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        queue = tf.FIFOQueue(1, [tf.float32])
        waiting = [queue.dequeue(), tf.ConditionalAccumulator(tf.float32, []).take_grad(1)]
        errors: list[tf.errors.OpError] = []

        def run(fetch: Any) -> None:
            with pytest.raises(tf.errors.OpError) as caught:
                session.run(fetch)
            errors.append(caught.value)

        threads = [threading.Thread(target=run, args=(fetch,), daemon=True) for fetch in waiting]
        for thread in threads:
            thread.start()
        steps = server._runtime.worker.rendezvous._steps  # type: ignore[union-attr]
        while sum(len(step._parked) for step in list(steps.values())) < 2:
            threads[0].join(0.001)
        server.stop()
        for thread in threads:
            thread.join(20)
        assert [type(e) for e in errors] == [tf.errors.UnavailableError] * 2
        with pytest.raises(tf.errors.AbortedError):
            session.run(waiting[0])


def test_threads_that_first_need_a_task_at_once_share_a_channel(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cluster(worker=2)["worker0"]._runtime
    dial, dialled, begun = runtime._dial, list[Any](), threading.Barrier(2, timeout=1)

    def slowly(address: str, patience_s: float | None) -> Any:
        dialled.append(dial(address, patience_s))
        with suppress(threading.BrokenBarrierError):
            begun.wait()
        return dialled[-1]

    monkeypatch.setattr(runtime, "_dial", slowly)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(runtime.channel, ["/job:worker/replica:0/task:1"] * 2))
    assert found == dialled * 2


def test_a_channel_dialled_while_the_server_stops_is_closed(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = cluster(worker=2)["worker0"]._runtime
    dial, dialled = runtime._dial, list[Any]()

    def meanwhile(address: str, patience_s: float | None) -> Any:
        dialled.append(dial(address, patience_s))
        runtime.stop()
        return dialled[-1]

    monkeypatch.setattr(runtime, "_dial", meanwhile)
    with pytest.raises(tf.errors.CancelledError, match="the server stopped"):
        runtime.channel("/job:worker/replica:0/task:1")
    assert dialled[0].error is not None


def test_parts_that_are_registered_while_a_session_closes_are_forgotten(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = cluster(ps=1, worker=1)
    worker, ps = (servers[name]._runtime.worker for name in ("worker0", "ps0"))
    register, closed, asked, ended = ps.register, threading.Event(), threading.Event(), threading.Event()

    def late(*args: Any) -> int:
        asked.set()
        assert closed.wait(20)
        try:
            return register(*args)
        finally:
            ended.set()

    monkeypatch.setattr(ps, "register", late)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            a = tf.random_uniform([2])
        with tf.device("/job:worker/task:0"):
            b = a + 1.0
        session = tf.Session(servers["worker0"].target)

        def close() -> None:
            asked.wait(20)
            session.close()
            closed.set()

        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(tf.errors.CancelledError, match="closed"):
            session.run(b)
        closing.join()
    assert ended.wait(20), "the part is compiled after the session has heard that it is closed"
    while ps._parts:
        threading.Event().wait(0.001)
    assert not worker._parts and not ps._functions


def test_a_server_that_stops_waits_for_no_task_to_come(cluster: Any) -> None:
    """A session that looks for a task, for 20 s, ends with its server."""
    servers = cluster(ps=1, worker=1)
    servers["ps0"].stop()
    runtime = servers["worker0"]._runtime
    threading.Timer(0.2, runtime.stop).start()
    begun = time.monotonic()
    with pytest.raises(tf.errors.CancelledError, match="the server stopped"):
        runtime.channel("/job:ps/replica:0/task:0", 60.0)
    assert time.monotonic() - begun < 10


def test_a_client_that_comes_before_the_cluster_is_known_waits_for_it() -> None:
    worker, ps = (RuntimeServer(job, 0, "127.0.0.1:0", b"secret") for job in ("worker", "ps"))
    cluster = ClusterSpec({"worker": [worker.address], "ps": [ps.address]})
    ps.join_cluster(cluster)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(RemoteSession, worker.target)
        with pytest.raises(TimeoutError):
            opened.result(0.2)
        worker.join_cluster(cluster)
        session = opened.result(30)
    assert [d.name.rpartition("/device")[0] for d in session.devices()] == [worker.name, ps.name]
    session.close()
    ps.stop()
    worker.stop()


def test_calls_and_pushes_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    """A peer that mixes them up is refused by name, and is not left waiting."""
    server = RuntimeServer("worker", 0, "127.0.0.1:0", b"secret")
    channel = dial(f"tcp://{server.address}", None, b"secret", "stranger")
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"method 3 \(deliver\) was called, and is pushed"):
            channel.call(tasks.DELIVER, bytes(16), (), 20.0)
        for method in tasks.CALLS:
            channel.push(method, b"{}")
        with pytest.raises(tf.errors.OpError):  # what is no message is the reply, too
            channel.call(tasks.RUN, b"{}", (), 20.0)
        assert channel.call(tasks.TRAFFIC, b"", (), 20.0)[0]
        said = "\n".join(f"{record.message} {record.exc_info and record.exc_info[1]}" for record in caplog.records)
        for method in tasks.CALLS:
            assert f"method {method} ({tasks.NAMES[method]}) was pushed, and is called (by stranger at tcp://" in said
    finally:
        channel.close()
        server.stop()


def test_an_address_that_two_tasks_have(stopped: Any) -> None:
    address = free_address()
    stopped.append(tf.train.Server({"ps": ["127.0.0.1:0"], "worker": [address, address]}, "worker", 0))
    with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
        x = tf.placeholder_with_default(1.0, []) + 1.0
        with (
            tf.Session(stopped[0].target) as session,
            pytest.raises(
                tf.errors.FailedPreconditionError, match=r"task:0 answers there\. The cluster gives both that"
            ),
        ):
            session.run(x)


@pytest.mark.parametrize("filters, seen", [
    (["/job:ps"], ["worker0", "ps0", "ps1"]),
    (["/job:ps/task:1", "/job:worker/replica:0/task:0"], ["worker0", "ps1"]),
    (["/job:ps/task:1/device:CPU:0"], ["worker0", "ps1"]),
    (["/job:worker/task:1"], ["worker0", "worker1"]),
])  # fmt: skip
def test_a_session_sees_the_tasks_that_its_filters_name(cluster: Any, filters: list[str], seen: list[str]) -> None:
    servers = cluster(ps=2, worker=2)
    with tf.Session(servers["worker0"].target, tf.Graph(), tf.ConfigProto(device_filters=filters)) as session:
        found = [d.name for d in session.list_devices()]
    assert found == [f"/job:{n[:-1]}/replica:0/task:{n[-1]}/device:CPU:0" for n in seen]


def test_a_reset_leaves_no_task_out_that_is_there(cluster: Any) -> None:
    """Those behind one that is not there are reset like those before it, and so is the own."""
    servers = cluster(ps=3, worker=1)
    with tf.Graph().as_default():
        made = []
        for task in ("/job:ps/task:0", "/job:ps/task:2", "/job:worker/task:0"):
            with tf.device(task):
                made.append(tf.Variable(1.0))
        with tf.Session(servers["worker0"].target) as session:
            session.run(tf.global_variables_initializer())
        servers["ps1"].stop()
        with pytest.raises(tf.errors.UnavailableError, match="not all: /job:ps/replica:0/task:1 is not there"):
            tf.Session.reset(servers["worker0"].target)
        with tf.Session(servers["worker0"].target) as session:
            for variable in made:
                with pytest.raises(tf.errors.FailedPreconditionError):
                    session.run(variable)


def test_a_task_that_never_came_is_waited_for_no_longer_than_the_sessions_steps(cluster: Any) -> None:
    servers = cluster(ps=1, worker=1)
    servers["ps0"].stop()
    config = tf.ConfigProto(operation_timeout_in_ms=300)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        x = tf.Variable(1.0)
        with (
            tf.Session(servers["worker0"].target, config=config) as session,
            pytest.raises(tf.errors.UnavailableError, match=r"ps/replica:0/task:0 at .*no Server answers after 0.3 s"),
        ):
            session.run(x.initializer)


def test_nobody_is_heard_before_the_server_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers dial an address again and again until it answers, and ask at once."""
    heard: list[tuple[str, Any]] = []

    def dialled_meanwhile(address: str) -> str:
        try:
            dial(f"tcp://{address}", timeout_s=0.3).close()
            heard.append((address, None))
        except OpError as error:
            heard.append((address, type(error)))
        return near_url(address)

    monkeypatch.setattr("sparkflow_runtime.dialling.near_url", dialled_meanwhile)
    server = RuntimeServer("worker", 0, "127.0.0.1:0")
    try:
        assert heard == [(server.address, DeadlineExceededError)]
        channel = dial(f"tcp://{server.address}")
        assert channel.peer == server.name
        channel.close()
    finally:
        server.stop()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_is_a_client_of_its_parents_server_and_no_second_one(cluster: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            held = tf.get_variable("held", [], initializer=tf.ones_initializer())
        session = tf.Session(servers["worker0"].target)
        session.run(held.initializer)

    def forked(told: Any) -> None:
        try:
            session.run(held)
        except tf.errors.CancelledError as error:
            told.send(error.message)
        with graph.as_default(), tf.Session(servers["worker0"].target) as own:
            told.send(own.run(held.assign_add(1.0)))

    fork = multiprocessing.get_context("fork")
    there, here = fork.Pipe(False)
    child = fork.Process(target=forked, args=(here,))
    child.start()
    assert there.poll(10) and "the process that this one was forked from" in there.recv()
    assert there.poll(10) and there.recv() == 2
    child.join()
    assert session.run(held) == 2
