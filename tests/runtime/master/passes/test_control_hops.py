"""NoOps that go to the task which waits for them: when they go, and that effects keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.partition import partition
from sparkflow_runtime.master.passes.control_hops import shorten_control
from sparkflow_runtime.wire.edges import verify

PS0, PS1, WORKER = (f"/job:{job}/replica:0/task:{i}/device:CPU:0" for job, i in (("ps", 0), ("ps", 1), ("worker", 0)))


def _graph(node: Any, graph_def: Any, *more: Any) -> Any:
    """Two servers' effects, a NoOp of the worker behind both, and what waits for that on the first server."""
    return graph_def(
        node("a", "NoOp", device=PS0),
        node("b", "NoOp", device=PS1),
        node("joint", "NoOp", "^a", "^b", device=WORKER),
        node("end", "NoOp", "^joint", device=PS0),
        *more,
    )


def _devices(graph: Any) -> dict[str, str]:
    return {n.name: n.device for n in graph.node}


def test_a_joint_goes_to_the_task_that_waits_for_it(node: Any, graph_def: Any) -> None:
    given = _graph(node, graph_def)
    out = verify(shorten_control(given, {"end"}), [])
    assert _devices(out) == {**_devices(given), "joint": PS0}
    sends = [n for part in partition(out).values() for n in part.node if n.op == "_Send"]
    assert [(n.attr["send_device"].s, n.attr["recv_device"].s) for n in sends] == [
        (b"/job:ps/replica:0/task:1", b"/job:ps/replica:0/task:0")
    ]


@pytest.mark.parametrize("why", ["kept", "used here", "made here", "two tasks wait"])
def test_others_stay(node: Any, graph_def: Any, why: str) -> None:
    more = {
        "kept": [],
        "used here": [node("c", "NoOp", "^joint", device=WORKER)],
        "made here": [node("c", "NoOp", device=WORKER)],
        "two tasks wait": [node("c", "NoOp", "^joint", device=PS1)],
    }[why]
    given = _graph(node, graph_def, *more)
    if why == "made here":
        given.node[2].input.append("^c")
    kept = {"end", "joint"} if why == "kept" else {"end"}
    assert shorten_control(given, kept) == given


def test_a_step_counts_after_both_servers_updates(cluster: Any) -> None:
    servers = cluster(ps=2, worker=1)
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
            step = tf.train.get_or_create_global_step()
            x = tf.placeholder(tf.float32, [2], "x")
            variables = [tf.get_variable(f"v{i}", initializer=np.float32([1, 2])) for i in range(2)]
            loss = tf.add_n([tf.reduce_sum(v * x) for v in variables])
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=step)
            with tf.control_dependencies([train]):
                seen = [tf.identity(v.read_value()) for v in (step, *variables)]
        with tf.Session(servers["worker0"].target) as session:
            session.run(tf.global_variables_initializer())
            for n in range(1, 4):
                counted, *values = session.run(seen, {x: [1.0, 2.0]})
                assert counted == n
                assert [v.tolist() for v in values] == 2 * [[1 - 0.5 * n, 2 - n]]
