"""The loops of grey-scale dilation: both versions have the same bits, and the op gives what its definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import dilation_loops as loops
from sparkflow_runtime.wire.windows import slide

CASES = [  # size, taps, strides, rates, padding, channels
    ((9, 11), (3, 3), (1, 1), (1, 1), "SAME", 5),
    ((9, 11), (2, 4), (1, 1), (2, 2), "SAME", 1),
    ((8, 7), (3, 2), (2, 3), (1, 1), "VALID", 3),
    ((8, 9), (2, 2), (3, 2), (2, 3), "SAME", 4),
    ((2, 3), (5, 7), (1, 1), (1, 1), "SAME", 2),
    ((2, 2), (4, 5), (2, 2), (1, 1), "SAME", 2),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_versions_have_the_same_bits(case: Any, dtype: Any) -> None:
    size, taps, strides, rates, padding, channels = case
    slides = [slide(*numbers, padding, (0, 0)) for numbers in zip(size, taps, strides, rates)]
    out, before = [s[0] for s in slides], [s[1] for s in slides]
    numbers = np.array([1, *taps, 1, *strides, 1, *rates, 0, *before, 1, *out], np.int64)
    sizes, rng = np.array([1, *size, channels], np.int64), np.random.default_rng(2)
    x = rng.integers(-3, 3, (3, *size, channels)).astype(dtype)
    x.reshape(-1)[::17], x.reshape(-1)[5::23] = np.nan, -np.inf
    weights = rng.integers(-2, 2, (*taps, channels)).astype(dtype)
    repeated = np.tile(weights.reshape(-1, channels), out[1]).reshape(-1)
    dy = rng.standard_normal((3, *out, channels)).astype(dtype).reshape(-1)
    found = []
    for machine in (True, False):
        highest, cells, taps_loop = (
            loop.compile() if machine else loop.numpy
            for loop in (loops.highest, loops.give_to_cells, loops.give_to_taps)
        )
        best, where = np.full(dy.size, np.finfo(dtype).min, dtype), np.full(dy.size, 7, np.int32)
        highest(x.reshape(-1), repeated, best, where, numbers, sizes, 0, 2)
        assert (where[dy.size // 3 * 2 :] == 7).all()
        highest(x.reshape(-1), repeated, best, where, numbers, sizes, 2, 3)
        dx, sums = np.zeros(x.size, dtype), np.zeros(weights.size)
        cells(where, dy, dx, numbers, sizes, 1, 3)
        taps_loop(where, dy, sums, channels)
        found.append((best, where, dx, sums))
    for one, other in zip(*found):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_the_largest_sum_and_its_slopes(case: Any) -> None:
    size, taps, strides, rates, padding, channels = case
    rng = np.random.default_rng(4)
    x, weights = rng.standard_normal((2, *size, channels)), rng.standard_normal((*taps, channels))
    with tf.Graph().as_default(), tf.Session() as session:
        image, kernel = tf.constant(x), tf.constant(weights)
        y = tf.nn.dilation2d(image, kernel, [1, *strides, 1], [1, *rates, 1], padding)
        dy = rng.standard_normal(y.shape.as_list())
        made, dx, dw = session.run([y, *tf.gradients(y, [image, kernel], tf.constant(dy))])
    before = [slide(*numbers, padding, (0, 0))[1] for numbers in zip(size, taps, strides, rates)]
    want, want_dx, want_dw = np.full(made.shape, -np.inf), np.zeros_like(x), np.zeros_like(weights)
    for n, i, j, c in np.ndindex(made.shape):
        sums = {}
        for p, q in np.ndindex(*taps):
            h, w = i * strides[0] + p * rates[0] - before[0], j * strides[1] + q * rates[1] - before[1]
            if 0 <= h < size[0] and 0 <= w < size[1]:
                sums[(p, q, h, w)] = x[n, h, w, c] + weights[p, q, c]
        p, q, h, w = max(sums, key=sums.__getitem__)
        want[n, i, j, c] = sums[p, q, h, w]
        want_dx[n, h, w, c] += dy[n, i, j, c]
        want_dw[p, q, c] += dy[n, i, j, c]
    np.testing.assert_array_equal(made, want)
    np.testing.assert_allclose(dx, want_dx, rtol=1e-12)
    np.testing.assert_allclose(dw, want_dw, rtol=1e-12)
