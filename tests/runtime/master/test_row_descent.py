"""Gradient descent of a gradient's rows as one op: where it is made, and what it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (what passes know of ops)
from sparkflow_runtime.kernels import memories, updates
from sparkflow_runtime.master.passes.row_descent import join_row_descent
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import RewriterConfig
from tests.stand_in_cupy import gpus

ROWS = 40


def model(dtype: Any = tf.float32, rate: Any = 0.1, tables: int = 1) -> Any:
    ids, losses = tf.placeholder(tf.int64, [None], "ids"), []
    for i in range(tables):
        start = np.random.default_rng(i).standard_normal((ROWS, 3 + i)).astype(dtype.as_numpy_dtype)
        table = tf.get_variable(f"t{i}", initializer=start)
        losses.append(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)) * (i + 1)))
    return tf.train.GradientDescentOptimizer(rate).minimize(tf.add_n(losses))


def joined(*fetches: str, targets: tuple[str, ...] = ()) -> Counter[str]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    feeds = ["ids:0"] if "ids" in nodes else []
    view = View.of(prune(nodes, feeds, list(fetches), list(targets)), feeds, fetches, targets, sources=nodes)
    join_row_descent(view)
    view.prune()
    return Counter(op.op for op in view.ops.values())


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_training_gives_the_same_bits(dtype: Any) -> None:
    """On its own task, rows of one id are subtracted in their order; a batch of none, and one of every row."""
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            train = model(dtype, tables=2)
            session.run(tf.global_variables_initializer())
            for batch in ([3, 39, 3, 0, 7, 3], [], list(range(ROWS)), [5]):
                session.run(train, {"ids:0": batch})
            results.append([v.tobytes() for v in session.run(tf.global_variables())])
    assert results[0] == results[1]


def test_what_is_joined(graph: Any) -> None:
    found = joined(targets=(model(tables=2).name,))
    assert found["_SparseApplyGradientDescent"] == 2 and not {"ScatterSub", "Mul"} <= found.keys()


@pytest.mark.parametrize("resource", [False, True])
def test_rates_that_change(graph: Any, resource: bool) -> None:
    with tf.variable_scope("", use_resource=resource):
        step = tf.train.get_or_create_global_step()
        train = model(rate=tf.train.exponential_decay(0.5, step, 1, 0.5))
    assert joined(targets=(train.name,))["_SparseApplyGradientDescent"] == 1
    with tf.Session() as session, tf.variable_scope("", reuse=True):
        session.run(tf.global_variables_initializer())
        table = tf.trainable_variables()[0]
        before = session.run(table)
        session.run(train, {"ids:0": [2, 2]})
        np.testing.assert_allclose(session.run(table)[2], before[2] * (1 - 2 * 0.5 * 2), rtol=1e-6)


def _tables(dtype: Any = tf.float32, shape: Any = (4, 2)) -> Any:
    return tf.Variable(tf.ones(shape, dtype), name="t")


def _ids(*shape: Any) -> Any:
    return tf.placeholder(tf.int32, shape or [None], "ids")


STAYS: dict[str, Callable[[], Any]] = {
    "a rate for each row": lambda: tf.scatter_sub(_tables(), _ids(), tf.ones([3, 2]) * tf.constant([[1.0], [2], [3]])),
    "one number for all": lambda: tf.scatter_sub(_tables(), _ids(), tf.constant(3.0) * 0.5),
    "whole numbers": lambda: tf.scatter_sub(_tables(tf.int32), _ids(), tf.ones([3, 2], tf.int32) * 2),
    "ids in rows": lambda: tf.scatter_sub(_tables(), _ids(None, 1), tf.ones([3, 1, 2]) * 0.5),
    "ids of no known rank": lambda: tf.scatter_sub(_tables(), tf.placeholder(tf.int32, None, "ids"), _halves()),
    "rows of the table itself": lambda: tf.scatter_sub(t := _tables(), _ids(), t * 0.5),
    "a view of it": lambda: tf.scatter_sub(t := _tables(), _ids(), tf.reshape(tf.identity(t)[1:], [-1, 2]) * 0.5),
    "what an assignment gives": lambda: tf.scatter_sub(t := _tables(), _ids(), tf.assign(t, t + 1.0) * 0.5),
    "no product": lambda: tf.scatter_sub(_tables(), _ids(), tf.ones([3, 2])),
    "a sum": lambda: tf.scatter_add(_tables(), _ids(), tf.ones([3, 2]) * 0.5),
}


def _halves() -> Any:
    return tf.placeholder_with_default(np.ones((3, 2), np.float32), [None, 2]) * 0.5


@pytest.mark.parametrize("why", STAYS)
def test_what_stays(graph: Any, why: str) -> None:
    assert not joined(targets=(STAYS[why]().op.name,))["_SparseApplyGradientDescent"]


def test_rows_of_the_table_itself_are_taken_before_any_changes(graph: Any) -> None:
    table = tf.Variable(np.array([[1.0], [2], [4], [8]], np.float32), name="t")
    train = tf.scatter_sub(table, [1, 0, 3, 2], table * 0.5)
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(train.op)
        assert session.run(table).ravel().tolist() == [0.0, 1.5, 0.0, 6.0]


@pytest.mark.parametrize("rule", ["GradientDescent", "LazyAdam", "DecayedAdam"])
def test_a_table_may_be_in_a_gpus_memory_as_before(rule: str, graph: Any) -> None:
    model()
    nodes = tf.get_default_graph().as_graph_def().node
    (update,) = (n for n in nodes if n.op == "ScatterSub")
    assert memories.computes(update)
    update.op = f"_SparseApply{rule}"
    assert memories.computes(update) and not memories.is_bound(update)


def test_what_is_asked_for_by_name_stays(graph: Any) -> None:
    product = _halves()
    train = tf.scatter_sub(_tables(), _ids(), product)
    assert joined(product.name, targets=(train.op.name,))["ScatterSub"] == 1


def test_errors_name_the_op_that_was_written(graph: Any) -> None:
    train = model()
    table = tf.trainable_variables()[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(table)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"40 is not in \[0, 40\)"):
            session.run(train, {"ids:0": [1, ROWS]})
        wrong = tf.scatter_sub(
            table, [1, ROWS], tf.placeholder_with_default(np.ones((2, 3), np.float32), [None, 3]) * 0.5
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"ScatterSub.*40 is not in \[0, 40\)"):
            session.run(wrong.op)
        assert session.run(table).tobytes() == before.tobytes()


def test_tables_on_servers_take_the_sums_of_their_rows(cluster: Any, graph: Any) -> None:
    """Of ids that repeat a worker sends one row."""
    servers = cluster(ps=1, worker=1)
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    with tf.device(setter):
        train = model(tables=2)
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    with tf.Session(servers["worker0"].target) as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.trainable_variables())
        batch = [3, 3, 9, 3, 0]
        session.run(train, {"ids:0": batch}, options=options, run_metadata=metadata)
        after = session.run(tf.trainable_variables())
    ops = Counter(n.op for part in metadata.partition_graphs for n in part.node)
    assert ops["_ApplyDistinct"] == ops["_SumToDistinct"] == 1 and not ops["ScatterSub"]
    ids, counts = np.unique(batch, return_counts=True)
    for k, (old, new) in enumerate(zip(before, after)):
        old[ids] *= 1 - 0.1 * 2 * (k + 1) * counts[:, None]
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)


def test_a_gpu_takes_rows_of_one_id_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in as many rounds as the id comes."""
    given: list[Any] = []
    change = updates.update_rows
    monkeypatch.setattr(updates, "update_rows", lambda *a: (given.append(sorted(a[5].get().tolist())), change(*a))[1])
    ids, start = [7] * 50 + [3], np.ones((ROWS, 2), np.float32)
    with gpus(1) as cupy:
        table, grad, where = (cupy.asarray(x) for x in (start, np.full((51, 2), 0.01, np.float32), np.array(ids)))
        updater = updates.Updater(cupy, "_SparseApplyGradientDescent", {})
        updater.sparse([[table]], [grad], [where], [cupy.asarray(np.float32(1))], "", ["t"])
        after = table.get()
    assert given == [[3, 7]]
    start[3], start[7] = 0.99, 0.5
    np.testing.assert_allclose(after, start, rtol=1e-5)
