"""Branches over several tasks, and loops on another task: dead values travel as such."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.server import Server
from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.dtypes import float32
from sparkflow_runtime.wire.errors import InternalError

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def F(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@pytest.fixture(params=[True, False], ids=["native", "frames"])
def session(request: Any) -> Iterator[RuntimeSession]:
    servers = {job: Server(job, 0, "127.0.0.1:0", b"secret") for job in ("ps", "worker")}
    for server in servers.values():
        server.join_cluster(ClusterSpec({job: [s.address] for job, s in servers.items()}))
        server.worker.native_loops = request.param
    made = RuntimeSession(servers["worker"])
    yield made
    made.close()
    for server in servers.values():
        server.stop()


def _branches(node: Callable[..., Any], graph_def: Callable[..., Any]) -> Any:
    """p ? assign_add(v, 2) : v * 10, with v and its update on the server, all else on the worker."""
    return graph_def(
        node("p", "Placeholder", device=WORKER),
        node("v", "VariableV2", device=PS, dtype=float32, shape=Shape(())),
        node("init", "Assign", "v", "zero", device=PS),
        node("zero", "Const", device=PS, value=F(1)),
        node("pivot", "Switch", "p", "p", device=WORKER),
        node("pivot_t", "Identity", "pivot:1", device=WORKER),
        node("ref", "RefSwitch", "v", "p", device=PS),
        node("two", "Const", "^pivot_t", device=PS, value=F(2)),
        node("add", "AssignAdd", "ref:1", "two", device=PS),
        node("value", "Switch", "v", "p", device=PS),
        node("ten", "Const", device=WORKER, value=F(10)),
        node("mul", "Mul", "value", "ten", device=WORKER),
        node("merge", "Merge", "mul", "add", device=WORKER),
        node("twice", "Mul", "merge", "merge:0", device=PS),
        node("touched", "NoOp", "^add", device=WORKER),
        node("read", "Identity", "v", "^merge", device=PS),
    )


def test_a_branch_over_two_tasks(session: RuntimeSession, node: Any, graph_def: Any) -> None:
    session.extend(_branches(node, graph_def))
    session.run({}, [], ["init"])
    taken = lambda p: session.run({"p:0": np.bool_(p)}, ["merge:0", "merge:1", "twice:0", "read:0"], ["touched"])  # noqa: E731
    assert [float(v) for v in taken(True)] == [3, 1, 9, 3]
    assert [float(v) for v in taken(False)] == [30, 0, 900, 3]
    assert [float(v) for v in taken(True)] == [5, 1, 25, 5]


def test_a_dead_value_from_another_task_cannot_be_fetched(session: RuntimeSession, node: Any, graph_def: Any) -> None:
    session.extend(_branches(node, graph_def))
    session.run({}, [], ["init"])
    assert float(session.run({"p:0": np.bool_(False)}, ["mul:0"], [])[0]) == 10
    for fetch in ("mul:0", "value:0"):
        with pytest.raises(InternalError, match=f"Fetch '{fetch}' does not have a value"):
            session.run({"p:0": np.bool_(True)}, [fetch], [])


def _loop(node: Callable[..., Any], body_device: str, wait: bool = False) -> list[Any]:
    """while i < n: i, s = i + 1, s * x."""
    frame = {"frame_name": "loop", "parallel_iterations": 10}
    device = {"device": body_device}
    return [
        node("n", "Placeholder", device=WORKER),
        node("x", "Const", device=PS, value=F(3)),
        node("zero", "Const", value=F(0)),
        node("one", "Const", value=F(1)),
        node("i0", "Enter", "zero", **frame),
        node("s0", "Enter", "one", **frame),
        node("nn", "Enter", "n", is_constant=True, **frame),
        node("xx", "Enter", "x", is_constant=True, **frame),
        node("i", "Merge", "i0", "i2"),
        node("s", "Merge", "s0", "s2"),
        node("less", "Less", "i", "nn", **device),
        node("again", "LoopCond", "less"),
        node("si", "Switch", "i", "again"),
        node("ss", "Switch", "s", "again"),
        node("step", "Const", "^pivot", value=F(1)),
        node("pivot", "Identity", "si:1"),
        node("i1", "AddV2", "pivot", "step"),
        node("s1", "Mul", "ss:1", "xx", **device),
        node("i2", "NextIteration", "i1"),
        node("s2", "NextIteration", "s1"),
        node("out", "Exit", "ss"),
        node("half", "RealDiv", "out", "x", device=PS),
        node("count", "Exit", "si"),
    ]


@pytest.mark.parametrize("device", ["", PS, WORKER])
def test_a_loop_on_one_task_with_inputs_from_and_results_for_another(
    session: RuntimeSession, node: Any, graph_def: Any, device: str
) -> None:
    session.extend(graph_def(*_loop(node, device)))
    for n in (0, 4):
        values = session.run({"n:0": F(n)}, ["out:0", "half:0", "count:0"], [])
        assert [float(v) for v in values] == [3.0**n, pytest.approx(3.0 ** (n - 1)), n]


def test_a_loop_and_its_gradient_on_another_task(session: RuntimeSession) -> None:
    """The gradient's loop asks for no device: it goes where the stacks of the forward loop are. So does the random op,
    which has state but no name that other steps would know it by."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [], name="x")
        with tf.device(PS):
            _, s = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s * x)), [0, x])
        with tf.device(WORKER):
            y = tf.cond(x > 0, lambda: s * 2.0, lambda: x)
        [g] = tf.gradients(y, x)
        session.extend(graph.as_graph_def())
    names = [y.name, g.name]
    step = 1e-6
    _, slope = session.run({"x:0": np.float64(0.7)}, names, [])
    above, below = (session.run({"x:0": np.float64(0.7 + d)}, names[:1], [])[0] for d in (step, -step))
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-6)
    assert session.run({"x:0": np.float64(-1)}, names, []) == [-1, 1]


def test_random_numbers_in_a_loop_follow_it(session: RuntimeSession) -> None:
    with tf.Graph().as_default() as graph:
        with tf.device(PS):
            start = tf.zeros([2])
        body = lambda i, s: (i + 1, s + tf.random_uniform([2]))  # noqa: E731
        with tf.device(lambda op: PS if op.type == "Merge" else ""):
            _, s = tf.while_loop(lambda i, s: i < 4, body, [0, start])
        session.extend(graph.as_graph_def())
    values = session.run({}, [s.name], [])[0]
    assert (values > 0).all() and values[0] != values[1]
