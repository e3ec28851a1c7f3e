"""Convolutions against sums written out, and against each other."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Graph
from sparkflow.ops import array, nn_conv, nn_conv_depthwise
from sparkflow_runtime.wire.errors import InvalidArgumentError

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def convolved(x: np.ndarray, w: np.ndarray, stride: int, dilation: int, pads: Any) -> np.ndarray:
    """By definition: NHWC, pads ((top, bottom), (left, right))."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    reach = [(k - 1) * dilation + 1 for k in w.shape[:2]]
    out = [(n - r) // stride + 1 for n, r in zip(x.shape[1:3], reach)]
    y = np.zeros((len(x), *out, w.shape[3]))
    for i, j, a, b in product(range(out[0]), range(out[1]), range(w.shape[0]), range(w.shape[1])):
        y[:, i, j] += x[:, i * stride + a * dilation, j * stride + b * dilation] @ w[a, b]
    return y


def test_a_small_one_by_hand(evaluate: Any) -> None:
    """As TensorFlow computes it: SAME puts the odd row and column of zeros behind."""
    x, w = np.arange(1.0, 10.0).reshape(1, 3, 3, 1), np.array([1.0, 10.0, 100.0, 1000.0]).reshape(2, 2, 1, 1)
    valid = evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "VALID"), x, w)
    assert valid[0, ..., 0].tolist() == [[5421, 6532], [8754, 9865]]
    same = evaluate(lambda a, b: nn_conv.conv2d(a, b, [1, 2, 2, 1], "SAME"), x, w)
    assert same[0, ..., 0].tolist() == [[5421, 603], [87, 9]]


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 5e-3), (np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2), (3, 1)])
@pytest.mark.parametrize("taps", [(3, 3), (1, 1), (2, 3)])
def test_conv2d(evaluate: Any, taps: Any, stride: int, dilation: int, dtype: Any, tolerance: float) -> None:
    x, w = normal(2, 7, 9, 3).astype(dtype), normal(*taps, 3, 4).astype(dtype)
    want = convolved(x.astype("f8"), w.astype("f8"), stride, dilation, ((0, 0), (0, 0)))
    got = evaluate(lambda a, b: nn_conv.conv2d(a, b, stride, "VALID", dilations=dilation), x, w)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10)
    pads = ((1, 2), (0, 3))
    want = convolved(x.astype("f8"), w.astype("f8"), stride, dilation, pads)
    listed = [(0, 0), *pads, (0, 0)]
    got = evaluate(lambda a, b: nn_conv.conv2d(a, b, stride, listed, dilations=dilation), x, w)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("channels", [3, 16])
def test_channels_first(evaluate: Any, channels: int) -> None:
    x, w = normal(2, 7, 6, channels).astype("f4"), normal(3, 3, channels, 16).astype("f4")
    last = evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "SAME"), x, w)
    first = evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "SAME", data_format="NCHW"), np.moveaxis(x, 3, 1).copy(), w)
    np.testing.assert_allclose(np.moveaxis(first, 1, 3), last, rtol=1e-5, atol=1e-5)


def test_nothing_in_nothing_out(evaluate: Any) -> None:
    w = normal(3, 3, 3, 4)
    assert evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "SAME"), np.zeros((0, 5, 5, 3)), w).shape == (0, 5, 5, 4)
    sums = evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "SAME"), np.zeros((1, 2, 2, 0)), np.zeros((3, 3, 0, 2)))
    np.testing.assert_array_equal(sums, np.zeros((1, 2, 2, 2)))


def test_windows_larger_than_the_image(graph: Any) -> None:
    """Said while the graph is built, as TensorFlow does; of an image whose size the step tells, nothing comes out."""
    w, small = tf.ones([3, 3, 3, 4]), np.zeros((2, 2, 5, 3), np.float32)
    for build in (
        lambda: tf.nn.conv2d(small, w, 1, "VALID"),
        lambda: tf.nn.avg_pool(small, 3, 1, "VALID"),
        lambda: tf.nn.conv2d(small, w[:2], 1, "VALID", dilations=2),
        lambda: tf.layers.conv2d(small, 4, 3),
    ):
        with pytest.raises(ValueError, match="Negative dimension size caused by subtracting 3"):
            build()
    with pytest.raises(ValueError, match="batch or depth"):
        tf.nn.conv2d(small, w, 1, [[0, 0], [1, 1], [1, 1], [1, 0]])
    assert tf.nn.conv2d(small, w, 1, [[0, 0], [1, 0], [0, 0], [0, 0]]).shape.as_list() == [2, 1, 3, 4]
    x = tf.placeholder(tf.float32, [None, None, None, 3])
    with tf.Session() as session:
        assert session.run(tf.nn.conv2d(x, w, 1, "VALID"), {x: small}).shape == (2, 0, 3, 4)


def test_depthwise_and_separable(evaluate: Any) -> None:
    x, w, p = normal(2, 6, 5, 3), normal(3, 2, 3, 2), normal(1, 1, 6, 4)
    deep = evaluate(lambda a, b: nn_conv_depthwise.depthwise_conv2d(a, b, [1, 2, 2, 1], "VALID"), x, w)
    for c in range(3):
        want = convolved(x[..., c : c + 1], w[:, :, c : c + 1], 2, 1, ((0, 0), (0, 0)))
        np.testing.assert_allclose(deep[..., 2 * c : 2 * c + 2], want)
    both = evaluate(lambda a, b, d: nn_conv_depthwise.separable_conv2d(a, b, d, [1, 2, 2, 1], "VALID"), x, w, p)
    np.testing.assert_allclose(both, deep @ p[0, 0])
    wide = evaluate(lambda a, b: nn_conv_depthwise.depthwise_conv2d(a, b, [1, 1, 1, 1], "SAME", rate=[2, 2]), x, w)
    assert wide.shape == (2, 6, 5, 6)


def test_transposes_are_transposes(evaluate: Any) -> None:
    """<conv(x), y> = <x, transpose(y)>, over one to three axes."""
    x, w = normal(2, 7, 6, 3), normal(3, 2, 3, 5)
    y = evaluate(lambda a, b: nn_conv.conv2d(a, b, 2, "SAME"), x, w)
    v = normal(*y.shape)
    back = evaluate(lambda a, b: nn_conv.conv2d_transpose(a, b, [2, 7, 6, 3], 2), v, w)
    np.testing.assert_allclose((y * v).sum(), (x * back).sum())
    x1, w1 = x[:, 0], w[0]
    y1 = evaluate(lambda a, b: nn_conv.conv1d(a, b, 2, "SAME"), x1, w1)
    np.testing.assert_allclose(y1[:, None], convolved(x1[:, None], w1[None], 2, 1, ((0, 0), (0, 0))))
    v1 = normal(*y1.shape)
    back = evaluate(lambda a, b: nn_conv.conv1d_transpose(a, b, [2, 6, 3], 2), v1, w1)
    np.testing.assert_allclose((y1 * v1).sum(), (x1 * back).sum())
    x3, w3 = x[:, None].repeat(3, 1), w[None].repeat(2, 0)
    y3 = evaluate(lambda a, b: nn_conv.conv3d(a, b, [1, 1, 2, 2, 1], "SAME"), x3, w3)
    np.testing.assert_allclose(y3[:, 0], 2 * y)
    v3 = normal(*y3.shape)
    back = evaluate(lambda a, b: nn_conv.conv3d_transpose(a, b, [2, 3, 7, 6, 3], [1, 1, 2, 2, 1]), v3, w3)
    np.testing.assert_allclose((y3 * v3).sum(), (x3 * back).sum())


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_convolution_by_rank(evaluate: Any, rank: int) -> None:
    x, w = normal(2, *[6] * (rank - 2), 3), normal(*[3] * (rank - 2), 3, 4)
    got = evaluate(lambda a, b: nn_conv.convolution(a, b, "VALID", dilation_rate=2), x, w)
    assert got.shape == (2, *[2] * (rank - 2), 4)


def test_groups(evaluate: Any) -> None:
    """A filter that takes a part of the channels is applied to one part after the other."""
    x, w, dy = normal(2, 6, 5, 4), normal(3, 3, 2, 6), normal(2, 6, 5, 6)
    got = evaluate(lambda a, b: nn_conv.conv2d(a, b, 1, "SAME"), x, w)
    parts = [convolved(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], 1, 1, ((1, 1), (1, 1))) for g in (0, 1)]
    np.testing.assert_allclose(got, np.concatenate(parts, -1))
    back = evaluate(lambda b, d: nn_conv.conv2d_backprop_input([2, 6, 5, 4], b, d, 1, "SAME"), w, dy)
    np.testing.assert_allclose((got * dy).sum(), (x * back).sum())
    dw = evaluate(lambda a, d: nn_conv.conv2d_backprop_filter(a, [3, 3, 2, 6], d, 1, "SAME"), x, dy)
    np.testing.assert_allclose((got * dy).sum(), (w * dw).sum())


def test_atrous(evaluate: Any) -> None:
    x, w = normal(1, 9, 9, 2), normal(3, 3, 2, 2)
    got = evaluate(lambda a, b: nn_conv.atrous_conv2d(a, b, 3, "VALID"), x, w)
    np.testing.assert_allclose(got, convolved(x, w, 1, 3, ((0, 0), (0, 0))))
    back = evaluate(lambda a, b: nn_conv.atrous_conv2d_transpose(a, b, [1, 9, 9, 2], 3, "VALID"), got, w)
    np.testing.assert_allclose((got * got).sum(), (x * back).sum())


def test_static_shapes(graph: Graph) -> None:
    x = array.placeholder("float32", [None, 7, None, 3])
    w = array.placeholder("float32", [3, 2, 3, 8])
    assert nn_conv.conv2d(x, w, 2, "SAME").shape.as_list() == [None, 4, None, 8]
    assert nn_conv.conv2d(x, w, [1, 1, 1, 1], "VALID").shape.as_list() == [None, 5, None, 8]
    unknown = array.placeholder("float32")
    assert nn_conv.conv2d(unknown, unknown, 1, "SAME").shape.as_list() == [None] * 4
    made = array.placeholder("float32", [None, 7, None, 8])
    assert nn_conv.conv2d_transpose(made, w, [5, 14, 9, 3], 2).shape.as_list() == [5, 14, 9, 3]
    assert nn_conv_depthwise.depthwise_conv2d_native(x, w, [1, 1, 1, 1], "SAME").shape.as_list() == [None, 7, None, 24]


def test_refusals(graph: Graph) -> None:
    x, w = array.zeros([1, 4, 4, 3]), array.zeros([3, 3, 2, 8])
    with pytest.raises(InvalidArgumentError, match=r"has 3 channels, filter \(3, 3, 2, 8\) takes 2"):
        nn_conv.conv2d(x, w, 1, "SAME")
    with pytest.raises(InvalidArgumentError, match="padding must be one of"):
        apply_op("Conv2D", [x, array.zeros([3, 3, 3, 8])], {"strides": [1, 1, 1, 1], "padding": "AROUND"})
    with pytest.raises(InvalidArgumentError, match=r"axis 1: a window of 7 .* does not fit an axis of 4"):
        nn_conv.conv2d(x, array.zeros([7, 3, 3, 8]), 1, "VALID")
    with pytest.raises(InvalidArgumentError, match="1 for batch and channels"):
        nn_conv.conv2d(x, array.zeros([3, 3, 3, 8]), [2, 1, 1, 1], "SAME")
    with pytest.raises(InvalidArgumentError, match="rank 4"):
        nn_conv.conv2d(array.zeros([4, 4, 3]), w, 1, "SAME")
    with pytest.raises(ValueError, match="padding must be SAME, VALID"):
        nn_conv.conv2d(x, array.zeros([3, 3, 3, 8]), 1, "FULL")
    with pytest.raises(ValueError, match="data_format must be NHWC or NCHW"):
        nn_conv.conv2d(x, array.zeros([3, 3, 3, 8]), 1, "SAME", data_format="CHWN")
    with pytest.raises(ValueError, match="give one of filter and filters"):
        nn_conv.conv2d(x, None, 1, "SAME")


def test_shapes_that_only_a_run_knows_are_checked_there(evaluate: Any) -> None:
    def build(x: Any, w: Any) -> Any:
        return nn_conv.conv2d(x, w, 1, "SAME")

    with pytest.raises(InvalidArgumentError, match="input has 3 channels"):
        evaluate(build, np.zeros((1, 4, 4, 3)), np.zeros((3, 3, 2, 8)), known_shapes=False)
    with pytest.raises(InvalidArgumentError, match="out_backprop has size"):
        evaluate(
            lambda x, dy: nn_conv.conv2d_backprop_filter(x, [3, 3, 3, 8], dy, 1, "SAME"),
            np.zeros((1, 4, 4, 3)),
            np.zeros((1, 3, 4, 8)),
        )


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_node_that_is_given_other_shapes(graph: Any, padding: str) -> None:
    """Calls of shapes that came before go straight to what computes them; other ones, and wrong ones, do not."""
    x, w = (tf.placeholder(tf.float32, [None] * 4) for _ in range(2))
    y = tf.nn.conv2d(x, w, [1, 1, 1, 1], padding)
    dy = tf.placeholder(tf.float32, [None] * 4)
    fetches = [tf.nn.relu(tf.nn.bias_add(y, [1.0, -1.0])), *tf.gradients(y, [x, w], dy)]
    rng = np.random.default_rng(0)
    with tf.Session() as session:
        for turn in range(3):
            for size, taps in ((5, 1), (5, 3), (8, 3)):
                out = size if padding == "SAME" else size - taps + 1
                shapes = (2, size, size, 4), (taps, taps, 4, 2), (2, out, out, 2)
                arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
                # not side by side, as a feed may lie
                feeds = {x: arrays[0][:, ::-1] if turn == 2 else arrays[0], w: arrays[1], dy: arrays[2]}
                got = session.run(fetches, feeds)
                whole = [np.ascontiguousarray(feeds[t]) for t in (x, w, dy)]
                with tf.Graph().as_default(), tf.Session() as other:
                    held = [tf.constant(a) for a in whole]
                    z = tf.nn.conv2d(held[0], held[1], [1, 1, 1, 1], padding)
                    want = [tf.nn.relu(tf.nn.bias_add(z, [1.0, -1.0])), *tf.gradients(z, held[:2], held[2])]
                    for one, two in zip(got, other.run(want)):
                        assert one.flags.c_contiguous
                        np.testing.assert_array_equal(one, two)
        with pytest.raises(tf.errors.InvalidArgumentError, match="channels"):
            session.run(fetches[0], {x: np.ones((2, 5, 5, 3)), w: np.ones((3, 3, 4, 2))})
