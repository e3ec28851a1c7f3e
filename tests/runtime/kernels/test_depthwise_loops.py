"""Depthwise convolutions: machine code and numpy give the same bits, and what a convolution a channel gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import depthwise_loops as loops
from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.kernels.windows import Sliding

CASES = [  # images, size, channels, taps, strides, dilations, padding
    (2, (5, 6), 3, (3, 3), (1, 1), (1, 1), "SAME"),
    (3, (7, 5), 1, (2, 3), (2, 2), (1, 1), "VALID"),
    (1, (9, 9), 8, (3, 3), (1, 1), (2, 3), "SAME"),
    (2, (4, 4), 5, (1, 1), (2, 2), (1, 1), "SAME"),
    (2, (2, 2), 4, (5, 5), (1, 1), (1, 1), "SAME"),
]


def window(case: Any) -> Any:
    _, size, _, taps, strides, dilations, padding = case
    attrs = {"padding": padding, "strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "data_format": "NHWC"}
    sliding = Sliding(Node("it", "DepthwiseConv2dNative", attrs, "/device:CPU:0", np, None), 2)
    return sliding.window((1, *size), sliding.triple(taps, 1))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_versions(case: Any, dtype: str) -> None:
    images, size, channels, taps, *_ = case
    rng, win = np.random.default_rng(3), window(case)
    x = rng.standard_normal((images, 1, *size, channels)).astype(dtype)
    rows, width = images * win.out[1], win.out[2] * channels
    w = np.tile(rng.standard_normal((taps[0] * taps[1], channels)).astype(dtype), (1, win.out[2]))
    dy = rng.standard_normal((rows, width)).astype(dtype)
    for loop, given, shape, count, step in (
        (loops.filtered, (x, w), dy.shape, rows, win.out[1]),
        (loops.spread_back, (w, dy), x.shape, rows, win.out[1]),
        (loops.filter_gradient, (x, dy), w.shape, len(w), 1),
    ):
        made = []
        for version in (loop.compile(), loop.numpy):
            out = np.zeros(shape, dtype)
            arrays = (out, *given) if loop is loops.spread_back else (*given, out)
            for start in range(0, count, step):
                version(*arrays, win.numbers, start, start + step)
            made.append(out)
        assert made[0].tobytes() == made[1].tobytes()
        assert np.abs(made[0]).max() > 0


@pytest.mark.parametrize("images", [0, 2])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_channel_at_a_time(images: int, multiplier: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((images, 6, 5, 3))
    w = rng.standard_normal((3, 2, 3, multiplier))
    with tf.Graph().as_default(), tf.Session() as session:
        given, filters = tf.constant(x), tf.constant(w)
        whole = tf.nn.depthwise_conv2d(given, filters, [1, 2, 2, 1], "SAME")
        parts = [tf.nn.conv2d(given[..., c : c + 1], filters[:, :, c : c + 1], [1, 2, 2, 1], "SAME") for c in range(3)]
        joined = tf.concat(parts, 3)
        grads = [tf.gradients(tf.reduce_sum(y * tf.sin(y)), [given, filters]) for y in (whole, joined)]
        (a, b), (some, others) = session.run([(whole, joined), grads])
    np.testing.assert_allclose(a, b, rtol=1e-12)
    for one, other in zip(some, others):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_gradients_of_another_batch_are_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, w = np.ones((2, 4, 4, 3), np.float32), np.ones((3, 3, 3, 1), np.float32)
        dy = tf.placeholder(tf.float32, [None, 4, 4, 3])
        by_input = tf.nn.depthwise_conv2d_backprop_input(tf.shape(x), w, dy, [1, 1, 1, 1], "SAME")
        by_filter = tf.nn.depthwise_conv2d_backprop_filter(x, w.shape, dy, [1, 1, 1, 1], "SAME")
        for op in (by_input, by_filter):
            with pytest.raises(tf.errors.InvalidArgumentError, match="out_backprop has 3 images, input 2"):
                session.run(op, {dy: np.ones((3, 4, 4, 3), np.float32)})
