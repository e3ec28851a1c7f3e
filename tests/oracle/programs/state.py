"""Variables, scatters, optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import noise, ramp
from tests.oracle.compare import EXACT, ROUNDED, Tolerance
from tests.oracle.program import program


def _variable(tf: Any, value: np.ndarray, name: str = "v") -> Any:
    """The reference of a variable, and the op that gives it its value."""
    variable = tf.Variable(value, name=name, dtype=tf.as_dtype(value.dtype))
    return variable, variable.initializer


@program("VariableV2", "Assign", "AssignAdd", "AssignSub", tolerance=ROUNDED)
def assignments(tf: Any) -> list[Any]:
    v, init = _variable(tf, ramp("float32", 2, 3))
    x = tf.placeholder(tf.float32, [2, 3])
    feed = {x: noise("float32", 2, 3)}
    return [
        [v.read_value()],
        [init],
        [v.read_value()],
        ([tf.assign(v, x)], feed),
        ([tf.assign_add(v, x)], feed),
        ([tf.assign_sub(v, x * 3)], feed),
        [v.read_value(), v.value()],
        [init],
        [v.read_value()],
    ]


@program("ScatterNdUpdate", "StridedSlice", tolerance=EXACT)
def a_ring_of_rows(tf: Any) -> list[Any]:
    """What a replay memory does: a variable is the index, and rows of several batches are replaced at once."""
    ring, init = _variable(tf, ramp("float32", 2, 4, 3), "ring")
    at, init_at = _variable(tf, np.array(1, np.int32), "at")
    ids, rows = tf.placeholder(tf.int32, [2, 2]), tf.placeholder(tf.float32, [2, 2, 3])
    feed = {ids: np.array([[0, 3], [2, 1]], np.int32), rows: noise("float32", 2, 2, 3)}
    row, some = ring[0, at], ring[:, at:]
    return [
        [init, init_at],
        [row, some],
        ([tf.batch_scatter_update(ring, ids, rows)], feed),
        [at.assign_add(2)],
        [row, some],
        ([tf.batch_scatter_update(ring, ids, rows)], {**feed, ids: np.array([[0, 3], [4, 1]], np.int32)}),
    ]


@program("VariableV2", "Assign", tolerance=ROUNDED)
def readers_of_an_assignment(tf: Any) -> list[Any]:
    """What was read before is the variable's own memory, and so has what was assigned since."""
    v, init = _variable(tf, ramp("float32", 2, 3))
    one, init_one = _variable(tf, np.array(2.0, np.float32), "one")
    read, before, two = tf.identity(v), v + 0.0, one.value()
    with tf.control_dependencies([read, before, two]):
        assigned = [v.assign(v * 2 + 1), one.assign(one + 1)]
    with tf.control_dependencies(assigned):
        after = [tf.identity(read), read + 0.0, tf.square(v), tf.identity(before), two * 3.0, tf.identity(one)]
    chosen = tf.cond(tf.reduce_sum(v) < 50.0, lambda: v.assign(v * 3), lambda: v.assign(v - 1))
    with tf.control_dependencies([chosen]):
        after_choice = v + 0.0
    turned = v.assign(tf.reverse(v, [0, 1]))
    with tf.control_dependencies([turned]):
        after_turn = v * 1.0
    return [[init, init_one], after, after, [after_choice], [after_choice], [after_turn], [v.read_value()]]


@program("StridedSliceAssign", tolerance=EXACT)
def parts_assigned(tf: Any) -> list[Any]:
    v, init = _variable(tf, ramp("float32", 4, 3))
    i, x = tf.placeholder(tf.int32, []), tf.placeholder(tf.float32, None)
    row = {i: np.array(2, np.int32), x: noise("float32", 3)}
    steps = [
        v[1].assign([5.0, 6.0, 7.0]), v[:, 0].assign(tf.ones([4])), v[::-2, 1:].assign([[1.0, 2.0], [3.0, 4.0]]),
        tf.assign(v[3], v[1]), v[..., tf.newaxis, 2].assign([[1.0], [2.0], [3.0], [4.0]]), v[0, 0].assign(9.0),
    ]  # fmt: skip
    return [[init], *([step] for step in steps), ([v[i].assign(x)], row), ([v[:2].assign(x)], row), [v.read_value()]]


@program("VariableV2", "Assign", "AssignAdd", "Square", tolerance=ROUNDED)
def readers_in_a_loop(tf: Any) -> list[Any]:
    v, init = _variable(tf, ramp("float32", 2))
    read = tf.identity(v)

    def body(i: Any, x: Any, y: Any, z: Any) -> Any:
        with tf.control_dependencies([v.assign(x * 2)]):
            squared = tf.square(v)
        with tf.control_dependencies([squared]), tf.control_dependencies([v.assign_add([1.0, 2.0])]):
            return i + 1, read + 0.0, squared, tf.square(v)

    ones = tf.ones([2])
    out = tf.while_loop(lambda i, *_: i < 3, body, [0, ones, ones, ones], parallel_iterations=1)
    return [[init], list(out), list(out), [v.read_value()]]


@program("IsVariableInitialized")
def initialized(tf: Any) -> list[Any]:
    v, init = _variable(tf, ramp("float64", 2))
    told = tf.is_variable_initialized(v)
    return [[told], [init], [told]]


@program("CountUpTo", tolerance=EXACT)
def counted(tf: Any) -> list[Any]:
    v, init = _variable(tf, np.array(3, np.int64))
    count = tf.count_up_to(v, 5)
    return [[count], [init], [count], [count], [count], [v.read_value()]]


@program("Assign")
def other_shapes(tf: Any) -> list[Any]:
    v, init = _variable(tf, ramp("float32", 2, 3))
    x = tf.placeholder(tf.float32, None)
    loose, strict = tf.assign(v, x, validate_shape=False), tf.assign(v, x)
    five, six = {x: ramp("float32", 5)}, {x: ramp("float32", 2, 3)}
    add = tf.assign_add(v, x)
    return [[init], (([strict]), five), (([strict]), six), (([add]), five), (([loose]), five), (([add]), five)]


@program("Assign", "AssignAdd", tolerance=EXACT)
def integers_wrap(tf: Any) -> list[Any]:
    v, init = _variable(tf, np.array([2**31 - 1, -(2**31)], np.int32))
    return [[init], [tf.assign_add(v, [1, 2])], [tf.assign_sub(v, [5, 5])]]


def _scatters(kind: str, dtype: str) -> None:
    def build(tf: Any) -> list[Any]:
        v, init = _variable(tf, ramp(dtype, 4, 3) + np.array(20, dtype))
        scatter = getattr(tf, "scatter_" + kind)
        rows, matrix = (tf.constant(i, tf.int32) for i in ([2, 0, 2], [[1, 0], [3, 3]]))
        one = ramp(dtype, 3, 3) + np.array(6, dtype)
        many = ramp(dtype, 2, 2, 3) + np.array(9, dtype)
        at = tf.placeholder(tf.int64, None)
        fed = scatter(v, at, one)
        return [
            [init],
            [scatter(v, rows, one)],
            [init],
            [scatter(v, matrix, many)],
            [scatter(v, [1, 2], np.array(3, dtype))],
            ([fed], {at: np.array([3, 1, 3], np.int64)}),
            ([fed], {at: np.array([0, 4, 1], np.int64)}),
            ([fed], {at: np.array([0, -1, 1], np.int64)}),
            [init],  # TensorFlow has changed the rows before the wrong one, sparkflow none
            ([fed], {at: np.array([0, 1], np.int64)}),
            [scatter(v, np.zeros(0, np.int32), np.zeros((0, 3), dtype))],
        ]

    build.__name__ = f"scatter_{kind}_{dtype}"
    program("Scatter" + kind.capitalize(), tolerance=ROUNDED)(build)


for _kind in ("update", "add", "sub", "mul", "div", "min", "max"):
    for _dtype in ("float32", "float64", "int32", "int64", "float16"):
        _scatters(_kind, _dtype)

# ---------------------------------------------------------------------- optimizers

_OPTIMIZERS = {
    "sgd": (lambda tf: tf.train.GradientDescentOptimizer(0.1), "ApplyGradientDescent ScatterSub"),
    "momentum": (lambda tf: tf.train.MomentumOptimizer(0.1, 0.9), "ApplyMomentum SparseApplyMomentum"),
    "nesterov": (
        lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "ApplyMomentum SparseApplyMomentum",
    ),
    "adagrad": (lambda tf: tf.train.AdagradOptimizer(0.3), "ApplyAdagrad SparseApplyAdagrad"),
    "adam": (lambda tf: tf.train.AdamOptimizer(0.05), "ApplyAdam"),
    "rmsprop": (lambda tf: tf.train.RMSPropOptimizer(0.05, 0.9, 0.5), "ApplyRMSProp SparseApplyRMSProp"),
    "centered": (
        lambda tf: tf.train.RMSPropOptimizer(0.05, 0.9, 0.5, 1e-4, centered=True),
        "ApplyCenteredRMSProp SparseApplyCenteredRMSProp",
    ),
    "adadelta": (lambda tf: tf.train.AdadeltaOptimizer(1.0, 0.9, 1e-3), "ApplyAdadelta SparseApplyAdadelta"),
    "proximal": (
        lambda tf: tf.train.ProximalGradientDescentOptimizer(0.1),
        "ApplyProximalGradientDescent SparseApplyProximalGradientDescent",
    ),
    "proximal_l1_l2": (
        lambda tf: tf.train.ProximalGradientDescentOptimizer(0.1, 0.3, 0.2),
        "ApplyProximalGradientDescent SparseApplyProximalGradientDescent",
    ),
    "proximal_adagrad": (
        lambda tf: tf.train.ProximalAdagradOptimizer(0.3),
        "ApplyProximalAdagrad SparseApplyProximalAdagrad",
    ),
    "proximal_adagrad_l1_l2": (
        lambda tf: tf.train.ProximalAdagradOptimizer(0.3, 0.2, 0.1, 0.05),
        "ApplyProximalAdagrad SparseApplyProximalAdagrad",
    ),
    "ftrl": (lambda tf: tf.train.FtrlOptimizer(0.3), "ApplyFtrl SparseApplyFtrl"),
    "ftrl_from_zero": (lambda tf: tf.train.FtrlOptimizer(0.3, initial_accumulator_value=0.0), "ApplyFtrl"),
    "ftrl_l1_l2": (
        lambda tf: tf.train.FtrlOptimizer(0.3, -0.6, 0.2, 0.05, 0.02),
        "ApplyFtrl SparseApplyFtrl",
    ),
    "ftrl_shrinkage": (
        lambda tf: tf.train.FtrlOptimizer(
            0.3, l1_regularization_strength=0.01, l2_shrinkage_regularization_strength=0.1
        ),
        "ApplyFtrlV2 SparseApplyFtrlV2",
    ),
}


_DUAL = {  # these count steps
    "adagrad_da": lambda tf, step: tf.train.AdagradDAOptimizer(0.3, step),
    "adagrad_da_l1_l2": lambda tf, step: tf.train.AdagradDAOptimizer(0.3, step, 0.2, 0.1, 0.05),
}


def _trained(name: str, dtype: str, sparse: bool) -> None:
    def build(tf: Any) -> list[Any]:
        """Ten steps; rows that repeat within a step when sparse."""
        w = tf.Variable(noise(dtype, 6, 3), name="w", dtype=tf.as_dtype(dtype))
        b = tf.Variable(noise(dtype, 3), name="b", dtype=tf.as_dtype(dtype))
        rows = tf.placeholder(tf.int32, [None])
        x = tf.nn.embedding_lookup(w, rows) if sparse else tf.gather(tf.identity(w), rows)
        loss = tf.reduce_sum(tf.square(x * 0.7 + b))
        step = tf.Variable(0, name="step", dtype=tf.int64, trainable=False)
        optimizer = _OPTIMIZERS[name][0](tf) if name in _OPTIMIZERS else _DUAL[name](tf, step)
        train = optimizer.minimize(loss, global_step=step)
        slots = [v.value() for v in tf.global_variables()]
        feeds = [{rows: np.array(at, np.int32)} for at in ([0, 2, 2], [5, 1, 0], [3], [4, 4, 4], [1, 2])]
        steps: list[Any] = [[tf.global_variables_initializer()]]
        for i in range(10):
            steps += [([train], feeds[i % 5]), ([loss], feeds[i % 5])]
        return [*steps, slots]

    kind = "sparse" if sparse else "dense"
    build.__name__ = f"train_{name}_{kind}_{dtype}"
    ops = _OPTIMIZERS[name][1] if name in _OPTIMIZERS else "ApplyAdagradDA SparseApplyAdagradDA"
    program(*ops.split(), tolerance=Tolerance(64, scaled=True))(build)


for _name in (*_OPTIMIZERS, *_DUAL):
    for _dtype in (
        ("float32",) if _name.startswith("proximal") else ("float32", "float64")
    ):  # those refuse float64 there
        for _sparse in (False, True):
            _trained(_name, _dtype, _sparse)


@program("VariableV2", "AssignSub", tolerance=ROUNDED)
def moving_averages_without_their_bias(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [2])
    y, counted = x * 2, tf.Variable(0)
    averages = [tf.train.ExponentialMovingAverage(0.9, n, zero_debias=True) for n in (None, counted)]
    moves = [average.apply([y]) for average in averages]
    values = [average.average(y)._ref() for average in averages]
    start, beside = tf.global_variables_initializer(), [v._ref() for v in tf.global_variables()]
    rows = [np.array(row, np.float32) for row in ([1, 2], [3, -5], [0, 0])]
    return [[start], *(step for row in rows for step in ((moves, {x: row}), values)), beside]


@program("MutexV2", "MutexLock", "ConsumeMutexLock", tolerance=ROUNDED)
def critical_sections(tf: Any) -> list[Any]:
    """Three in one section, of which each adds to what the one before has left."""
    section, v = tf.CriticalSection(name="section"), tf.Variable(1.0)

    def part() -> Any:
        new = v.read_value() * 2
        with tf.control_dependencies([v.assign(new)]):
            return tf.identity(new)

    made = [section.execute(part) for _ in range(3)]
    inside = tf.while_loop(lambda i: i < 3, lambda i: section.execute(lambda: i + 1), [tf.constant(0)])
    return [[tf.global_variables_initializer()], [tf.add_n(made)], [v.read_value()], [inside]]
