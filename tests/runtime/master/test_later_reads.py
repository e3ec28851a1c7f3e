"""Reads that are used after an assignment at another task see what was assigned, as those of one task do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (which ops take variables themselves)
from sparkflow_runtime.master.later_reads import later_reads
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

PS, WORKER = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"


def _graph(*rows: tuple[str, str, str, list[str]]) -> GraphDef:
    return GraphDef(node=[NodeDef(name=name, op=op, device=device, input=inputs) for name, op, device, inputs in rows])


VARIABLE = [("v", "VariableV2", PS, []), ("v/read", "Identity", PS, ["v"]), ("one", "Const", PS, [])]


def test_a_user_behind_an_assignment_gets_a_read_of_its_own() -> None:
    graph = _graph(
        *VARIABLE,
        ("add", "AssignAdd", PS, ["v", "one"]),
        ("train", "NoOp", WORKER, ["^add"]),
        ("before", "Neg", WORKER, ["v/read"]),
        ("after", "AddV2", WORKER, ["v/read", "v/read:0", "^train"]),
        ("here", "Neg", PS, ["v/read", "^add"]),
    )
    nodes = {n.name: n for n in later_reads(graph).node}
    (fresh,) = nodes.keys() - {n.name for n in graph.node}
    assert list(nodes[fresh].input) == ["v", "^train"] and nodes[fresh].device == PS
    assert list(nodes["after"].input) == [fresh, fresh, "^train"]
    assert [list(nodes[name].input) for name in ("before", "here")] == [["v/read"], ["v/read", "^add"]]


def test_a_graph_without_such_users_stays_as_it_is() -> None:
    other = [("w", "VariableV2", PS, []), ("add", "AssignAdd", PS, ["w", "one"])]
    graph = _graph(*VARIABLE, *other, ("after", "Neg", WORKER, ["v/read", "^add"]))
    assert later_reads(graph) is graph


@pytest.mark.parametrize("use_resource", [False, True])
def test_what_follows_a_training_step_sees_its_variables(cluster: Any, graph: Any, use_resource: bool) -> None:
    servers = cluster(ps=2, worker=1)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=use_resource)
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(v), step)
        with tf.control_dependencies([train]):
            seen = [tf.cast(step, tf.float32), tf.to_float(step) + v, tf.reduce_sum(v)]
            average = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
            apply = average.apply([v])
    expected = np.float32([1, 2])
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        for n in range(1, 20, 2):
            at, both, total = session.run(seen)
            assert (at, both.tolist(), total) == (n, [2 * n + 1, 2 * n + 2], 2 * n + 3)
            session.run(apply)
            decay = min(0.9, (2 + n) / (11 + n))
            expected = decay * expected + (1 - decay) * np.float32([n + 2, n + 3])
            np.testing.assert_allclose(session.run(average.average(v)), expected, rtol=1e-5)
