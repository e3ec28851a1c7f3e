"""Blocks of space as public functions build them (TensorFlow's shape functions want block_shape's size), scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import i32, noise, ramp
from tests.oracle.compare import EXACT, ROUNDED
from tests.oracle.program import program
from tests.oracle.programs.api import F, expression

_X, _B = noise(F, 2, 4, 6, 3), noise(F, 12, 2, 3, 2)
for _label, _block, _pairs in (
    ("square", [2, 2], [[0, 0], [0, 0]]), ("padded", [3, 2], [[1, 1], [2, 0]]), ("one-axis", [2], [[1, 1]]),
    ("three-axes", [2, 3, 1], [[0, 0], [0, 0], [0, 0]]), ("uneven", [3, 2], [[0, 0], [0, 0]]),
    ("negative", [2, 2], [[-1, 1], [0, 0]]), ("zero", [0, 2], [[0, 0], [0, 0]]),
):  # fmt: skip
    _make = dict(block=_block, pairs=_pairs)
    expression(
        f"space-to-batch-{_label}",
        [_X],
        lambda tf, x, m=_make: tf.space_to_batch_nd(x, m["block"], m["pairs"]),
        True,
        ops=("SpaceToBatchND",),
    )
    expression(
        f"batch-to-space-{_label}",
        [_B],
        lambda tf, x, m=_make: tf.batch_to_space_nd(x, m["block"], m["pairs"]),
        True,
        ops=("BatchToSpaceND",),
    )
for _dtype in ("int32", "uint8", "float64", "bfloat16"):
    expression(
        f"space-to-batch-and-back-{_dtype}",
        [ramp(_dtype, 2, 4, 6, 3)],
        lambda tf, x: [
            tf.space_to_batch_nd(x, [2, 3], [[1, 1], [0, 0]]),
            tf.batch_to_space_nd(x, [2, 1], [[1, 0], [0, 2]]),
            tf.space_to_batch(x, [[0, 0], [0, 0]], 2),
        ],
    )
expression(
    "required-paddings",
    [i32(5, 7)],
    lambda tf, x: [
        *tf.required_space_to_batch_paddings(x, [3, 2], [[1, 2], [0, 0]]),
        *tf.required_space_to_batch_paddings([4, 9], [3, 2]),
    ],
)
expression("searchsorted", [np.sort(noise(F, 9))], lambda tf, x: [
    tf.searchsorted(x, [0.0, -5.0, 5.0]), tf.searchsorted(x, x, "right", tf.int64),
    tf.searchsorted(tf.stack([x, x * 2]), tf.stack([x, x])),
])  # fmt: skip
expression("bincounts", [i32(1, 2, 2, 7)], lambda tf, x: [
    tf.bincount(x), tf.bincount(x, weights=[1.0, 0.5, 0.5, 2]), tf.bincount(x, minlength=12, dtype=tf.float32),
    tf.bincount(x, maxlength=3), tf.math.bincount(x, dtype=tf.int64), tf.bincount(x[:0]),
])  # fmt: skip
expression("histograms", [noise(F, 3, 4) * 3], lambda tf, x: [
    tf.histogram_fixed_width(x, [-1.0, 2.0], 6), tf.histogram_fixed_width_bins(x, [-1.0, 2.0], 6),
])  # fmt: skip


def _scatters(dtype: str) -> None:
    def build(tf: Any) -> list[Any]:
        v = tf.Variable(ramp(dtype, 4, 3), dtype=tf.as_dtype(dtype))
        points, rows = tf.constant([[0, 1], [3, 2], [0, 1]]), tf.constant([[2], [0]])
        at = tf.placeholder(tf.int64, None)
        one, many = ramp(dtype, 3), ramp(dtype, 2, 3)
        steps = [[v.initializer]]
        for scatter in (tf.scatter_nd_add, tf.scatter_nd_sub, tf.scatter_nd_update):
            if scatter.__name__ != "scatter_nd_update":
                steps += [[scatter(v, points, one)], [v.initializer]]
            fed = scatter(v, at, many)
            steps += [[scatter(v, rows, many)], [v.initializer]]
            steps += [([fed], {at: np.array([[1], [3]])}), ([fed], {at: np.array([[1], [4]])}), [v.initializer]]
        return steps

    build.__name__ = f"scatter_nd_{dtype}"
    program("ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate", tolerance=ROUNDED)(build)


for _dtype in ("float32", "float64", "int32", "int64"):
    _scatters(_dtype)


@program("ScatterNdMax", "ScatterNdMin", tolerance=EXACT)
def scatter_nd_extremes(tf: Any) -> list[Any]:
    """Of which TensorFlow has the ops and no functions."""
    v = tf.Variable(ramp("float32", 4, 3))
    points, rows = tf.constant([[0, 1], [3, 2], [0, 1]]), tf.constant([[2], [0]], tf.int64)
    steps = [[v.initializer]]
    for scatter in (tf.raw_ops.ScatterNdMax, tf.raw_ops.ScatterNdMin):
        steps += [[scatter(ref=v._ref(), indices=points, updates=[0.5, -9.0, 7.0])], [v.initializer]]
        steps += [[scatter(ref=v._ref(), indices=rows, updates=[[-1.0, 0.0, 9.0], [2.0, -2.0, 0.0]])], [v.initializer]]
    return steps


@program("ScatterNdUpdate", tolerance=EXACT)
def batch_scatter_of_a_variable(tf: Any) -> list[Any]:
    v = tf.Variable(ramp("float32", 2, 4))
    delta = tf.IndexedSlices(tf.constant([[9.0, 8.0], [7.0, 6.0]]), tf.constant([[3, 0], [1, 1]]))
    return [[v.initializer], [v.batch_scatter_update(delta)]]


@program(tolerance=EXACT)
def assignments_of_a_variable_in_parts(tf: Any) -> list[Any]:
    parts = tf.get_variable("p", [5, 2], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2))
    whole = tf.constant(ramp("float32", 5, 2))
    return [
        [tf.global_variables_initializer()], parts.assign(whole), parts.assign_add(whole * 2), [parts.as_tensor()],
        parts.assign_sub([tf.ones([3, 2]), tf.ones([2, 2])]), parts.assign(parts), [parts.as_tensor()],
    ]  # fmt: skip


@program("ScatterNdUpdate", tolerance=EXACT)
def scatter_nd_update_of_other_types(tf: Any) -> list[Any]:
    text, truth = tf.Variable(["a", "b", "c"]), tf.Variable([True, False])
    return [
        [text.initializer, truth.initializer],
        [tf.scatter_nd_update(text, [[2], [0]], ["x", "y"]), tf.scatter_nd_update(truth, [[1]], [True])],
    ]


def _spread(tf: Any, x: Any, w: Any) -> list[Any]:
    def conv(x: Any, axes: int, padding: str) -> Any:
        assert axes == 2
        return tf.nn.conv2d(x, w, [1, 1, 1, 1], padding)

    def largest(x: Any, axes: int, padding: str) -> Any:
        return tf.nn.pool(x, [2], "MAX", padding)

    rates = tf.constant([2, 3]) + tf.cast(tf.reshape(tf.reduce_min(x), []) * 0.0, tf.int32)  # known only when it runs
    return [
        *(tf.nn.with_space_to_batch(x, rate, "VALID", conv) for rate in ([2, 1], [1, 1], [2, 3], rates)),
        *(tf.nn.with_space_to_batch(x, rate, "SAME", conv, [2, 3]) for rate in ([2, 1], [1, 1], [2, 3], rates)),
        tf.nn.with_space_to_batch(tf.reshape(x, [-1, 9, 2]), [2], "VALID", largest),
        tf.nn.with_space_to_batch(x, [2], "VALID", lambda t, n, p: t[:, :, 1:] * n, spatial_dims=[2]),
    ]


expression("spread-windows", [noise(F, 2, 7, 9, 2), noise(F, 2, 3, 2, 3)], _spread, True)
