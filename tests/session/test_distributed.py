"""Sessions over several servers of this process: placement, transfers, shared state, errors, lost peers."""

from __future__ import annotations

import gc
import signal
import socket
import struct
import threading
import time
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.master.compiled import Compiled
from sparkflow_runtime.transport.receiving import Receiver
from sparkflow_runtime.wire.bundles import encode_table
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.tasks import DELIVER_ALL, RUN

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def test_a_graph_over_two_tasks(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        v = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [2, 3])
        y = tf.matmul(x, v)
        loss = tf.reduce_sum(y)
    with tf.device(PS):
        on_ps = y + 1
    [g] = tf.gradients(loss, [v])
    with tf.device(PS):
        update = tf.assign_sub(v, g)
    feed = {x: np.ones((2, 3), np.float32)}
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run([y, on_ps, loss], feed)[1].tolist() == [[7, 10], [7, 10]]
        assert session.run(g, feed).tolist() == [[2, 2]] * 3
        session.run(update.op, feed)
        assert session.run(v).tolist() == [[-2, -1], [0, 1], [2, 3]]
        assert [d.name for d in session.list_devices()] == [
            f"/job:{j}/replica:0/task:0/device:CPU:0" for j in ("worker", "ps")
        ]
        assert len({d.incarnation for d in session.list_devices()} - {0}) == 2


def test_what_is_fed_may_go_straight_on_to_another_task(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=2, worker=1)
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [2])
        a = tf.identity(x)
    with tf.device("/job:ps/task:1"):
        b = tf.stack([a, a])
    with tf.device(WORKER):
        c = tf.identity(b[1])
    with tf.Session(servers["worker0"].target) as session:
        for fetches in ([c], [b, c], [a, b, c]):
            assert session.run(fetches, {x: [1.0, 2.0]})[-1].tolist() == [1, 2]
        assert session.run(c, {a: [3.0, 4.0]}).tolist() == [3, 4]


def test_state_outlives_sessions_and_is_shared_by_masters(cluster: Any) -> None:
    servers = cluster(ps=1, worker=2)

    def build(task: int) -> tuple[Any, Any, Any]:
        with (
            tf.Graph().as_default() as g,
            tf.device(tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{task}")),
        ):
            v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
            add = tf.assign_add(v, [1.0, 2.0]).op
            init = tf.global_variables_initializer()
            return g, (v, add), init

    (g0, (v0, _), init0), (g1, (_, add1), _) = build(0), build(1)
    with tf.Session(servers["worker0"].target, graph=g0) as session:
        session.run(init0)
    with tf.Session(servers["worker1"].target, graph=g1) as session:
        session.run(add1)
    with tf.Session(servers["worker0"].target, graph=g0) as session:
        assert session.run(v0).tolist() == [1, 2]


def test_who_only_waits_for_other_tasks_reads_their_answers(
    cluster: Any, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the thread that runs the session: no other one has to wake it."""
    servers, readers, whole = cluster(ps=2, worker=1), [], Receiver.answer

    def answer(self: Receiver, *args: Any) -> Any:
        message = whole(self, *args)
        if message is not None:
            readers.append(threading.current_thread())
        return message

    def slowly(value: float) -> float:  # here all tasks are one process, and what comes at once is read at once
        time.sleep(0.003)
        return value

    fetches = []
    for k in range(2):
        with tf.device(f"/job:ps/task:{k}"):
            fetches.append(tf.py_func(slowly, [tf.Variable(1.0 + k)], tf.float32))
    monkeypatch.setattr(Receiver, "answer", answer)
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        deadline = time.monotonic() + 30
        while threading.current_thread() not in readers and time.monotonic() < deadline:
            assert session.run(fetches) == [1.0, 2.0]
            assert session.run(fetches[1]) == 2.0
    assert threading.current_thread() in readers


def test_fifty_slots_on_two_servers_travel_as_two_messages_a_step(cluster: Any, graph: Any) -> None:
    """The run request with the ids, and the gradients; back come the rows with the dense variables, and the reply:
    whatever the number of tables."""
    servers = cluster(ps=2, worker=1)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device=WORKER)):
        count = tf.train.get_or_create_global_step()
        tables = [tf.Variable(np.ones((10, 4), np.float32)) for _ in range(50)]
        dense = [tf.Variable(np.float32(1)) for _ in range(4)]
        ids = tf.placeholder(tf.int64, [None])
        rows = tf.add_n([tf.reduce_sum(tf.nn.embedding_lookup(t, ids)) for t in tables])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(tf.add_n(dense) * rows), count)
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [1, 2]})
        channels = [servers["worker0"]._runtime.channel(f"/job:ps/replica:0/task:{i}") for i in range(2)]
        before = [dict(channel.counters) for channel in channels]
        for _ in range(10):
            session.run(step, {ids: [1, 2]})
        for channel, old in zip(channels, before):
            sent, received = (channel.counters[k] - old[k] for k in ("frames_sent", "frames_received"))
            assert 20 <= sent <= 22 and 20 <= received <= 22, "but for heartbeats"
        assert session.run(count) == 11


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


@pytest.mark.parametrize("own", [False, True])
def test_an_interrupted_step_ends_at_every_task(cluster: Any, graph: Any, own: bool) -> None:
    """Or the dequeue that waits at the server would take the next element for nobody."""
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
        item, put, size = queue.dequeue(), queue.enqueue([1.0]), queue.size()
    with tf.device(WORKER):
        got = item + 1.0 if own else item

    def interrupt(*_: Any) -> None:
        raise Interrupted

    with tf.Session(servers["worker0"].target) as session:
        for fetched in (put, got, size):
            session.run(fetched)  # compiled: it is to wait when the signal comes
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for _ in range(3):
                with pytest.raises(Interrupted):
                    signal.setitimer(signal.ITIMER_REAL, 0.1)
                    session.run(got)
        finally:
            signal.signal(signal.SIGALRM, before)
        session.run(put)
        time.sleep(0.1)
        assert session.run(size) == 1 and session.run(got) == (2 if own else 1)


@pytest.mark.parametrize("end", ["close", "timeout"])
def test_an_endless_loop_at_another_task_can_be_ended(cluster: Any, graph: Any, end: str) -> None:
    """It must not keep that task from hearing what else this one says."""
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        endless = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [0])
        more = tf.constant(1) + tf.placeholder(tf.int32, [])
    feed = {more.op.inputs[1]: 1}
    errors: list[Exception] = []
    session = tf.Session(servers["worker0"].target)

    def run() -> None:
        try:
            session.run(endless, options=tf.RunOptions(timeout_in_ms=500 if end == "timeout" else 60_000))
        except tf.errors.OpError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    with tf.Session(servers["worker0"].target) as other:
        assert other.run(more, feed, options=tf.RunOptions(timeout_in_ms=20_000)) == 2, "beside the loop"
    if end == "close":
        session.close()
    thread.join(20)
    expected = tf.errors.CancelledError if end == "close" else tf.errors.DeadlineExceededError
    assert not thread.is_alive() and isinstance(errors[0], expected)
    session.close()


def test_a_step_that_takes_long_keeps_nobody_waiting(cluster: Any, graph: Any) -> None:
    """A function of the user's may wait for what another step does, at its first call as at the next ones."""
    servers = cluster(ps=1, worker=1)
    entered, leave = threading.Event(), threading.Event()

    def wait(x: np.ndarray) -> np.ndarray:
        entered.set()
        leave.wait(20)
        return x

    with tf.device(PS):
        quick = tf.placeholder(tf.float32, []) + 1
        long = tf.py_func(wait, [quick], tf.float32)
    with tf.Session(servers["worker0"].target) as session:
        for _ in range(3):
            thread = threading.Thread(target=session.run, args=(long, {quick: 1.0}))
            thread.start()
            assert entered.wait(20)
            assert session.run(quick, {quick.op.inputs[0]: 1.0}, options=tf.RunOptions(timeout_in_ms=20_000)) == 2
            assert thread.is_alive()
            leave.set()
            thread.join(20)
            assert not thread.is_alive()
            session.run(long, {quick: 1.0})  # quick this time
            entered.clear()
            leave.clear()


def test_a_step_that_fails_before_it_sends_ends_at_once_everywhere(cluster: Any, graph: Any) -> None:
    """The server's part begins with the ids, which are never made."""
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        table = tf.Variable(np.ones((10, 4), np.float32))
    with tf.device(WORKER):
        x = tf.placeholder(tf.int64, [None])
        rows = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.reshape(x, [2]) + 1))
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(rows, {x: [1, 2]}) == 8
        for _ in range(3):
            start = time.monotonic()
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(rows, {x: [1, 2, 3]})
            assert time.monotonic() - start < 2
        assert session.run(rows, {x: [1, 2]}) == 8
        assert not servers["ps0"]._runtime.worker.rendezvous._steps


def test_a_table_of_bundles_that_is_wrong_is_refused(cluster: Any, graph: Any, caplog: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        v = tf.Variable(3.0)
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        channel = servers["worker0"]._runtime.channel("/job:ps/replica:0/task:0")
        lies = encode_table([(7, [1, 2, 3])])
        with pytest.raises(tf.errors.InvalidArgumentError, match="1 bundles of 3 tensors, and 1 came"):
            channel.call(RUN, struct.pack("<QQ", 1, 5) + lies, [np.zeros(2)], 5.0)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no multiple of 12"):
            channel.call(RUN, struct.pack("<QQ", 1, 5) + lies[:-1], [np.zeros(2)], 5.0)
        channel.push(DELIVER_ALL, struct.pack("<Q", 5) + lies, [np.zeros(2)])
        assert session.run(v) == 3.0, "it keeps serving"


def test_parts_that_would_begin_late_are_not_held_back() -> None:
    made = Compiled(None, [], 0, 0, {}, {}, GraphDef())
    made.opening = frozenset(["/job:ps/replica:0/task:0"])
    for took_s in [1.0] * 8 + [1e-4] + [1.0] * 8:
        made.opening_took(took_s)
    assert made.opening
    made.opening_took(1.0)
    assert not made.opening


def test_an_error_of_another_task_arrives_as_itself(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [None])
    with tf.device(PS):
        bad = tf.reshape(x, [7, 7], name="bad")
        never = tf.FIFOQueue(1, [tf.float32]).dequeue()
    with tf.Session(servers["worker0"].target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run([bad, never], {x: [1.0, 2.0]})
        assert "[[node bad (Reshape) on /job:ps/replica:0/task:0/device:CPU:0]]" in str(caught.value)
        assert caught.value.op is bad.op
        assert session.run(x, {x: [1.0]}).tolist() == [1.0], "the session lives on"


def test_a_lost_task_fails_the_steps_that_need_it(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        item = tf.FIFOQueue(1, [tf.float32]).dequeue()
    with tf.device(WORKER):
        y = item + 1
    with tf.Session(servers["worker0"].target) as session:
        stopping = threading.Timer(0.2, servers["ps0"].stop)
        stopping.start()
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)):
            session.run(y)
        stopping.join(20)  # the step ends before nobody listens there any more
        with pytest.raises(tf.errors.UnavailableError, match=r"/job:ps/replica:0/task:0 is not there"):
            session.run(item)


def test_a_task_that_is_lost_after_its_part_fails_the_step(cluster: Any, graph: Any) -> None:
    """What it did is lost with it, and who waits elsewhere for that to be used would wait for ever."""
    servers = cluster(ps=2, worker=1)
    with tf.device(PS):
        given = tf.FIFOQueue(1, [tf.float32], shared_name="given").enqueue([1.0])
        size = tf.FIFOQueue(1, [tf.float32], shared_name="given").size()
    with tf.device("/job:ps/task:1"):
        token = tf.FIFOQueue(1, [tf.float32]).dequeue()
    with tf.Session(servers["worker0"].target) as session, tf.Session(servers["worker0"].target) as other:

        def stop_when_given() -> None:
            while not other.run(size):
                time.sleep(0.02)
            servers["ps0"].stop()

        threading.Thread(target=stop_when_given).start()
        with pytest.raises(tf.errors.UnavailableError, match=r"/job:ps/replica:0/task:0 was lost, and what it did"):
            session.run([given, token])
        assert not any(servers["worker0"]._runtime.finished_parts._steps.values())


def test_an_error_of_the_transport_has_a_word_for_what_was_asked(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        item = tf.FIFOQueue(1, [tf.float32]).dequeue()
    steps = servers["ps0"]._runtime.worker.rendezvous._steps

    def stop_when_asked() -> None:
        while not any(step._parked for step in list(steps.values())):
            time.sleep(0.01)
        servers["ps0"].stop()

    with tf.Session(servers["worker0"].target) as session:
        threading.Thread(target=stop_when_asked, daemon=True).start()
        said = r"Method 2 \(run\) to /job:ps/replica:0/task:0 at \S+: "
        with pytest.raises(tf.errors.UnavailableError, match=said):
            session.run(item)


def test_a_deadline_names_the_task_that_is_missing(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name="queue")
        item, put = queue.dequeue(), queue.enqueue_many([[1.0, 1.0]])
    with tf.device(WORKER):
        y = item + 1
    target, patient = servers["worker0"].target, tf.RunOptions(timeout_in_ms=20_000)
    with tf.Session(target) as first, tf.Session(target, config=tf.ConfigProto(operation_timeout_in_ms=100)) as session:
        first.run(put)  # connected and compiled, which may take longer than that
        assert session.run(y, options=patient) == 2 and session.run(item, options=patient) == 1
        with pytest.raises(tf.errors.DeadlineExceededError, match="nothing yet from /job:ps/replica:0/task:0"):
            session.run(y)
        with pytest.raises(tf.errors.DeadlineExceededError, match="no answer from /job:ps/replica:0/task:0"):
            session.run(item)


def test_a_deadline_says_who_waits_for_whom(cluster: Any, graph: Any) -> None:
    """The worker for the server, the server for a queue that is empty, and another worker for the same server."""
    servers = cluster(ps=1, worker=2)
    with tf.device(PS):
        item = tf.FIFOQueue(5, [tf.float32], name="rows").dequeue()
    with tf.device(WORKER):
        y = item + 1
    with tf.device("/job:worker/task:1"):
        z = item + 2
    options = tf.RunOptions(timeout_in_ms=200)
    with tf.Session(servers["worker0"].target) as session, pytest.raises(tf.errors.DeadlineExceededError) as caught:
        session.run([y, z], options=options)
    said = caught.value.message
    assert "not done in 0.2 s. nothing yet from /job:ps/replica:0/task:0" in said
    assert "/job:ps/replica:0/task:0: Waiting in QueueDequeueV2 'rows_Dequeue'" in said
    assert "FIFOQueue 'rows'" in said and "size 0" in said
    assert "/job:worker/replica:0/task:1: nothing yet from /job:ps/replica:0/task:0" in said


def test_a_peer_without_the_secret_is_refused(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1)
    stranger = Server.bound("worker", 0, "127.0.0.1", b"another secret")
    stranger.join_cluster({"ps": [servers["ps0"].address], "worker": [stranger.address]})
    with tf.device(PS):
        c = tf.identity(tf.constant(1.0))
    try:
        with tf.Session(stranger.target) as session, pytest.raises(tf.errors.UnauthenticatedError):
            session.run(c)
    finally:
        stranger.stop()


def test_a_server_learns_its_cluster_from_the_first_master(graph: Any) -> None:
    """A worker may be ready before the process that hosts a parameter server has told it the addresses."""
    servers = {job: Server.bound(job[:-1], int(job[-1]), "127.0.0.1", b"secret") for job in ("ps0", "ps1", "worker0")}
    addresses = {"ps": [servers["ps0"].address, servers["ps1"].address], "worker": [servers["worker0"].address]}
    servers["worker0"].join_cluster(addresses)
    with tf.device("/job:ps/task:0"):
        a = tf.identity(tf.constant(1.0))
    with tf.device("/job:ps/task:1"):
        b = a + 1
    try:
        with tf.Session(servers["worker0"].target) as session:
            assert session.run(b) == 2
    finally:
        for server in servers.values():
            server.stop()


def test_a_part_that_two_signatures_share_is_registered_once(cluster: Any, graph: Any) -> None:
    """What a graph that grows costs is what is new in it: the table's part of the step is the same with a loss more."""
    servers = cluster(ps=1, worker=1)
    with tf.device(PS):
        table = tf.Variable(np.ones((10, 4), np.float32))
        for _ in range(20):
            table = tf.identity(table) + 1.0
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [10, 4])
        loss = tf.reduce_sum(table * x)
    feed = {x: np.ones((10, 4), np.float32)}
    registered = _registrations(servers["ps0"])
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        session.run(loss, feed)
        then = len(registered)
        channel = servers["worker0"]._runtime.channel("/job:ps/replica:0/task:0")
        before = channel.counters["bytes_sent"]
        session.run([loss, x], feed)
        with tf.device(WORKER):
            mean = loss / 40.0
        assert session.run(mean, feed) == session.run(loss, feed) / 40
        assert len(registered) == then, "neither another fetch nor more nodes at the worker concern the server"
        assert channel.counters["bytes_sent"] - before < 1000
        with tf.device(PS):
            session.run(tf.reduce_sum(table))
        assert len(registered) == then + 1


def _registrations(server: Server) -> list[Any]:
    worker, found = server._runtime.worker, []
    register = worker.register

    def counted(*args: Any) -> int:
        found.append(args)
        return register(*args)

    worker.register = counted  # type: ignore[method-assign]
    return found


def test_a_shared_part_goes_with_its_last_signature(cluster: Any, graph: Any) -> None:
    servers = cluster(ps=1, worker=1)
    parts = servers["ps0"]._runtime.worker._parts
    with tf.device(PS):
        a = tf.placeholder_with_default(1.0, [])
    with tf.device(WORKER):
        b, c = a + 1.0, a + 2.0
    with tf.Session(servers["worker0"].target) as session:
        first, second = session.make_callable(b), session.make_callable(c)
        assert (first(), second(), len(parts)) == (2, 3, 1)
        session._runtime._master._compiled.clear()
        del first
        gc.collect()
        assert (second(), len(parts)) == (3, 1)
        del second
        gc.collect()
        deadline = time.monotonic() + 5
        while parts and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not parts


@pytest.mark.parametrize("what", ["session", "signature"])
def test_what_is_collected_while_its_thread_sends_waits_for_nothing(cluster: Any, graph: Any, what: str) -> None:
    """The collector runs where the next object is made: in a send to the same task, say, or where parts are kept."""
    servers = cluster(ps=1, worker=1)
    there, here = servers["ps0"]._runtime.worker, servers["worker0"]._runtime
    with tf.device(PS):
        value = tf.placeholder_with_default(1.0, []) + 1.0
    held: dict[str, Any] = {"session": tf.Session(servers["worker0"].target)}
    held["signature"] = held["session"].make_callable(value)
    assert held["signature"]() == 2 and there._parts
    held["session"]._runtime._master._compiled.clear()
    if what == "session":
        del held["signature"]

    def collect() -> None:
        with here.channel(servers["ps0"]._runtime.name)._sender._lock, here.worker._lock:
            del held[what]
            gc.collect()

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(5)
    assert not collecting.is_alive(), "it waits for itself"
    deadline = time.monotonic() + 5
    while there._parts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not there._parts


def test_a_session_that_ends_without_a_connection_leaves_no_parts(cluster: Any, graph: Any) -> None:
    """The task hears of it with what it is asked next."""
    servers = cluster(ps=1, worker=1)
    ps, worker = servers["ps0"]._runtime, servers["worker0"]._runtime
    with tf.device(PS):
        out = tf.constant([1.0, 2.0]) * tf.placeholder_with_default(3.0, [])

    def sessions() -> set[str]:
        return {part.session for part in ps.worker._parts.values()}

    for _ in range(3):
        with tf.Session(worker.target) as session:
            assert session.run(out).tolist() == [3, 6]
            assert len(sessions()) == 1
            channel = worker.open_channel(ps.name)
            assert channel is not None
            channel.close("cut")
            while worker.open_channel(ps.name) is not None:
                time.sleep(0.001)
    with tf.Session(worker.target) as session:
        session.run(out)
    until = time.monotonic() + 20
    while sessions() and time.monotonic() < until:
        time.sleep(0.001)
    assert not sessions() and not worker.untold


def test_data_goes_back_by_the_connection_that_asked(cluster: Any, graph: Any) -> None:
    """An older one that the asking task has given up, and whose end is not seen here, would lose them."""
    servers = cluster(ps=1, worker=1)
    ps, worker = servers["ps0"]._runtime, servers["worker0"]._runtime
    with tf.device(PS):
        there = tf.constant([1.0, 2.0]) * tf.placeholder_with_default(3.0, [])
    with tf.device("/job:worker/task:0"):
        out = there + 1
    with tf.Session(worker.target, config=tf.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        assert session.run(out).tolist() == [4, 7]
        old = ps._channels[worker.name]
        del worker._channels[ps.name]  # as if it had ended
        assert session.run(out).tolist() == [4, 7]
        new = ps._channels[worker.name]
        assert new is not old and new.error is None and old.error is None


@pytest.mark.parametrize("done_there", [False, True])
def test_data_lost_between_two_other_tasks_end_the_step(cluster: Any, graph: Any, done_there: bool) -> None:
    """Sent into a connection that the peer had given up: one waited for them, and the other had done its part."""
    servers = cluster(ps=2, worker=1)
    one, other = servers["ps0"]._runtime, servers["ps1"]._runtime
    with tf.device(PS):
        here = tf.constant([1.0, 2.0]) * tf.placeholder_with_default(3.0, [])
        kept = tf.FIFOQueue(2, [tf.float32], shapes=[[]])
        later, put = here if done_there else here + kept.dequeue(), kept.enqueue([0.0])
    with tf.device("/job:ps/task:1"):
        out = here + 1
    wanted = [out] if done_there else [out, later]
    with tf.Session(servers["worker0"].target, config=tf.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        session.run(put)
        assert session.run(wanted)[0].tolist() == [4, 7]
        channel = one.channel(other.name)

        def lose(*_: Any, **__: Any) -> None:
            channel._sock.shutdown(socket.SHUT_RDWR)

        channel.push = lose
        with pytest.raises(tf.errors.UnavailableError, match=r"what it sent to .*task:1 may be lost"):
            session.run(wanted)
        session.run(put)
        assert session.run(wanted)[0].tolist() == [4, 7]
