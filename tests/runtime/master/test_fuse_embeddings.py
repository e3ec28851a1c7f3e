"""Fused look-ups and updates: the same numbers to the bit, and no fusing where something could tell the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.passes.common import common_subexpressions
from sparkflow_runtime.master.passes.fuse_concat_grad import fuse_concat_grad
from sparkflow_runtime.master.passes.fuse_embeddings import fuse_embeddings
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.place import place
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
SIZES = [(7, 4), (50, 4), (3, 2)]


def model(optimizer: Any, slots: Any = SIZES, columns: bool = True) -> tuple[Any, Any, Any, list[Any]]:
    """(ids placeholder [None, slots], x placeholder, train op, variables): look-ups beside dense columns, a line."""
    ids, x = tf.placeholder(tf.int64, [None, len(slots)], "ids"), tf.placeholder(tf.float32, [None, 3], "x")
    parts = [x]
    for i, (column, (rows, width)) in enumerate(zip(tf.unstack(ids, axis=1), slots)):
        start = np.random.default_rng(i).standard_normal((rows, width)).astype(np.float32)
        parts.append(tf.nn.embedding_lookup(tf.get_variable(f"t{i}", initializer=start), column))
    joined = tf.concat(parts[1:] + parts[:1] if columns else parts, axis=1)
    w = tf.get_variable("w", initializer=np.linspace(-1, 1, joined.shape[1].value, dtype=np.float32)[:, None])
    loss = tf.reduce_mean(tf.square(tf.matmul(joined, w) - 1.0))
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return ids, x, train, tf.global_variables()


def fused(fetches: list[str], feeds: list[str], targets: list[str]) -> GraphDef:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
    placed = place(prune(nodes, feeds, fetches, targets), [CPU], CPU)
    before = placed.SerializeToString(deterministic=True)
    kept = {*targets, *(f.partition(":")[0] for f in fetches)}
    out = verify(fuse_embeddings(placed, feeds, kept), [f.partition(":")[0] for f in feeds])
    assert placed.SerializeToString(deterministic=True) == before, "a pass leaves its input alone"
    return out


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: tf.train.AdagradOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    lambda: tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.01),
    lambda: tf.train.FtrlOptimizer(0.1, learning_rate_power=-0.7),
    lambda: tf.train.AdamOptimizer(0.1),
    lambda: tf.train.GradientDescentOptimizer(0.1),
    lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    lambda: tf.train.AdadeltaOptimizer(0.5),
    lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.02),
    lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.1, 0.01, 0.02),
    lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step(), 0.1, 0.01, 0.02),
    lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("columns", [True, False])
def test_training_gives_the_same_bits(make: Any, columns: bool) -> None:
    results = []
    for fuse in (True, False):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = RewriterConfig.ON if fuse else RewriterConfig.OFF
        rng = np.random.default_rng(8)
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            ids, x, train, variables = model(make(), columns=columns)
            session.run(tf.global_variables_initializer())
            for n in (40, 1, 40, 0):
                batch = np.stack([rng.integers(0, rows, n) for rows, _ in SIZES], 1)
                session.run(train, {ids: batch, x: rng.standard_normal((n, 3)).astype(np.float32)})
                results.append(session.run(variables))
    half = len(results) // 2
    for a, b in zip(results[:half], results[half:]):
        for one, other in zip(a, b):
            assert one.tobytes() == other.tobytes()
    assert all(np.isfinite(one).all() for one in results[2])


def test_what_is_fused() -> None:
    with tf.Graph().as_default():
        _, _, train, _ = model(tf.train.AdagradOptimizer(0.1))
        found = ops(fused([], ["ids:0", "x:0"], [train.name]))
    assert (found["_FusedGatherConcat"], found["_FusedSparseApply"]) == (1, 1)
    assert not {"GatherV2", "ConcatV2", "Unique", "UnsortedSegmentSum", "SparseApplyAdagrad"} & found.keys()


@pytest.mark.parametrize("make", [make for i, make in enumerate(OPTIMIZERS) if i not in (5, 7)])
def test_the_tables_of_every_optimizer_are_updated_at_once(make: Any) -> None:
    """But those of gradient descent, which are subtracted from."""
    with tf.Graph().as_default():
        _, _, train, _ = model(make())
        feeds, targets = ["ids:0", "x:0"], [train.name]
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
        pruned = Optimizer().optimize(prune(nodes, feeds, [], targets), feeds, [], targets, sources=nodes)
        found = ops(fuse_embeddings(place(pruned, [CPU], CPU), feeds, targets))
    assert found["_FusedSparseApply"] == 1
    assert not [op for op in found if op.startswith(("SparseApply", "_SparseApply", "Scatter"))]


def test_sizes_taken_from_a_shape_stay_by_themselves() -> None:
    """Two items of three are there sooner than a loop over tables begins."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, None, 4], "x")
        product = tf.tensordot(x, tf.ones([4, 2]), 1)
        found = ops(fused([product.name], ["x:0"], []))
    assert found["GatherV2"] == 2 and "_FusedGather" not in found


def test_the_slices_of_a_concat_become_one() -> None:
    """Where the widths are not known before the step."""
    with tf.Graph().as_default(), tf.Session() as session:
        parts = [tf.placeholder(tf.float32, [None, None]) for _ in range(3)]
        joined = tf.concat(parts, 1)
        grads = [tf.identity(g) for g in tf.gradients(joined * joined, parts)]
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
        feeds, names = [p.name for p in parts], [p.op.name for p in parts]
        placed = place(prune(nodes, feeds, [g.name for g in grads], []), [CPU], CPU)
        out = verify(fuse_concat_grad(placed, feeds, [g.op.name for g in grads]), names)
        shapes = [n.name for n in placed.node if n.op == "ShapeN"]
        kept = verify(fuse_concat_grad(placed, feeds, shapes), names)
        values = [np.full((2, w), w, np.float32) for w in (1, 4, 2)]
        for value, grad in zip(values, session.run(grads, dict(zip(parts, values)))):
            np.testing.assert_array_equal(grad, 2 * value)
    assert (ops(placed)["Slice"], ops(out)["_FusedConcatGrad"], ops(kept)["Slice"]) == (3, 1, 3)
    assert not {"Slice", "ConcatOffset", "ShapeN"} & ops(out).keys()


def test_slices_by_constants_become_one_each_axis() -> None:
    """Where the widths are known: the gradient of a concat, and parts that somebody cuts by hand."""
    value = np.arange(60, dtype=np.float32).reshape(4, 15)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 15], "x")
        columns = [tf.slice(x, [0, b], [-1, n], f"c{b}") for b, n in ((0, 2), (3, 12), (2, 1))]
        rows = [tf.slice(x, [b, 0], [n, -1], f"r{b}") for b, n in ((0, 1), (2, 2), (3, 0))]
        alone = tf.slice(x, [1, 1], [2, 2], "alone")
        kept = tf.slice(x, [0, 7], [-1, 2], "kept")
        tensors = [tf.identity(t) for t in (*columns, *rows, alone, kept)]
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
        placed = place(prune(nodes, [x.name], [t.name for t in tensors], []), [CPU], CPU)
        out = verify(fuse_concat_grad(placed, [x.name], ["kept"]), ["x"])
        found = session.run(tensors, {x: value})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Slice: .*\[0, 2, 3\].* within the shape \(2, 15\)"):
            session.run(tensors[3:6], {x: value[:2]})
    assert (ops(out)["_Slices"], ops(out)["Slice"]) == (2, 2)
    wanted = [value[:, :2], value[:, 3:], value[:, 2:3], value[:1], value[2:], value[3:3], value[1:3, 1:3]]
    for one, other in zip(found, [*wanted, value[:, 7:9]]):
        np.testing.assert_array_equal(one, other)


def test_what_is_asked_for_by_name_stays() -> None:
    with tf.Graph().as_default():
        _, _, train, _ = model(tf.train.AdagradOptimizer(0.1))
        kept = ["embedding_lookup:0", "concat:0", "Adagrad/update_t1/UnsortedSegmentSum:0"]
        found = ops(fused(kept, ["ids:0", "x:0"], [train.name]))
    assert (found["GatherV2"], found["ConcatV2"], found["_FusedGather"], found["_FusedGatherConcat"]) == (1, 1, 1, 0)
    assert (found["SparseApplyAdagrad"], found["_FusedSparseApply"], found["Unique"]) == (0, 2, 1)


def test_other_use_of_the_summed_rows() -> None:
    """What else takes a row sum keeps it."""
    with tf.Graph().as_default() as graph:
        _, _, train, _ = model(tf.train.AdagradOptimizer(0.1))
        seen = tf.reduce_sum(graph.get_tensor_by_name("Adagrad/update_t0/UnsortedSegmentSum:0"))
        found = ops(fused([seen.name], ["ids:0", "x:0"], [train.name]))
    assert (found["UnsortedSegmentSum"], found["SparseApplyAdagrad"], found["_FusedSparseApply"]) == (1, 0, 2)


def wide_and_deep(rate: float = 0.1) -> tuple[Any, Any, list[Any]]:
    """(ids placeholder, train op, variables): two tables by the same ids, so that one Unique is for both."""
    ids = tf.placeholder(tf.int64, [None], "ids")
    deep = tf.get_variable("deep", initializer=np.arange(24, dtype=np.float32).reshape(8, 3) / 7)
    wide = tf.get_variable("wide", initializer=np.arange(8, dtype=np.float32)[:, None] / 5)
    rows = tf.nn.embedding_lookup(deep, ids), tf.nn.embedding_lookup(wide, ids)
    loss = tf.reduce_sum(tf.square(tf.reduce_sum(rows[0], 1, keepdims=True) + rows[1]))
    train = tf.train.AdagradOptimizer(rate).minimize(loss)
    return ids, train, tf.global_variables()


def test_tables_that_are_read_by_the_same_ids() -> None:
    """Each update sums its own rows, and the Unique that they would have shared is nobody's any more."""
    with tf.Graph().as_default():
        _, train, _ = wide_and_deep()
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
        one_unique = GraphDef(node=optimized(nodes, ["ids:0"], [train.name]).node)
        out = fuse_embeddings(one_unique, ["ids:0"], {train.name})
        verify(out, ["ids"])
    assert (ops(one_unique)["Unique"], ops(one_unique)["UnsortedSegmentSum"]) == (1, 2)
    assert ops(out)["_FusedSparseApply"] == 1
    assert not {"Unique", "UnsortedSegmentSum", "SparseApplyAdagrad"} & ops(out).keys()
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            ids, train, variables = wide_and_deep()
            session.run(tf.global_variables_initializer())
            for batch in ([3, 1, 3, 3, 7], [], [0]):
                session.run(train, {ids: batch})
            results.append([v.tobytes() for v in session.run(variables)])
    assert results[0] == results[1]


def test_a_shared_unique_that_waits_for_something_stays() -> None:
    with tf.Graph().as_default() as graph:
        _, train, _ = wide_and_deep()
        first = tf.assign_add(tf.get_variable("count", initializer=0), 1)
        nodes = {n.name: n for n in graph.as_graph_def().node}
        one_unique = GraphDef(node=optimized(nodes, ["ids:0"], [train.name]).node)
        for node in one_unique.node:
            if node.op == "Unique":
                node.input.append(f"^{first.op.name}")
        one_unique.node.extend(prune(nodes, [], [], [first.op.name]).node)
        out = fuse_embeddings(place(one_unique, [CPU], CPU), ["ids:0"], {train.name, first.op.name})
    assert (ops(out)["Unique"], ops(out)["UnsortedSegmentSum"]) == (1, 2)


def optimized(nodes: Any, feeds: list[str], targets: list[str]) -> GraphDef:
    """Placed, with common subexpressions made one."""
    view = View.of(prune(nodes, feeds, [], targets), feeds, [], targets, sources=nodes)
    common_subexpressions(view)
    view.prune()
    return place(view.graph(), [CPU], CPU)


def tables(n: int = 2) -> tuple[list[Any], Any]:
    return [tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2) * (i + 1)) for i in range(n)], tf.constant([3, 1])


def test_a_lookup_after_an_update_sees_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        (a, b), ids = tables()
        first = tf.gather(a, ids)
        with tf.control_dependencies([first]), tf.control_dependencies([tf.assign(b, tf.zeros([4, 2]))]):
            second = tf.gather(b.read_value(), ids)
        third = tf.gather(a, ids + 0 * tf.cast(second[:, 0], tf.int32))
        out = tf.add_n([first, second, third])
        assert ops(fused([out.name], [], []))["GatherV2"] == 3
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(out), 2 * np.array([[6.0, 7.0], [2.0, 3.0]]))


def test_a_lookup_that_another_waits_for_through_a_queue() -> None:
    """first -> enqueue, dequeue -> second: made one, they would wait for each other for ever."""
    with tf.Graph().as_default(), tf.Session() as session:
        (a, b), ids = tables()
        queue = tf.FIFOQueue(1, [tf.float32], [[2, 2]])
        put = queue.enqueue(tf.gather(a, ids))
        second = tf.gather(b, tf.cast(queue.dequeue()[:, 0] / 2.0, tf.int32))
        out = tf.identity(second)
        assert ops(fused([out.name], [], [put.name]))["GatherV2"] == 2
        session.run(tf.global_variables_initializer())
        assert session.run([out, put])[0].tolist() == [[12.0, 14.0], [4.0, 6.0]]


def test_devices_are_not_crossed() -> None:
    with tf.Graph().as_default():
        (a, b, c), ids = tables(3)
        out = tf.add_n([tf.gather(t, ids) for t in (a, b, c)])
        nodes = {n.name: n for n in tf.get_default_graph().as_graph_def().node}
        placed = place(prune(nodes, [], [out.name], []), [CPU], CPU)
        other = CPU.replace("task:0", "task:1")
        for node in placed.node:
            if node.name.startswith(b.op.name) or (node.op == "GatherV2" and node.input[0].startswith(b.op.name)):
                node.device = other
        found = fuse_embeddings(placed)
    assert {n.device for n in found.node if n.op == "GatherV2"} == {other}
    assert ops(found)["_FusedGather"] == 1


def test_an_index_out_of_range_changes_nothing() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        ids, x, train, variables = model(tf.train.AdagradOptimizer(0.1))
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        feed = {ids: np.array([[0, 0, 0], [6, 49, 3]]), x: np.zeros((2, 3))}
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 3 is not in \[0, 3\)"):
            session.run(train, feed)
        update = graph.get_operation_by_name("Adagrad/update_t2/SparseApplyAdagrad")
        grad = graph.get_tensor_by_name("gradients/concat_grad/tuple/control_dependency_2:0")
        feed = {grad: np.ones((2, 2)), ids: feed[ids]}
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"rows of variable 't2': indices\[1\] = 3"):
            session.run(tf.group(update), feed)
        for old, new in zip(before, session.run(variables)):
            np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("dims", [[None], [None, None], [2, 3], None])
def test_rows_of_ids_that_are_no_vector(dims: Any, axis: int) -> None:
    """The last axis of a sequence's rows is not axis 1: they are joined where the program said."""
    start = [np.random.default_rng(i).standard_normal((20, 4)).astype(np.float32) for i in range(2)]
    values = [np.arange(3), np.arange(6).reshape(2, 3)]
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.placeholder(tf.int32, dims, "ids")
        tables = [tf.get_variable(f"t{i}", initializer=s) for i, s in enumerate(start)]
        joined = tf.concat([tf.nn.embedding_lookup(t, ids) for t in tables], axis)
        out = tf.multiply(joined, 2.0, name="out")
        grads = tf.gradients(tf.reduce_sum(out * out), tables)
        session.run(tf.global_variables_initializer())
        for value in values:
            if dims is None or len(dims) == value.ndim:
                want = 2 * np.concatenate([s[value] for s in start], axis)
                np.testing.assert_array_equal(session.run(out, {ids: value}), want)
                found = session.run([out, *map(tf.convert_to_tensor, grads)], {ids: value})
                np.testing.assert_array_equal(found[0], want)
                for grad, table in zip(found[1:], start):
                    expected = np.zeros_like(table)
                    expected[value] = 8 * table[value]
                    np.testing.assert_allclose(grad, expected, rtol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_rate_that_is_no_number_is_told_of_the_optimizers_op(graph: Any, sparse: bool) -> None:
    rate = tf.placeholder(tf.float32, None)
    tables = [tf.get_variable(f"t{k}", [3, 2]) for k in range(2)]
    used = [tf.nn.embedding_lookup(t, [1, 2]) for t in tables] if sparse else tables
    train = tf.train.RMSPropOptimizer(rate).minimize(tf.add_n([tf.reduce_sum(tf.square(t)) for t in used]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        op = "SparseApplyRMSProp" if sparse else "ApplyRMSProp"
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"^{op}: learning rate .* got shape \[1\]"):
            session.run(train, {rate: [0.1]})
