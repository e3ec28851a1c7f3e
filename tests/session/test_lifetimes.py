"""What a session keeps and for how long: nodes sent once, containers, resets, compiled signatures, threads."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime.master.signatures import Signatures
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.worker.worker import _MOST_ENDED, Worker


@pytest.fixture
def target() -> Iterator[str]:
    server = Server.create_local_server()
    yield server.target
    server.stop()


def test_only_new_nodes_are_sent(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a = tf.constant(1.0, name="a")
    with tf.Session() as session:
        sent: list[list[str]] = []
        extend = session._runtime.extend_unwritten
        told = lambda ops, *how: (sent.append([name for name, _, _ in ops]), extend(ops, *how))  # noqa: E731
        monkeypatch.setattr(session._runtime, "extend_unwritten", told)
        session.run(a)
        session.run(a)
        b = tf.add(a, a, name="b")
        session.run(b)
        session.make_callable(b)()
        tf.no_op(name="c")
        session.partial_run_setup([b])
    assert sent == [["a"], ["b"], ["c"]]


def test_threads_may_build_and_run_at_once(graph: Any) -> None:
    failed: list[BaseException] = []

    def work(session: tf.Session, number: int) -> None:
        try:
            with graph.as_default():
                for i in range(40):
                    assert session.run(tf.constant(number) * i) == number * i
        except BaseException as error:
            failed.append(error)

    tf.no_op()
    with tf.Session() as first, tf.Session() as second:
        threads = [threading.Thread(target=work, args=(s, n)) for n in range(1, 4) for s in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


def test_threads_that_name_nodes_at_once_mix_neither_names_nor_scopes(graph: Any) -> None:
    usual = sys.getswitchinterval()
    made: dict[int, list[str]] = {}

    def build(number: int) -> None:
        with graph.as_default(), tf.name_scope(f"thread{number}"):
            made[number] = [tf.constant(i, name="c").op.name for i in range(200)]
            for i in range(200):
                with tf.name_scope("inner"):
                    assert len(graph.operations_since(i)) >= 200 - i
            made[number].append(tf.constant(0, name="last").op.name)

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=build, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    for number, names in made.items():
        own = f"thread{number}/"
        assert names == [own + "c", *(f"{own}c_{i}" for i in range(1, 200)), own + "last"]
    assert [op.name for op in graph.get_operations()] == list(dict.fromkeys(op.name for op in graph.get_operations()))
    assert graph.version == 4 * 201 and graph.get_name_scope() == ""


@pytest.mark.parametrize("built", ["loop", "gradients"])
def test_a_run_beside_a_thread_that_builds_a_loop_sends_no_half_of_it(graph: Any, built: str) -> None:
    """A Merge gets its second input, and a forward loop its pushes, after they were made; a session sends a node
    once."""
    half, ran, failed = threading.Event(), threading.Event(), list[BaseException]()
    x = tf.constant(2.0)
    seen = tf.identity(x)

    @tf.custom_gradient
    def waiting(value: Any) -> Any:
        def gradient(dy: Any) -> Any:
            half.set()
            ran.wait(0.3)  # as long as the other thread's run waits for this one
            return 3 * dy

        return tf.identity(value), gradient

    def body(i: Any, total: Any) -> Any:
        if built == "loop":
            half.set()
            ran.wait(0.3)
        return i + 1, waiting(total) * x

    def run() -> None:
        half.wait(30)
        try:
            assert session.run(seen) == 2
        except BaseException as error:
            failed.append(error)
        ran.set()

    with tf.Session() as session:
        session.run(seen)
        other = threading.Thread(target=run)
        other.start()
        out = tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), x])[1]
        slope = tf.gradients(out, x)[0]
        assert session.run([out, slope]) == [16, 8 + 3 * 2 * 4 + 6**2 * 2 + 6**3]
        other.join()
    assert not failed


def test_graphs_and_sessions_of_one_process_do_not_mix() -> None:
    sessions = []
    for value in (1.0, 2.0):
        with tf.Graph().as_default() as graph:
            v = tf.Variable(value, name="v")
            sessions.append((tf.Session(graph=graph), v))
            sessions[-1][0].run(v.initializer)
    assert [session.run(v) for session, v in sessions] == [1, 2]
    assert [session.run("v:0") for session, _ in sessions] == [1, 2]
    for session, _ in sessions:
        session.close()


def test_containers_hold_what_is_made_inside(graph: Any) -> None:
    with tf.container("left"):
        a = tf.Variable(1.0, name="a")
        with tf.container("inner"):
            q = tf.FIFOQueue(1, [tf.float32], name="q")
    b = tf.Variable(1.0, name="b")
    assert a.op.get_attr("container") == b"left" and b.op.get_attr("container") == b""
    assert q.queue_ref.op.get_attr("container") == b"inner"
    assert (a + b).op.attrs.get("container") is None


def test_resources_of_a_server_outlive_sessions_until_their_container_is_reset(target: str) -> None:
    def build() -> tuple[Any, Any, Any]:
        with tf.Graph().as_default() as graph:
            with tf.container("kept"):
                kept = tf.Variable([1.0, 2.0], name="kept")
            dropped = tf.Variable([3.0], name="dropped")
            return graph, kept, dropped

    graph, kept, dropped = build()
    with tf.Session(target, graph) as session:
        session.run([kept.initializer, dropped.initializer])
    graph, kept, dropped = build()
    session = tf.Session(target, graph)
    assert session.run(kept).tolist() == [1, 2] and session.run(dropped).tolist() == [3]
    tf.Session.reset(target, [""])
    with pytest.raises(tf.errors.AbortedError, match="it was restarted, or the session was closed"):
        session.run(kept)
    session.close()
    with tf.Session(target, build()[0]) as session:
        assert session.run("kept:0").tolist() == [1, 2]
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value dropped"):
            session.run("dropped:0")


def test_sessions_without_a_target_have_containers_of_their_own(graph: Any) -> None:
    with tf.container("shared"):
        v = tf.Variable(1.0)
    with tf.Session() as first, tf.Session() as second:
        first.run(v.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError):
            second.run(v)


def test_a_session_goes_when_it_is_closed(graph: Any) -> None:
    v = tf.Variable(np.zeros(4, np.float32))
    session = tf.Session()
    session.run(v.initializer)
    session.make_callable(v)()
    runtime = weakref.ref(session._runtime)
    session.close()
    del session
    gc.collect()
    assert runtime() is None


def test_interactive_sessions_warn_of_each_other(graph: Any) -> None:
    first = tf.InteractiveSession()
    with pytest.warns(UserWarning, match="already active"):
        second = tf.InteractiveSession()
    assert tf.get_default_session() is second
    second.close()
    assert tf.get_default_session() is first
    first.close()
    first.close()
    assert tf.get_default_session() is None
    tf.InteractiveSession().close()


# ---------------------------------------------------------------------- compiled signatures


def test_the_least_recently_used_signatures_are_given_up() -> None:
    held: Signatures[str] = Signatures(most_nodes=350)
    assert held.put("a", "A", 0) == [] and held.put("b", "B", 0) == [] and held.put("c", "C", 0) == []
    assert held.get("a") == "A"
    assert held.put("d", "D", 0) == ["B"]
    assert held.get("b") is None and held.values() == ["C", "A", "D"]
    assert held.put("big", "BIG", 1000) == ["C", "A", "D"] and len(held) == 1


def test_parts_of_a_signature_go_with_it_but_not_under_a_callable(graph: Any) -> None:
    constants = [tf.constant(float(i)) for i in range(8)]
    with tf.Session() as session:
        master, worker = session._runtime._master, session._runtime._worker
        master._compiled = Signatures(most_nodes=350)  # three signatures of one node
        call = session.make_callable(constants[0])
        for constant in constants[1:]:
            session.run(constant)
        assert len(master._compiled) == 3 and len(worker._parts) == 4
        assert call() == 0.0
        del call
        assert len(worker._parts) == 3
        assert [session.run(c) for c in constants] == list(range(8))


def test_parts_at_other_tasks_go_too(graph: Any) -> None:
    servers = {job: Server.bound(job, 0, "127.0.0.1", b"secret") for job in ("ps", "worker")}
    for server in servers.values():
        server.join_cluster({job: [other.address] for job, other in servers.items()})
    with tf.device("/job:ps/task:0"):
        constants = [tf.constant(float(i)) for i in range(8)]
    try:
        with tf.Session(servers["worker"].target) as session:
            session._runtime._master._compiled = Signatures(most_nodes=350)
            assert [session.run(c) for c in constants] == list(range(8))
            parts = servers["ps"]._runtime.worker._parts
            until = time.monotonic() + 10
            while len(parts) > 3 and time.monotonic() < until:  # a thread of its own says what is gone
                time.sleep(0.01)
            assert len(parts) == 3
    finally:
        for server in servers.values():
            server.stop()


def our_objects() -> int:
    """Instances of our classes and functions of our generated code; other threads may be making others meanwhile."""
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    generated = [one for one in gc.get_objects() if type(one) is FunctionType and "<sparkflow" in str(one.__code__)]
    return sum(str(kind.__module__).startswith("sparkflow") for kind in kinds) + len(generated)


def test_runs_leave_nothing_behind(graph: Any) -> None:
    """Straight plans, plans that wait, errors, deadlines, partial runs: as many objects after more runs as before."""
    x = tf.placeholder(tf.float32, [2], name="x")
    queue = tf.FIFOQueue(10, [tf.float32])
    put, get = queue.enqueue([x[0]]), queue.dequeue()
    bad, double = tf.gather(x, tf.cast(x[1], tf.int32)), x * 2
    feed = {x: [1.0, 5.0]}

    def work(session: tf.Session, times: int) -> int:
        for _ in range(times):
            session.run([double, {"a": x}], feed)
            session.run(put, feed)
            session.run(get)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(bad, feed)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(get, options=tf.RunOptions(timeout_in_ms=1))
            handle = session.partial_run_setup([double], [x])
            session.partial_run(handle, double, feed)
        for thread in threading.enumerate():
            if "partial-run" in thread.name:
                thread.join()
        return our_objects()

    with tf.Session() as session:
        before = work(session, 30)
        assert work(session, 100) - before < 20


def test_signatures_of_one_graph_do_not_pile_up(graph: Any) -> None:
    constants = [tf.constant(float(i)) for i in range(60)]

    def work(session: tf.Session) -> int:
        for constant in constants:
            session.run([constant, constants[0]])
        return our_objects()

    with tf.Session() as session:
        session._runtime._master._compiled = Signatures(most_nodes=1000)
        work(session)
        before = work(session)
        assert work(session) - before < 20  # what other tests have left may go meanwhile


def test_a_part_that_is_compiled_while_its_session_ends_is_not_kept() -> None:
    worker, going, over = Worker("/job:ps/replica:0/task:0"), threading.Event(), threading.Event()
    graph = GraphDef(node=[NodeDef(name="v", op="VariableV2", device="/device:CPU:0")])
    graph.node[0].attr["dtype"].type = tf.float32.as_datatype_enum
    graph.node[0].attr["shape"].shape.SetInParent()
    bind = worker._bind

    def slow(*args: Any) -> Any:
        going.set()
        assert over.wait(20)
        return bind(*args)

    worker._bind = slow  # type: ignore[method-assign]
    for end in (lambda: worker.deregister("session"), worker.reset):
        going.clear()
        over.clear()
        with ThreadPoolExecutor(1) as pool:
            handle = pool.submit(worker.register, "session", graph, [], ["v:0"])
            assert going.wait(20)
            end()
            over.set()
            with pytest.raises(tf.errors.AbortedError, match="closed"):
                handle.result(20)
        assert not worker._parts and not worker._functions
        worker._ended.clear()


def test_sessions_that_ended_are_remembered_for_a_while() -> None:
    worker = Worker("/job:ps/replica:0/task:0")
    for i in range(2 * _MOST_ENDED):
        worker.deregister(f"session {i}")
    assert len(worker._ended) == _MOST_ENDED and f"session {2 * _MOST_ENDED - 1}" in worker._ended
