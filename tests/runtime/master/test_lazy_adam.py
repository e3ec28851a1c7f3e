"""Adam of a gradient's rows alone as one op: where it is made, and that it gives the bits of the ops it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (what passes know of ops)
from sparkflow_runtime.master.passes.lazy_adam import join_lazy_adam
from sparkflow_runtime.master.passes.view import View
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import RewriterConfig

ROWS = 40


class Copied(tf.train.AdamOptimizer):
    """As people have it in their own programs: the slots are written, and read again."""

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        given = *self._get_beta_accumulators(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t
        power1, power2, lr, beta1, beta2, epsilon = (tf.cast(x, var.dtype.base_dtype) for x in given)
        ids = grad.indices
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_t = tf.scatter_update(m, ids, beta1 * tf.gather(m, ids) + (1 - beta1) * grad.values)
        v_t = tf.scatter_update(v, ids, beta2 * tf.gather(v, ids) + (1 - beta2) * tf.square(grad.values))
        rate = lr * tf.sqrt(1 - power2) / (1 - power1)
        moved = rate * tf.gather(m_t, ids) / (tf.sqrt(tf.gather(v_t, ids)) + epsilon)
        return tf.group(tf.scatter_sub(var, ids, moved), m_t, v_t)


both = pytest.mark.parametrize("made", [tf.contrib.opt.LazyAdamOptimizer, Copied])
Made = Callable[[Any], Any]


def model(made: Made, dtype: Any = tf.float32, rate: Any = 0.1, tables: int = 1) -> tuple[Any, list[Any]]:
    ids = tf.placeholder(tf.int64, [None], "ids")
    losses = []
    for i in range(tables):
        start = np.random.default_rng(i).standard_normal((ROWS, 3 + i)).astype(dtype.as_numpy_dtype)
        table = tf.get_variable(f"t{i}", initializer=start)
        losses.append(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)) * (i + 1)))
    return made(rate).minimize(tf.add_n(losses)), tf.global_variables()


def joined(fetches: list[str], targets: list[str]) -> Counter[str]:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    view = View.of(prune(nodes, ["ids:0"], fetches, targets), ["ids:0"], fetches, targets, sources=nodes)
    join_lazy_adam(view)
    view.prune()
    return Counter(op.op for op in view.ops.values())


@both
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_training_gives_the_same_bits(made: Made, dtype: Any) -> None:
    results = []
    for fuse in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = fuse
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            train, variables = model(made, dtype, tables=2)
            session.run(tf.global_variables_initializer())
            for batch in ([3, 39, 3, 0, 7], [], list(range(ROWS)), [5]):
                session.run(train, {"ids:0": batch})
            results.append([v.tobytes() for v in session.run(variables)])
    assert results[0] == results[1]


@both
def test_rows_move_as_the_formula_says(made: Made, graph: Any) -> None:
    train, (table, *_) = model(made)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        want = session.run(table).astype(float)
        m, v = np.zeros_like(want), np.zeros_like(want)
        for step, batch in enumerate(([3, 3, 9], [9], [0, 3]), 1):
            session.run(train, {"ids:0": batch})
            ids, counts = np.unique(batch, return_counts=True)
            grad = 2 * want[ids] * counts[:, None]
            m[ids], v[ids] = 0.9 * m[ids] + 0.1 * grad, 0.999 * v[ids] + 0.001 * grad**2
            want[ids] -= 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m[ids] / (np.sqrt(v[ids]) + 1e-8)
        np.testing.assert_allclose(session.run(table), want, rtol=1e-5, atol=1e-6)


@both
def test_what_is_joined(made: Made, graph: Any) -> None:
    train, _ = model(made, tables=2)
    found = joined([], [train.name])
    assert found["_SparseApplyLazyAdam"] == 2
    assert not {"ScatterSub", "ScatterUpdate"} & found.keys()


@pytest.mark.parametrize("name", ["ScatterUpdate", "truediv_1", "Sqrt_1", "add", "GatherV2"])
@both
def test_what_is_asked_for_by_name_stays(made: Made, graph: Any, name: str) -> None:
    train, _ = model(made)
    found = joined([f"Adam/update_t0/{name}:0"], [train.name])
    assert not any("LazyAdam" in op for op in found) and found["ScatterSub"] == 1


@both
def test_somebody_who_waits_for_a_moment_alone(made: Made, graph: Any) -> None:
    """It could be before the table is changed, so nothing is joined."""
    train, _ = model(made)
    with tf.control_dependencies([graph.get_operation_by_name("Adam/update_t0/ScatterUpdate")]):
        seen = tf.identity(graph.get_tensor_by_name("t0/Adam:0"))
    assert not any("LazyAdam" in op for op in joined([seen.name], [train.name]))


def test_ids_that_may_repeat(graph: Any) -> None:
    """What is written last stays, and all is subtracted: that is another thing."""
    ids = tf.placeholder(tf.int64, [None], "ids")
    table, m, v = (tf.Variable(tf.ones([4, 2]) * (i + 1), name=n) for i, n in enumerate("tmv"))
    grad = tf.gather(tf.constant(np.arange(8, dtype=np.float32).reshape(4, 2)), ids)
    first = tf.gather(m, ids) * 0.9 + grad * 0.1
    second = tf.gather(v, ids) * 0.99 + tf.square(grad) * 0.01
    moved = 0.1 * first / (tf.sqrt(second) + 1e-3)
    updates = tf.scatter_sub(table, ids, moved), tf.scatter_update(m, ids, first), tf.scatter_update(v, ids, second)
    train = tf.group(*updates, name="train")
    assert joined([], [train.name])["ScatterSub"] == 1
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {ids: [1, 1]})
        one = 1 - 2 * 0.1 * (1.8 + np.array([0.2, 0.3])) / (np.sqrt(2.97 + 0.01 * np.array([4.0, 9])) + 1e-3)
        np.testing.assert_allclose(session.run(table)[1], one, rtol=1e-6)


@pytest.mark.parametrize("what", ["slots", "ids", "keeps"])
def test_what_only_looks_like_it(graph: Any, what: str) -> None:
    """One slot for both moments, other ids in one place, a factor for each row."""
    ids = tf.placeholder(tf.int64, [None], "ids")
    unique, _ = tf.unique(ids)
    other, _ = tf.unique(ids + 1) if what == "ids" else (unique, None)
    table, m, v = (tf.Variable(tf.ones([9, 2]) * (i + 1), name=n) for i, n in enumerate("tmv"))
    v = m if what == "slots" else v
    grad = tf.gather(tf.constant(np.arange(18, dtype=np.float32).reshape(9, 2)), unique)
    keep = tf.constant([[0.1, 0.2]]) if what == "keeps" else 0.1
    first = tf.gather(m, other) * 0.9 + grad * keep
    second = tf.gather(v, unique) * 0.99 + tf.square(grad) * 0.01
    moved = 0.1 * first / (tf.sqrt(second) + 1e-3)
    updates = [tf.scatter_sub(table, unique, moved), tf.scatter_update(m, unique, first)]
    train = tf.group(*updates, tf.scatter_update(v, unique, second), name="train")
    assert joined([], [train.name])["ScatterSub"] == 1


@both
def test_an_id_out_of_range_changes_nothing(made: Made, graph: Any) -> None:
    _, variables = model(made)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(variables)
        update, unique = "Adam/update_t0/group_deps", "Adam/update_t0/Unique:0"
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"LazyAdam of the rows of variable 't0'.* = 40"):
            session.run(update, {"ids:0": [1, 2], unique: [1, ROWS]})
        for a, b in zip(before, session.run(variables)):
            np.testing.assert_array_equal(a, b)


@both
def test_on_servers_as_in_one_process(made: Made, cluster: Any) -> None:
    def trained(servers: dict[str, Any]) -> list[np.ndarray]:
        device = tf.train.replica_device_setter(len(servers) - 1) if servers else None
        with tf.Graph().as_default(), tf.device(device):
            train, variables = model(made, tables=3)
            with tf.Session(servers["worker0"].target if servers else "") as session:
                session.run(tf.global_variables_initializer())
                for batch in ([3, 39, 3, 0, 7], [], list(range(ROWS)), [5]):
                    session.run(train, {"ids:0": batch})
                return session.run(variables)

    for a, b in zip(trained({}), trained(cluster(ps=2, worker=1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("what", ["after", "width", "one"])
def test_what_is_not_the_one_op(graph: Any, what: str) -> None:
    """Moments that are written once the table is, and a gradient that is one number, or row, for many."""
    ids = tf.placeholder(tf.int64, [None], "ids")
    unique, _ = tf.unique(ids)
    table, m, v = (tf.Variable(tf.ones([9, 2]) * (i + 1), name=n) for i, n in enumerate("tmv"))
    grad = tf.gather(tf.constant(np.arange(18, dtype=np.float32).reshape(9, 2)), unique)
    grad = {"after": grad, "width": grad[:, :1], "one": tf.Variable([[6.0, 7.0]])}[what]
    first = tf.gather(m, unique) * 0.9 + grad * 0.1
    second = tf.gather(v, unique) * 0.99 + tf.square(grad) * 0.01
    moved = tf.scatter_sub(table, unique, 0.1 * first / (tf.sqrt(second) + 1e-3))
    with tf.control_dependencies([moved] if what == "after" else []):
        train = tf.group(moved, tf.scatter_update(m, unique, first), tf.scatter_update(v, unique, second))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {ids: [3, 1, 3]})
        used = {"after": [[6, 7], [2, 3]], "width": [[6], [2]], "one": [[6, 7], [6, 7]]}[what]
        np.testing.assert_allclose(session.run(m)[[3, 1]], 1.8 + 0.1 * np.array(used, float) + np.zeros([2, 2]), 1e-6)
