"""Whole train ops, run by a session, against the same training written out in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph

Rows = tuple[np.ndarray, np.ndarray]  # values, indices


class Reference:
    """One update in float64: `dense` on all, `sparse` on the summed rows unless the optimizer does otherwise."""

    def __init__(self, start: np.ndarray):
        self.w, self.t = start.astype(np.float64), 0
        self.slots = self.start()

    def start(self) -> list[np.ndarray]:
        return []

    def rule(self, w: np.ndarray, slots: list[np.ndarray], g: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        raise AssertionError

    def dense(self, g: np.ndarray) -> None:
        self.t += 1
        self.w, self.slots = self.rule(self.w, self.slots, g)

    def sparse(self, values: np.ndarray, indices: np.ndarray) -> None:
        self.t += 1
        for i in np.unique(indices):
            new_w, new_slots = self.rule(self.w[i], [s[i] for s in self.slots], values[indices == i].sum(0))
            self.w[i] = new_w
            for slot, new in zip(self.slots, new_slots):
                slot[i] = new


class Sgd(Reference):
    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        return w - 0.1 * g, []


class Momentum(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.zeros_like(self.w)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        accum = 0.9 * slots[0] + g
        return w - 0.1 * accum, [accum]


class Nesterov(Momentum):
    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        accum = 0.9 * slots[0] + g
        return w - 0.1 * (g + 0.9 * accum), [accum]


class Adagrad(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.full_like(self.w, 0.2)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        accum = slots[0] + g**2
        return w - 0.1 * g / np.sqrt(accum), [accum]


class Ftrl(Reference):
    shrinkage = 0.0

    def start(self) -> list[np.ndarray]:
        return [np.full_like(self.w, 0.1), np.zeros_like(self.w)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        lr, l1, l2 = 0.1, 0.02, 0.03 + 0.5 / 0.2
        new = slots[0] + g**2
        linear = slots[1] + g + 2 * self.shrinkage * w - (np.sqrt(new) - np.sqrt(slots[0])) / lr * w
        step = (np.sign(linear) * l1 - linear) / (np.sqrt(new) / lr + 2 * l2)
        return np.where(np.abs(linear) > l1, step, 0), [new, linear]


class FtrlShrinkage(Ftrl):
    shrinkage = 0.2


class RmsProp(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.ones_like(self.w), np.zeros_like(self.w)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        ms = 0.8 * slots[0] + 0.2 * g**2
        mom = 0.5 * slots[1] + 0.1 * g / np.sqrt(ms + 1e-8)
        return w - mom, [ms, mom]


class Centered(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.zeros_like(self.w), np.zeros_like(self.w), np.ones_like(self.w)]  # mg, momentum, rms

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        mg, ms = 0.8 * slots[0] + 0.2 * g, 0.8 * slots[2] + 0.2 * g**2
        mom = 0.5 * slots[1] + 0.1 * g / np.sqrt(ms - mg**2 + 1e-2)
        return w - mom, [mg, mom, ms]


class Adadelta(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.zeros_like(self.w), np.zeros_like(self.w)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        accum = 0.9 * slots[0] + 0.1 * g**2
        step = g * np.sqrt(slots[1] + 1e-2) / np.sqrt(accum + 1e-2)
        return w - 0.5 * step, [accum, 0.9 * slots[1] + 0.1 * step**2]


def shrunk(w: Any, rate: Any) -> Any:
    return np.sign(w) * np.maximum(np.abs(w) - rate * 0.2, 0) / (1 + rate * 0.3)


class Proximal(Reference):
    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        return shrunk(w - 0.1 * g, 0.1), []


class ProximalAdagrad(Adagrad):
    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        accum = slots[0] + g**2
        rate = 0.1 / np.sqrt(accum)
        return shrunk(w - rate * g, rate), [accum]


class Adam(Reference):
    def start(self) -> list[np.ndarray]:
        return [np.zeros_like(self.w), np.zeros_like(self.w)]

    def rule(self, w: Any, slots: Any, g: Any) -> Any:
        m, v = 0.8 * slots[0] + 0.2 * g, 0.9 * slots[1] + 0.1 * g**2
        rate = 0.1 * np.sqrt(1 - 0.9**self.t) / (1 - 0.8**self.t)
        return w - rate * m / (np.sqrt(v) + 1e-8), [m, v]

    def sparse(self, values: np.ndarray, indices: np.ndarray) -> None:
        """As in TensorFlow 1, rows without a gradient decay and move too."""
        g = np.zeros_like(self.w)
        np.add.at(g, indices, values)
        self.dense(g)


OPTIMIZERS: dict[str, tuple[Callable[[], Any], type[Reference]]] = {
    "sgd": (lambda: tf.train.GradientDescentOptimizer(0.1), Sgd),
    "momentum": (lambda: tf.train.MomentumOptimizer(0.1, 0.9), Momentum),
    "nesterov": (lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), Nesterov),
    "adagrad": (lambda: tf.train.AdagradOptimizer(0.1, 0.2), Adagrad),
    "ftrl": (
        lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.02, l2_regularization_strength=0.03, beta=0.5),
        Ftrl,
    ),
    "ftrl_shrinkage": (
        lambda: tf.train.FtrlOptimizer(
            0.1,
            l1_regularization_strength=0.02,
            l2_regularization_strength=0.03,
            l2_shrinkage_regularization_strength=0.2,
            beta=0.5,
        ),
        FtrlShrinkage,
    ),
    "centered": (lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-2, centered=True), Centered),
    "adadelta": (lambda: tf.train.AdadeltaOptimizer(0.5, 0.9, 1e-2), Adadelta),
    "proximal": (lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.2, 0.3), Proximal),
    "proximal_adagrad": (lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.2, 0.2, 0.3), ProximalAdagrad),
    "rmsprop": (lambda: tf.train.RMSPropOptimizer(0.1, 0.8, 0.5, 1e-8), RmsProp),
    "adam": (lambda: tf.train.AdamOptimizer(0.1, 0.8, 0.9), Adam),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("locking", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(graph: Graph, name: str, dtype: str, locking: bool) -> None:
    rng = np.random.default_rng(0)
    make, reference = OPTIMIZERS[name]
    start, table_start = rng.standard_normal((3, 2)), rng.standard_normal((6, 2))
    w, table = tf.Variable(start.astype(dtype), name="w"), tf.Variable(table_start.astype(dtype), name="table")
    gw, gt = tf.placeholder(dtype, [3, 2]), tf.placeholder(dtype, [None, 2])
    ids = tf.placeholder(tf.int64, [None])
    step = tf.train.get_or_create_global_step()
    optimizer = make()
    optimizer._use_locking = locking
    train = optimizer.apply_gradients([(gw, w), (tf.IndexedSlices(gt, ids), table)], step)
    dense, sparse = reference(start), reference(table_start)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for indices in ([0, 3], [1, 1, 5, 1, 0], [], [2]):
            g, rows = rng.standard_normal((3, 2)), rng.standard_normal((len(indices), 2))
            sess.run(train, {gw: g, gt: rows, ids: indices})
            dense.dense(g)
            sparse.sparse(rows, np.array(indices, int))
        tolerance = 1e-5 if dtype == "float32" else 1e-7  # factors are float32, as TensorFlow's are
        for value, want in zip(sess.run([w, table]), (dense.w, sparse.w)):
            assert value.dtype == dtype
            np.testing.assert_allclose(value, want, rtol=tolerance * 50, atol=tolerance)
        assert sess.run(step) == 4


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_minimize_learns(graph: Graph, name: str) -> None:
    x = tf.constant(np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32))
    w = tf.Variable(tf.zeros([3, 1]))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - tf.matmul(x, tf.constant([[1.0], [-2.0], [0.5]]))))
    train = OPTIMIZERS[name][0]().minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = sess.run(loss)
        for _ in range(40):
            sess.run(train)
        assert sess.run(loss) < 0.6 * first


def test_slots(graph: Graph) -> None:
    with tf.device("/job:ps/task:3"):
        w = tf.get_variable("w", [2])
    first, second = tf.train.AdagradOptimizer(0.1), tf.train.AdamOptimizer(0.1)
    grads = [(tf.ones([2]), w)]
    first.apply_gradients(grads)
    second.apply_gradients(grads)
    slot = first.get_slot(w, "accumulator")
    assert slot.name == "w/Adagrad:0" and slot.device == "/job:ps/task:3" and not slot.trainable
    assert first.get_slot_names() == ["accumulator"] and second.get_slot_names() == ["m", "v"]
    assert [v.name for v in second.variables()] == ["beta1_power:0", "beta2_power:0", "w/Adam:0", "w/Adam_1:0"]
    assert first.get_slot(w, "none") is None and tf.train.GradientDescentOptimizer(0.1).get_slot(w, "m") is None
    assert tf.trainable_variables() == [w]


def test_the_step_counts_after_all_updates(graph: Graph) -> None:
    step = tf.train.create_global_step()
    w = tf.Variable(1.0)
    train = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.constant(1.0), w)], step)
    assert train.type == "AssignAdd" and [op.name for op in train.inputs[1].op.control_inputs] == [
        "GradientDescent/update"
    ]
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]


def test_learning_rates(graph: Graph) -> None:
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_or_create_global_step() is step
    smooth = tf.train.exponential_decay(0.5, step, 10, 0.1)
    stairs = tf.train.exponential_decay(0.5, step, 10, 0.1, staircase=True)
    w = tf.Variable(1.0)
    train = tf.train.GradientDescentOptimizer(lambda: 0.25).apply_gradients([(tf.constant(2.0), w)], step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(5):
            sess.run(train)
        assert sess.run(w) == 1 - 5 * 0.5
        np.testing.assert_allclose(sess.run([smooth, stairs]), [0.5 * 0.1**0.5, 0.5], rtol=1e-6)
        assert tf.train.global_step(sess, step) == 5


def test_constraint(graph: Graph) -> None:
    w = tf.Variable([1.0, -1.0], constraint=lambda v: tf.maximum(v, 0.0))
    train = tf.train.GradientDescentOptimizer(0.5).apply_gradients([(tf.constant([1.0, 1.0]), w)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_array_equal(sess.run(w), [0.5, 0])


def test_partitioned_variable(graph: Graph) -> None:
    w = tf.get_variable("w", [5, 2], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2))
    optimizer = tf.train.AdagradOptimizer(0.1)
    train = optimizer.minimize(tf.reduce_sum(w * 1.0), var_list=[w])
    slot = optimizer.get_slot(w, "accumulator")
    assert [p._get_save_slice_info().full_name for p in slot] == ["w/Adagrad", "w/Adagrad"]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_allclose(sess.run(slot), np.full((5, 2), 1.1), rtol=1e-6)


def test_refusals(graph: Graph) -> None:
    w, i = tf.Variable(1.0), tf.Variable(1)
    sgd = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        sgd.minimize(tf.constant(1.0), var_list=[w])
    with pytest.raises(ValueError, match="No variables to optimize"):
        sgd.minimize(w * 1.0, var_list=[])
    with pytest.raises(ValueError, match="No variables provided"):
        sgd.apply_gradients([])
    with pytest.raises(TypeError, match=r"not a tf.Variable"):
        sgd.minimize(w * 1.0, var_list=[tf.constant(1.0)])
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
        tf.train.create_global_step()
    with pytest.raises(ValueError, match="must be positive"):
        tf.train.ProximalAdagradOptimizer(0.1, initial_accumulator_value=0)
    with pytest.raises(ValueError, match="must be positive"):
        tf.train.AdagradDAOptimizer(0.1, w, 0.0)
    with pytest.raises(ValueError, match="needs to be negative or zero"):
        tf.train.FtrlOptimizer(0.1, learning_rate_power=0.5)
    with pytest.raises(ValueError, match="must be positive"):
        tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0)
    with pytest.raises(NotImplementedError, match="_apply_dense"):
        tf.train.Optimizer(False, "none").apply_gradients([(tf.constant(1.0), w)])
    assert sgd.compute_gradients(w * 2.0)[1] == (None, i)


def test_subclass_of_adam(graph: Graph) -> None:
    """People's own lazy Adam reads the tensors and accumulators by TensorFlow's private names."""

    class Lazy(tf.train.AdamOptimizer):
        def _apply_sparse(self, grad: Any, var: Any) -> Any:
            power1, power2 = (tf.cast(p, var.dtype.base_dtype) for p in self._get_beta_accumulators())
            rate = tf.cast(self._lr_t, var.dtype.base_dtype) * tf.sqrt(1 - power2) / (1 - power1)
            m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
            rows_m = self._beta1_t * tf.gather(m, grad.indices) + (1 - self._beta1_t) * grad.values
            rows_v = self._beta2_t * tf.gather(v, grad.indices) + (1 - self._beta2_t) * tf.square(grad.values)
            step = rate * rows_m / (tf.sqrt(rows_v) + self._epsilon_t)
            moved = tf.scatter_update(m, grad.indices, rows_m), tf.scatter_update(v, grad.indices, rows_v)
            return tf.group(tf.scatter_sub(var, grad.indices, step), *moved)

    tables = [tf.get_variable(n, initializer=np.ones((5, 2), np.float32)) for n in "ab"]
    trains = [
        kind(0.1).minimize(tf.reduce_sum(tf.square(tf.gather(table, [1, 3, 1]))), var_list=[table])
        for kind, table in zip((Lazy, tf.contrib.opt.LazyAdamOptimizer), tables)
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(trains)
        mine, theirs = session.run(tables)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert (mine[[0, 2, 4]] == 1).all() and (mine[[1, 3]] < 0.8).all()


def test_libraries_sort_the_slots_of_an_optimizer(graph: Any) -> None:
    b, a = tf.Variable(1.0, name="b"), tf.Variable(1.0, name="a")
    optimizer = tf.train.AdamOptimizer()
    optimizer.minimize(a * b)
    assert [name for _, name in sorted(optimizer._slots["m"])] == ["a", "b"]
    assert optimizer._slots["m"][graph, "b"] is optimizer.get_slot(b, "m")
    for name in ("ProximalGradientDescent", "ProximalAdagrad", "AdagradDA"):
        assert tf.train.Optimizer in getattr(tf.train, f"{name}Optimizer").__bases__


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
        lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.1),
        lambda: tf.distribute.DistributedOptimizer(tf.train.FtrlOptimizer(0.1), 1),
    ],
)
def test_one_that_was_used_goes_to_another_process(make):
    """A model function may hold it, which the driver has called to see that it can be."""

    def trained(optimizer):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.get_variable("v", initializer=np.ones(3, np.float32))
            step = optimizer.minimize(tf.reduce_sum(v * v))
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                sess.run(step)
            return sess.run(v)

    optimizer = make()
    here = trained(optimizer)
    there = cloudpickle.loads(cloudpickle.dumps(optimizer))
    np.testing.assert_array_equal(trained(there), here)
