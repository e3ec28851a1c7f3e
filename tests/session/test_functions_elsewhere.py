"""Python functions and iterators of datasets whose nodes are on tasks of other processes, or of which a client is the
maker: they are called where they were made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.transport import dial
from sparkflow_runtime.wire import sessions
from sparkflow_runtime.wire.errors import DataLossError
from tests.session.processes import Cluster, Task

WORKER, PS = "/job:worker/task:0", "/job:ps/task:0"


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, str]]:
    """Of two processes, and of a server of this one in a cluster with another process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKFLOW_SECRET", "secret")
        cluster, other = Cluster(ps=1, worker=1), Task("ps", 0).begin()
        own = tf.train.Server({"ps": [other.address], "worker": ["127.0.0.1:0"]}, "worker", 0)
        other.join({"ps": [other.address], "worker": [own.address]})
        yield {"client": cluster["worker0"].target, "master": own.target}
        own.stop()
        other.stop()
        cluster.stop()


@pytest.fixture(params=["client", "master"])
def target(request: pytest.FixtureRequest, targets: dict[str, str]) -> str:
    return targets[request.param]


@pytest.mark.parametrize("device", [PS, WORKER, "/job:ps", None])
def test_iterators_of_datasets(target: str, graph: Any, device: str | None) -> None:
    with tf.device(device):
        squares = tf.data.Dataset.range(6).map(lambda x: x * x).batch(2)
        once = tf.data.make_one_shot_iterator(squares).get_next()
        again = tf.data.make_initializable_iterator(squares)
        mine = again.get_next()
    with tf.device(PS):
        v = tf.Variable(np.zeros(2, np.int64))
        added = v.assign_add(once)
    with tf.Session(target) as session:
        session.run([v.initializer, again.initializer])
        assert session.run(once).tolist() == [0, 1] and session.run(added).tolist() == [4, 9]
        assert [session.run(mine).tolist() for _ in range(2)] == [[0, 1], [4, 9]]
        session.run(again.initializer)
        assert session.run(mine).tolist() == [0, 1]
        session.run(once)
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            session.run(once)
        with tf.Session(target) as second:
            assert second.run(once).tolist() == [0, 1]
            with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
                second.run(mine)


def test_an_iterator_of_several_processes_is_refused(target: str, graph: Any) -> None:
    """Each would have one of its own, and elements that are there once would be there for each."""
    with tf.device(PS):
        shared = tf.data.make_initializable_iterator(tf.data.Dataset.range(3), shared_name="ours")
    with (
        tf.Session(target) as session,
        pytest.raises(
            tf.errors.UnimplementedError, match=r"'ours', would be on /job:ps/task:0(.|\n)*Leave the shared_name"
        ),
    ):
        session.run(shared.initializer)


def test_a_handle_names_an_iterator(target: str, graph: Any) -> None:
    with tf.device(PS):
        one, two = (tf.data.make_one_shot_iterator(tf.data.Dataset.range(n, 9)) for n in (0, 5))
        handle = tf.placeholder(tf.string, [])
        fed = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
        told = [one.string_handle(), two.string_handle()]
    with tf.Session(target) as session:
        names = session.run(told)
        assert [session.run(fed, {handle: h}) for h in names * 2] == [0, 5, 1, 6]


def test_functions(target: str, graph: Any) -> None:
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [])
        text, twice = tf.py_func(lambda a: [b"\0%d" % a, a * np.float32(2)], [x], [tf.string, tf.float32])
        wrong = tf.py_func(lambda a: 1 // 0, [x], tf.float32)
        kind = tf.py_func(lambda a: 3, [x], tf.float32)
        loop = tf.while_loop(lambda a: a < 3, lambda a: tf.py_func(lambda b: b + np.float32(1), [a], a.dtype), [x],
                             shape_invariants=[tf.TensorShape(None)])  # fmt: skip
        nothing = tf.py_func(lambda: None, [], [])
    with tf.Session(target) as session:
        assert session.run([text, twice], {x: 3.0}) == [b"\x003", 6]
        assert session.run(loop, {x: 0.5}) == 3.5 and session.run(nothing) in (None, [])
        with pytest.raises(tf.errors.UnknownError, match=r"ZeroDivisionError(.|\n)*node PyFunc_1 .* on /job:worker/"):
            session.run(wrong, {x: 3.0})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"0-th value .* is int64, but expects float32"):
            session.run(kind, {x: 3.0})


def test_a_step_does_not_wait_for_a_function_longer_than_it_may(targets: dict[str, str], graph: Any) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> np.float32:
        begun.set()
        assert go.wait(20)
        return np.float32(1)

    value, other = tf.py_func(slow, [], tf.float32), tf.py_func(lambda: np.float32(2), [], tf.float32)
    with tf.Session(targets["client"]) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="waits for its client's function"):
            session.run(value, options=tf.RunOptions(timeout_in_ms=300))
        assert session.run(other) == 2, "beside it"
        begun.clear()
        errors: list[tf.errors.OpError] = []

        def run() -> None:
            with pytest.raises(tf.errors.CancelledError) as error:
                session.run(value)
            errors.append(error.value)

        waits = threading.Thread(target=run)
        waits.start()
        assert begun.wait(20)
    waits.join(20)
    go.set()
    assert len(errors) == 1


def test_a_function_of_nobody_is_refused(targets: dict[str, str], graph: Any) -> None:
    tf.import_graph_def(_with_token("pyfunc_0_of another process"), name="")
    for target in targets.values():
        with (
            tf.Session(target) as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="no function 'pyfunc_0_of another process'"),
        ):
            session.run("PyFunc:0")


def _with_token(token: str) -> Any:
    with tf.Graph().as_default() as made:
        tf.py_func(lambda: np.float32(1), [], tf.float32)
    graph_def = made.as_graph_def()
    graph_def.node[0].attr["token"].s = token.encode()
    return graph_def


def test_a_server_calls_its_clients_alone(targets: dict[str, str]) -> None:
    channel = dial(targets["client"].replace("sparkflow", "tcp"), None, b"secret", "nobody")
    with pytest.raises(tf.errors.UnimplementedError, match="no method 39"):
        channel.call(sessions.CALL, sessions.FunctionCall("n", "pyfunc_0", (), None).encode(), (), 10)
    channel.close()
    for nonsense in (b"", b"{}", b'["a", "b", [1], null]'):
        with pytest.raises(DataLossError, match="No call of a function"):
            sessions.FunctionCall.decode(nonsense)
    call = sessions.FunctionCall("n", "t", ("float",), None)
    assert sessions.FunctionCall.decode(call.encode()) == call
