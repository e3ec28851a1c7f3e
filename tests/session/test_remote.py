"""Sessions whose master is a Server in another process: what they do is what sessions of this process do."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.transport import dial
from sparkflow_runtime.wire import sessions
from tests.session.processes import Cluster

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(scope="module")
def tasks() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKFLOW_SECRET", "secret")
        cluster = Cluster(ps=1, worker=2)
        yield cluster
        cluster.stop()


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "tasks" in request.fixturenames:
        tf.Session.reset(request.getfixturevalue("tasks")["worker0"].target)


@pytest.mark.parametrize("master", ["ps0", "worker0", "worker1"])
@pytest.mark.parametrize("scheme", ["grpc", "sparkflow"])
def test_any_task_is_a_master(tasks: Cluster, graph: Any, master: str, scheme: str) -> None:
    with tf.device(PS):
        v = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [2, 3])
        loss = tf.reduce_sum(tf.matmul(x, v))
    with tf.device(OTHER):
        twice, text = 2 * loss, tf.identity(tf.constant(["a", "bc"]))
    with tf.device(PS):
        update = tf.assign_sub(v, tf.gradients(twice, [v])[0])
    feed = {x: np.ones((2, 3), np.float32)}
    with tf.Session(f"{scheme}://{tasks[master].address}") as session:
        session.run(tf.global_variables_initializer())
        got = session.run({"loss": loss, "more": (twice, [x, text]), "op": v.op}, feed)
        assert got["loss"] == 30 and got["more"][0] == 60 and got["op"] is None
        session.run(update, feed)
        assert got["more"][1][0].shape == (2, 3) and got["more"][1][1].tolist() == [b"a", b"bc"]
        assert session.run(v).tolist() == [[-4, -3], [-2, -1], [0, 1]]
        names = [d.name for d in session.list_devices()]
        own = f"/job:{master[:-1]}/replica:0/task:{master[-1]}/device:CPU:0"
        assert names[0] == own and len(names) == 3
        assert all(d.device_type == "CPU" and d.memory_limit_bytes > 1 << 20 for d in session.list_devices())


def test_in_graph_replication(tasks: Cluster, graph: Any) -> None:
    """One client builds a replica on each worker, with the variables on the parameter server."""
    data = np.random.default_rng(0).normal(size=(2, 8, 3)).astype(np.float32)
    with tf.device(PS):
        w = tf.Variable(np.zeros((3, 1), np.float32))
    towers, inputs = [], []
    for index in range(2):
        with tf.device(f"/job:worker/task:{index}"):
            x = tf.placeholder(tf.float32, [8, 3])
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
            towers.append(tf.gradients(loss, [w])[0])
            inputs.append(x)
    with tf.device(PS):
        train = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.add_n(towers) / 2.0, w)])
    expected = np.zeros((3, 1))
    with tf.Session(tasks["worker1"].target) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train, dict(zip(inputs, data)))
            expected -= 0.1 * np.mean([2 / 8 * d.T @ (d @ expected - 1) for d in data.astype(np.float64)], axis=0)
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-5)


def test_state_is_shared_by_clients_and_masters(tasks: Cluster) -> None:
    def client(master: str) -> tuple[tf.Session, Any, Any]:
        with tf.Graph().as_default(), tf.device(PS):
            v = tf.Variable(0.0, name="v")
            return tf.Session(tasks[master].target), v, tf.assign_add(v, 1.0).op

    made = [client(name) for name in ("ps0", "worker0", "worker0")]
    made[0][0].run(made[0][1].initializer)
    for session, _, add in made:
        session.run(add)
    assert [session.run(v) for session, v, _ in made] == [3, 3, 3]
    for session, _, _ in made:
        session.close()
    session, v, _ = client("worker1")
    assert session.run(v) == 3, "variables outlive sessions"
    session.close()


def test_the_graph_grows_and_only_what_is_new_travels(tasks: Cluster, graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    y = x
    for _ in range(300):
        y = y + 1.0
    with tf.Session(tasks["worker0"].target) as session:
        channel = session._runtime._channel
        assert session.run(y, {x: 1.0}) == 301
        first = channel.counters["bytes_sent"]
        z = y * 2.0
        assert session.run(z, {x: 1.0}) == 602
        then = channel.counters
        assert then["bytes_sent"] - first < first / 20
        assert session.run(z, {x: 2.0}) == 604
        assert channel.counters["bytes_sent"] - then["bytes_sent"] < 200, "names travel once"


def test_one_message_each_way(tasks: Cluster, graph: Any) -> None:
    v = tf.Variable(np.ones(16, np.float32))
    with tf.Session(tasks["worker0"].target) as session:
        session.run(v.initializer)
        read = session.make_callable(v)
        read()
        before = session._runtime._channel.counters
        for _ in range(50):
            read()
        after = session._runtime._channel.counters
    assert 50 <= after["frames_sent"] - before["frames_sent"] <= 52, "but for heartbeats"
    assert 50 <= after["frames_received"] - before["frames_received"] <= 52


@pytest.mark.parametrize("master", ["ps0", "worker0"])
@pytest.mark.parametrize("elements", [0, 3, 5_000, 1 << 20])
def test_what_was_fetched_does_not_change_with_the_variable(
    tasks: Cluster, graph: Any, master: str, elements: int
) -> None:
    """Of every size that travels in its own way: the task that has the variable sends its memory without a copy."""
    with tf.device(PS):
        v, w = tf.Variable(np.ones(elements, np.float32)), tf.Variable("a")
        bump, change = tf.assign_add(v, np.ones(elements, np.float32)).op, tf.assign(w, "b").op
    with tf.Session(tasks[master].target) as session:
        session.run(tf.global_variables_initializer())
        before = session.run([v, w, v.value()])
        for _ in range(20):
            session.run(bump)
        session.run(change)
        assert before[1] == b"a" and np.all(before[0] == 1) and np.all(before[2] == 1)
        assert np.all(session.run(v) == 21) and session.run(w) == b"b"
        before[0][:] = 7  # the client's own
        assert np.all(session.run(v) == 21)


def test_callables(tasks: Cluster, graph: Any) -> None:
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [None])
    with tf.Session(tasks["worker0"].target) as session:
        call = session.make_callable([a * b, a + 1.0], [a, b])
        product, plus = call(2.0, [1.0, 2.0])
        assert product.tolist() == [2, 4] and plus == 3
        traced = session.make_callable(a + 1.0, [a], accept_options=True)
        metadata = tf.RunMetadata()
        assert traced(1.0, options=tf.RunOptions(trace_level=3), run_metadata=metadata) == 2
        assert metadata.step_stats.dev_stats


def test_partial_runs(tasks: Cluster, graph: Any) -> None:
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.device(PS):
        first = a + 1.0
    with tf.device(WORKER):
        second = first * b
    with tf.Session(tasks["worker0"].target) as session:
        handle = session.partial_run_setup([first, second], [a, b])
        assert session.partial_run(handle, first, {a: 1.0}) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="already been fed"):
            session.partial_run(handle, second, {a: 1.0, b: 1.0})
        assert session.partial_run(handle, second, {b: 5.0}) == 10
        with pytest.raises(tf.errors.InvalidArgumentError, match="No partial run"):
            session.partial_run(handle, second)


def test_options_and_metadata(tasks: Cluster, graph: Any) -> None:
    with tf.device(PS):
        a = tf.placeholder_with_default(2.0, [], name="a")
    with tf.device(OTHER):
        b = tf.square(a, name="b")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with tf.Session(tasks["worker0"].target) as session:
        assert session.run(b, options=options, run_metadata=metadata) == 4
    devices = {d.device for d in metadata.step_stats.dev_stats}
    assert any("ps" in d for d in devices) and any("worker/replica:0/task:1" in d for d in devices)
    assert len(metadata.partition_graphs) == 2


def test_errors_come_back_as_themselves(tasks: Cluster, graph: Any) -> None:
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [None])
        bad = tf.reshape(x, [7, 7], name="bad")
        v = tf.Variable(1.0, name="v")
    with tf.Session(tasks["worker0"].target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[\[node bad \(Reshape\) on /job:ps") as caught:
            session.run(bad, {x: [1.0]})
        assert caught.value.op is bad.op and "defined at" in caught.value.message
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            session.run(v)
        with tf.device("/job:nobody"):
            nowhere = tf.identity(x)
        with pytest.raises(tf.errors.InvalidArgumentError, match="job:nobody"):
            session.run(nowhere, {x: [1.0]})
        assert session.run(x, {x: [1.0]}).tolist() == [1], "the session lives on"


def test_deadlines(tasks: Cluster, graph: Any) -> None:
    with tf.device(PS):
        item = tf.FIFOQueue(1, [tf.float32], name="empty").dequeue()
    with tf.Session(tasks["worker0"].target) as session:
        options = tf.RunOptions(timeout_in_ms=100)
        with pytest.raises(tf.errors.DeadlineExceededError, match="/job:ps/replica:0/task:0"):
            session.run(item, options=options)
    config = tf.ConfigProto(operation_timeout_in_ms=500)  # which the session is to be opened in, too
    with (
        tf.Session(tasks["ps0"].target, config=config) as session,
        pytest.raises(tf.errors.DeadlineExceededError, match="empty"),
    ):
        session.run(item)


def _until_waiting(session: tf.Session, item: Any, want: int) -> None:
    """Until so many other steps wait for a queue that is empty: who asks for an item in vain is told their number."""
    deadline = time.monotonic() + 20
    while True:
        with pytest.raises(tf.errors.DeadlineExceededError) as error:
            session.run(item, options=tf.RunOptions(timeout_in_ms=100))
        found = re.search(r"and (\d+) dequeues waiting", error.value.message)
        if found and int(found[1]) - 1 == want:
            return
        assert time.monotonic() < deadline, error.value.message


def test_steps_of_one_client_run_at_once_and_close_ends_them(tasks: Cluster, graph: Any) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(1, [tf.float32], shared_name="q")
        put, get, again, probe = queue.enqueue([2.0]), queue.dequeue(), queue.dequeue(), queue.dequeue()
    session = tf.Session(tasks["worker0"].target)
    with ThreadPoolExecutor(2) as pool:
        taken = pool.submit(session.run, get)
        session.run(put)
        assert taken.result(10) == 2
        waiting = pool.submit(session.run, again)
        with tf.Session(tasks["worker0"].target) as other:
            _until_waiting(other, probe, 1)
        session.close()
        with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
            waiting.result(10)
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(put)


def test_the_steps_of_a_client_that_dies_are_cancelled(tasks: Cluster, graph: Any) -> None:
    """A dequeue that nobody waits for any more must not take what comes next."""
    program = f"""
import sparkflow as tf
with tf.device("{PS}"):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name="q")
    item = queue.dequeue()
    begun = tf.Variable(0.0, name="begun")
session = tf.Session("{tasks["worker0"].target}")
session.run(begun.initializer)
print("begins", flush=True)
session.run(item)
"""
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name="q")
        item, put, size = queue.dequeue(), queue.enqueue([1.0]), queue.size()
    client = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with tf.Session(tasks["worker1"].target) as session:
        assert client.stdout is not None and client.stdout.readline() == "begins\n"
        _until_waiting(session, item, 1)
        client.kill()
        client.communicate()
        _until_waiting(session, item, 0)
        session.run(put)
        assert session.run(size) == 1


def test_an_interrupted_run_is_cancelled_at_the_master(
    tasks: Cluster, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name="q")
        item, put, size = queue.dequeue(), queue.enqueue([1.0]), queue.size()
    with tf.Session(tasks["worker0"].target) as session, tf.Session(tasks["worker1"].target) as other:
        session.run(size)
        channel = session._runtime._channel
        call = channel.call

        def interrupted(*args: Any) -> Any:
            ThreadPoolExecutor(1).submit(call, *args)
            _until_waiting(other, item, 1)
            raise KeyboardInterrupt

        monkeypatch.setattr(channel, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run(item)
        monkeypatch.undo()
        _until_waiting(other, item, 0)
        session.run(put)
        assert session.run(size) == 1


def test_an_interrupted_partial_run_takes_nothing_more(
    tasks: Cluster, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name="q")
        item, put, size = queue.dequeue(), queue.enqueue([1.0]), queue.size()
    with tf.Session(tasks["worker0"].target) as session, tf.Session(tasks["worker1"].target) as other:
        handle = session.partial_run_setup([item])
        _until_waiting(other, item, 1)
        channel = session._runtime._channel

        def interrupted(*args: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(channel, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.partial_run(handle, item)
        monkeypatch.undo()
        _until_waiting(other, item, 0)
        session.run(put)
        assert session.run(size) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="it is finished"):
            session.partial_run(handle, item)


def test_reset_ends_the_sessions_and_drops_what_they_made(tasks: Cluster, graph: Any) -> None:
    with tf.device(PS):
        v = tf.Variable(1.0)
    with tf.Session(tasks["worker0"].target) as session:
        session.run(v.initializer)
        tf.Session.reset(tasks["worker1"].target)
        for run_before_or_not in (v.initializer, v, v.initializer):
            with pytest.raises(tf.errors.AbortedError):
                session.run(run_before_or_not)
    with tf.Session(tasks["worker0"].target) as session, pytest.raises(tf.errors.FailedPreconditionError):
        session.run(v)


def test_many_signatures(tasks: Cluster, graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client forgets the numbers of old ones, and says their names again."""
    monkeypatch.setattr("sparkflow_runtime.wire.sessions.MAX_SIGNATURES", 4)
    made = [tf.constant(float(i)) + 1.0 for i in range(10)]
    with tf.Session(tasks["worker0"].target) as session:
        for _ in range(2):
            assert [session.run(m) for m in made] == [float(i) + 1 for i in range(10)]


def test_refusals(tasks: Cluster, graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected '', sparkflow://host:port"):
        tf.Session("ftp://127.0.0.1:1")
    quick = tf.ConfigProto(operation_timeout_in_ms=200)
    with pytest.raises(tf.errors.UnavailableError, match=r"no Server answers after 0\.2 s"):
        tf.Session("grpc://127.0.0.1:1", config=quick)
    monkeypatch.setenv("SPARKFLOW_SECRET", "another")
    with pytest.raises(tf.errors.UnauthenticatedError):
        tf.Session(tasks["worker0"].target)


def test_nonsense_is_refused_and_the_server_serves_on(tasks: Cluster, graph: Any) -> None:
    rng, x = np.random.default_rng(0), tf.placeholder(tf.float32, [2])
    address = tasks["worker0"].address
    with tf.Session(tasks["worker0"].target) as session:
        assert session.run(x, {x: [1.0, 2.0]}).tolist() == [1, 2]
        channel = session._runtime._channel
        for method in sessions.METHODS:
            for size in (0, 1, 8, 20, 28, 100):
                for tensors in ([], [rng.integers(0, 255, 16).astype(np.uint8)]):
                    meta = rng.bytes(size)
                    if method == sessions.CANCEL:
                        channel.push(method, meta, tensors)
                        continue
                    with contextlib.suppress(tf.errors.OpError):
                        channel.call(method, meta, tensors, 10)
        stranger = dial(f"tcp://{address}", None, b"secret", "nobody")
        for method in sessions.METHODS:
            if method not in (sessions.OPEN, sessions.RESET_ALL, sessions.CANCEL):
                with pytest.raises(tf.errors.FailedPreconditionError, match="has opened no session"):
                    stranger.call(method, sessions.StepRequest(1, 1).encode(), [], 10)
        stranger.close()
        step = sessions.StepRequest(1, 1, b"", sessions.Signature(("x:0",), ("x:0",), ()).encode())
        with pytest.raises(tf.errors.OpError):
            channel.call(sessions.STEP, step.encode(), [], 10)
        assert session.run(x, {x: [1.0, 2.0]}).tolist() == [1, 2]


def test_a_lost_master(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKFLOW_SECRET", "secret")
    cluster = Cluster(worker=1)
    try:
        item = tf.FIFOQueue(1, [tf.float32]).dequeue()
        session = tf.Session(cluster["worker0"].target)
        threading.Timer(0.3, cluster["worker0"].process.kill).start()
        for _ in range(2):
            with pytest.raises(tf.errors.UnavailableError, match=r"The session at sparkflow.* is lost"):
                session.run(item)
        session.close()
    finally:
        cluster.stop()
