"""Loops whose nodes are on several tasks: control loops, transfers of an iteration, and how such a step ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.server import Server
from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import DeadlineExceededError, InvalidArgumentError, UnimplementedError
from tests.control_flow_random import build, evaluate, generate, gradients

WORKER, PS, PS1 = "/job:worker/task:0", "/job:ps/task:0", "/job:ps/task:1"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    made = [Server(job, index, "127.0.0.1:0", b"secret") for job, index in (("worker", 0), ("ps", 0), ("ps", 1))]
    cluster = ClusterSpec({"worker": [made[0].address], "ps": [s.address for s in made[1:]]})
    for server in made:
        server.join_cluster(cluster)
    yield made
    for server in made:
        server.stop()


class Cluster:
    """One graph and a session on the worker's server."""

    def __init__(self, servers: list[Server]):
        self.servers, self.graph = servers, tf.Graph()
        self.session = RuntimeSession(servers[0])
        self.pushed = 0

    def run(self, fetches: Any, feeds: dict[Any, Any] | None = None, timeout_s: float = 30) -> Any:
        """The values of a list of tensors, None for None."""
        if not self.session._master.nodes:
            self.session.extend(self.graph.as_graph_def())
        fed = {t.name: np.asarray(v, t.dtype.as_numpy_dtype) for t, v in (feeds or {}).items()}
        names = [f.name for f in fetches if isinstance(f, tf.Tensor)]
        targets = [f.name for f in fetches if isinstance(f, tf.Operation)]
        values = iter(self.session.run(fed, names, targets, tf.RunOptions(timeout_in_ms=int(1000 * timeout_s))))
        return [next(values) if isinstance(f, tf.Tensor) else None for f in fetches]

    def tasks_of_loops(self) -> set[str]:
        """The tasks that got a share of a loop."""
        [compiled] = [c for c in self.session._master._compiled.values()][-1:]
        return {task for task, part in compiled.graphs.items() if any(n.op == "LoopCond" for n in part.node)}


@pytest.fixture
def cluster(servers: list[Server]) -> Iterator[Cluster]:
    made = Cluster(servers)
    with made.graph.as_default():
        yield made
    made.session.close()


def test_a_body_on_two_tasks(cluster: Cluster) -> None:
    with tf.device(WORKER):
        x, n = tf.placeholder(tf.float64, [2]), tf.placeholder(tf.int32, [])

        def body(i: Any, y: Any) -> Any:
            with tf.device(PS):
                z = tf.sin(y * x)
            return i + 1, z + y

        count, y = tf.while_loop(lambda i, _: i < n, body, [0, x])
    want = start = np.array([0.3, 0.8])
    for k in range(4):
        found = cluster.run([count, y], {x: start, n: k})
        assert found[0] == k
        np.testing.assert_allclose(found[1], want, rtol=1e-12)
        want = np.sin(want * start) + want
    assert cluster.tasks_of_loops() == {"/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"}


def test_an_iteration_is_one_message_each_way(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition and all values for the other task travel together; what does not change crosses once."""
    with tf.device(WORKER):
        xs = [tf.placeholder(tf.float64, [2]) for _ in range(3)]

        def body(i: Any, *ys: Any) -> Any:
            with tf.device(PS):
                zs = [tf.sin(y) * xs[2] for y in ys]
            return [i + 1, *(z + xs[1] for z in zs)]

        out = tf.while_loop(lambda i, *_: i < 50, body, [0, *xs])
    feeds = {x: np.ones(2) for x in xs}
    cluster.run(out, feeds)
    pushes = []
    for server in cluster.servers:
        real = server.worker._push
        monkeypatch.setattr(server.worker, "_push", lambda *a, real=real: (pushes.append(a[:3]), real(*a)))
    cluster.run(out, feeds)
    assert len(pushes) <= 2 * 50 + 4


def test_a_variable_of_another_task_is_updated_and_read_in_a_loop(cluster: Cluster) -> None:
    with tf.device(PS):
        v = tf.Variable(np.float64(1.0))
    with tf.device(WORKER):

        def body(i: Any, s: Any) -> Any:
            with tf.control_dependencies([s]):
                total = tf.assign_add(v, tf.cast(i, tf.float64))
            return i + 1, s * 0.5 + total

        _, s = tf.while_loop(lambda i, _: i < 4, body, [0, tf.zeros([], tf.float64)], parallel_iterations=1)
    cluster.run([v.initializer])
    want = value = 0.0
    for step in range(2):
        value = 1.0 + 6.0 * step
        want = 0.0
        for i in range(4):
            value += i
            want = want * 0.5 + value
        assert cluster.run([s])[0] == want


def test_branches_and_loops_inside(cluster: Cluster) -> None:
    """A branch that only another task takes, with a loop in it that is on three tasks."""
    with tf.device(WORKER):
        x = tf.placeholder(tf.float64, [])

        def inner(y: Any) -> Any:
            def step(j: Any, z: Any) -> Any:
                with tf.device(PS1):
                    z = z * x
                with tf.device(PS):
                    return j + 1, z + 0.1

            return tf.while_loop(lambda j, _: j < 3, step, [0, y])[1]

        def body(i: Any, y: Any) -> Any:
            with tf.device(PS):
                return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: inner(y), lambda: y - 1.0)

        _, y = tf.while_loop(lambda i, _: i < 3, body, [0, x])
        (dx,) = tf.gradients(y, x)

    def value(x: float) -> float:
        y = x
        for i in range(3):
            if i % 2:
                y -= 1.0
            else:
                for _ in range(3):
                    y = y * x + 0.1
        return y

    found = cluster.run([y, dx], {x: 0.7})
    assert found[0] == pytest.approx(value(0.7), rel=1e-12)
    assert found[1] == pytest.approx((value(0.7 + 1e-6) - value(0.7 - 1e-6)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("native", [True, False], ids=["native", "frames"])
@pytest.mark.parametrize("seed", [*range(8), 105, 1092])
def test_random_programs(cluster: Cluster, seed: int, native: bool) -> None:
    made = generate(seed, 7)
    feeds, loss, xs = build(tf, made, (WORKER, PS, PS1))
    fetches = gradients(tf, loss, xs, 2)
    for server in cluster.servers:
        server.worker.native_loops = native
    found = cluster.run(fetches, feeds)
    wanted = evaluate(made, 2)
    np.testing.assert_allclose([0.0 if f is None else f for f in found], wanted, rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------------- how such a step ends


def _with_body(on_ps: Any, iterations: int = 1000) -> Any:
    with tf.device(WORKER):

        def body(i: Any, y: Any) -> Any:
            with tf.device(PS):
                z = on_ps(i, y)
            return i + 1, z + 1.0

        return tf.while_loop(lambda i, _: i < iterations, body, [0, tf.ones([], tf.float64)])[1]


def test_an_error_in_an_iteration_elsewhere_ends_the_step(cluster: Cluster) -> None:
    limit = tf.placeholder(tf.int32, [])

    def checked(i: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.Assert(i < limit, ["too far", i])]):
            return tf.identity(y)

    y = _with_body(checked, 20)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"too far\] \[7\]"):
            cluster.run([y], {limit: 7})
        assert cluster.run([y], {limit: 99})[0] == 21.0


def test_a_wait_in_an_iteration_elsewhere_ends_with_the_deadline(cluster: Cluster) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(10, [tf.float64], [()])
    fill, size = queue.enqueue_many([np.arange(3.0)]), queue.size()
    y = _with_body(lambda i, y: y + queue.dequeue())
    cluster.run([fill])
    begun_s = time.monotonic()
    with pytest.raises(DeadlineExceededError, match=r"QueueDequeue|nothing yet from|no answer"):
        cluster.run([y], timeout_s=0.5)
    assert time.monotonic() - begun_s < 20
    cluster.run([fill])
    assert cluster.run([size])[0] == 3


def test_a_loop_of_another_shape_over_tasks_is_refused(cluster: Cluster, node: Any, graph_def: Any) -> None:
    frame = {"frame_name": "loop"}
    cluster.session.extend(
        graph_def(
            node("x", "Const", device=WORKER, value=np.float32(1)),
            node("in", "Enter", "x", device=WORKER, **frame),
            node("neg", "Neg", "in", device=PS),
            node("out", "Exit", "neg", device=PS),
        )
    )
    with pytest.raises(UnimplementedError, match=r"'loop' has nodes on 2 tasks: .* and loop 'loop' has no LoopCond"):
        cluster.session.run({}, ["out:0"], [])


@pytest.mark.parametrize("looping", [False, True])
def test_a_loop_in_a_branch_that_constants_choose(cluster: Cluster, looping: bool) -> None:
    """The predicate and its copy for the branch are on two tasks, where folding makes two constants of them."""
    x = tf.placeholder(tf.float32, [2])
    with tf.device(PS):
        doubled = tf.reduce_all(tf.constant([1.0, 2.0]) > (5.0 if looping else 0.0))

    def loop() -> Any:
        with tf.device(PS1):
            one = tf.identity(x) + tf.constant(1.0)
            return tf.while_loop(lambda i, _: i < 3, lambda i, y: (step(i), y * one), [0, x])[1]

    def step(i: Any) -> Any:
        with tf.device(PS):
            return i + 1

    with tf.device(WORKER):
        y = tf.cond(doubled, lambda: x * 2.0, loop)
    start = np.array([0.5, 2.0], np.float32)
    [found] = cluster.run([y], {x: start})
    np.testing.assert_allclose(found, start * (start + 1) ** 3 if looping else start * 2, rtol=1e-5)
