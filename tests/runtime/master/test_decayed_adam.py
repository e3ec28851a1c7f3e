"""Adam of a sparse gradient as one op: where it is made, and that it gives the bits of the ops it stands for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import decay_loops
from sparkflow_runtime.master.passes.decayed_adam import join_adam
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import RewriterConfig

ROWS = 40


def model(dtype: Any = tf.float32, rate: Any = 0.1, tables: int = 1) -> tuple[Any, Any, list[Any]]:
    ids = tf.placeholder(tf.int64, [None], "ids")
    losses = []
    for i in range(tables):
        start = np.random.default_rng(i).standard_normal((ROWS, 3 + i)).astype(dtype.as_numpy_dtype)
        table = tf.get_variable(f"t{i}", initializer=start)
        losses.append(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)) * (i + 1)))
    train = tf.train.AdamOptimizer(rate).minimize(tf.add_n(losses), global_step=tf.train.get_or_create_global_step())
    return ids, train, tf.global_variables()


def joined(fetches: list[str], targets: list[str]) -> Counter[str]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    view = View.of(prune(nodes, ["ids:0"], fetches, targets), ["ids:0"], fetches, targets, sources=nodes)
    join_adam(view)
    view.prune()
    return Counter(op.op for op in view.ops.values())


@pytest.mark.parametrize("block", [1, 7, decay_loops._BLOCK])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_training_gives_the_same_bits(dtype: Any, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decay_loops, "_BLOCK", block)
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            ids, train, variables = model(dtype, tables=2)
            session.run(tf.global_variables_initializer())
            for batch in ([3, 39, 3, 0, 7], [], list(range(ROWS)), [5]):
                session.run(train, {ids: batch})
            results.append([v.tobytes() for v in session.run(variables)])
    assert results[0] == results[1]


def test_what_is_joined() -> None:
    with tf.Graph().as_default():
        _, train, _ = model(tables=2)
        found = joined([], [train.name])
    assert found["_SparseApplyDecayedAdam"] == 2
    assert not {"ScatterAdd", "AssignSub"} & found.keys()


def test_what_waits_for_other_updates_is_joined_and_waits_on() -> None:
    """As where a batch normalization's averages come first."""
    with tf.Graph().as_default():
        average = tf.get_variable("average", [], initializer=tf.zeros_initializer())
        with tf.control_dependencies([tf.assign_add(average, 1.0, name="first")]):
            _, train, _ = model()
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
        view = View.of(prune(nodes, ["ids:0"], [], [train.name]), ["ids:0"], [], [train.name], sources=nodes)
        join_adam(view)
        (update,) = (op for op in view.ops.values() if op.op == "_SparseApplyDecayedAdam")
        assert "first" in update.control
        assert not {"ScatterAdd", "AssignSub"} & {op.op for op in view.graph().node}


def test_a_table_of_a_rate_that_is_a_tensor() -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        _, train, _ = model(rate=tf.train.exponential_decay(0.1, step, 10, 0.9))
        assert joined([], [train.name])["_SparseApplyDecayedAdam"] == 1


def test_one_table_of_two_optimizers() -> None:
    """Each moves the rows that the other names as well: were both one update, these would be set aside for both."""
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            ids = tf.placeholder(tf.int64, [2, None], "ids")
            table, groups = tf.get_variable("t", initializer=np.arange(8, dtype=np.float32).reshape(4, 2)), []
            for k in range(2):
                unique, places = tf.unique(ids[k])
                grad = tf.unsorted_segment_sum(tf.ones([2, 2]) * (k + 1.0), places, tf.shape(unique)[0])
                m, v = (tf.get_variable(f"{name}{k}", initializer=tf.ones([4, 2]) * (k + 0.5)) for name in "mv")
                added = []
                for slot, beta, rows in ((m, 0.9, grad * 0.1), (v, 0.99, grad * grad * 0.01)):
                    with tf.control_dependencies([tf.assign(slot, slot * beta)]):
                        added.append(tf.scatter_add(slot, unique, rows))
                groups.append(tf.group(tf.assign_sub(table, 0.1 * added[0] / (tf.sqrt(added[1]) + 1e-3)), *added))
            train = tf.group(*groups, name="train")
            assert joined([], ["train"])["_SparseApplyDecayedAdam"] == 2
            session.run(tf.global_variables_initializer())
            for batch in ([[1, 1], [0, 2]], [[3, 0], [0, 3]]):
                session.run(train, {ids: batch})
            results.append(session.run(tf.global_variables()))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name", ["ScatterAdd", "truediv_1", "Sqrt_1", "Assign"])
def test_what_is_asked_for_by_name_stays(name: str) -> None:
    with tf.Graph().as_default():
        _, train, _ = model()
        found = joined([f"Adam/update_t0/{name}:0"], [train.name])
    assert not any("DecayedAdam" in op for op in found) and found["AssignSub"] == 1


def test_somebody_who_waits_for_a_moment_alone() -> None:
    """It could be before the table is changed, so nothing is joined."""
    with tf.Graph().as_default() as graph:
        _, train, _ = model()
        with tf.control_dependencies([graph.get_operation_by_name("Adam/update_t0/ScatterAdd")]):
            seen = tf.identity(graph.get_tensor_by_name("t0/Adam:0"))
        assert not any("DecayedAdam" in op for op in joined([seen.name], [train.name]))


def test_repeated_ids_and_single_values() -> None:
    """A graph of its own making may add to a row twice; the first moment has one value for all."""
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default() as graph, tf.Session(config=config) as session:
            ids = tf.placeholder(tf.int64, [None], "ids")
            table, m, v = (tf.Variable(tf.ones([4, 2]) * (i + 1), name=n) for i, n in enumerate("tmv"))
            rows = tf.ones([tf.size(ids), 2])
            moved = []
            for slot, more, beta in ((m, rows * 0.5, 0.9), (v, rows, 0.8)):
                with tf.control_dependencies([tf.assign(slot, slot * beta)]):
                    moved.append(tf.scatter_add(slot, ids, more))
            update = tf.assign_sub(table, 0.1 * moved[0] / (tf.sqrt(moved[1]) + 1e-3))
            train = tf.group(update, *moved, name="train")
            assert graph.get_operation_by_name("train") is train
            assert joined([], ["train"])["_ApplyDecayedAdam"] == 1
            session.run(tf.global_variables_initializer())
            for batch in ([1, 1, 3], [2]):
                session.run(train, {ids: batch})
            results.append([a.tobytes() for a in session.run([table, m, v])])
    assert results[0] == results[1]


def test_an_id_out_of_range_changes_nothing() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids, _train, variables = model()
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        update = tf.get_default_graph().get_operation_by_name("Adam/update_t0/group_deps")
        unique = tf.get_default_graph().get_tensor_by_name("Adam/update_t0/Unique:0")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"^Adam of the rows of variable 't0'"):
            session.run(update, {ids: [1, 2], unique: [1, ROWS]})
        for a, b in zip(before, session.run(variables)):
            np.testing.assert_array_equal(a, b)


def test_steps_that_fetch_what_would_be_joined() -> None:
    """An update is another op in each of them, with the same name."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        ids, train, variables = model()
        product, root = (graph.get_tensor_by_name(f"Adam/update_t0/{name}:0") for name in ("mul_1", "Sqrt_1"))
        results = []
        for more in ([], [product], [root]), [[product, root]] * 3:
            session.run(tf.global_variables_initializer())
            for fetches in more:
                session.run([train, *fetches], {ids: [1, 2, 1]})
            results.append([a.tobytes() for a in session.run(variables)])
        assert results[0] == results[1]
