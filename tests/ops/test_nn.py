"""Activations, biases, normalisation, losses and the largest, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.ops import array, math, nn, nn_loss
from sparkflow_runtime.wire.errors import InvalidArgumentError

X = np.array([[-50.0, -1.5, -0.25, 0.0], [0.5, 3.0, 7.0, 50.0]])
ACTIVATIONS = [
    (nn.relu, lambda x: np.maximum(x, 0)),
    (nn.relu6, lambda x: np.clip(x, 0, 6)),
    (nn.elu, lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    (nn.selu, lambda x: 1.05070098 * np.where(x < 0, 1.67326324 * np.expm1(np.minimum(x, 0)), x)),
    (nn.softplus, lambda x: np.logaddexp(x, 0)),
    (nn.softsign, lambda x: x / (1 + np.abs(x))),
    (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.softmax, lambda x: special.softmax(x, -1)),
    (nn.log_softmax, lambda x: special.log_softmax(x, -1)),
    (lambda x: nn.softmax(x, 0), lambda x: special.softmax(x, 0)),
    (nn.l2_loss, lambda x: (x**2).sum() / 2),
    (lambda x: nn.l2_normalize(x, 1), lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)),
    (lambda x: nn.bias_add(x, array.ones([4], x.dtype)), lambda x: x + 1),
]


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 3e-3), (np.float32, 1e-6), (np.float64, 1e-7)])
@pytest.mark.parametrize("build, expected", ACTIVATIONS)
def test_activations(evaluate: Any, build: Any, expected: Any, dtype: Any, tolerance: float) -> None:
    x = X.astype(dtype)
    got = evaluate(build, x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected(X).astype(dtype), rtol=tolerance, atol=tolerance)


def test_bias_add_formats(evaluate: Any, graph: Graph) -> None:
    x, b = np.zeros((2, 3, 4, 5)), np.arange(3.0)
    got = evaluate(lambda t, u: nn.bias_add(t, u, "NCHW"), x, b)
    np.testing.assert_array_equal(got, x + b[:, None, None])
    with pytest.raises(InvalidArgumentError, match=r"bias \(3,\).*axis 3 of value \(2, 3, 4, 5\)"):
        nn.bias_add(array.zeros([2, 3, 4, 5]), array.zeros([3]))
    with pytest.raises(ValueError, match="data_format"):
        nn.bias_add(array.zeros([2, 3]), array.zeros([3]), "CHWN")


def test_layers(evaluate: Any) -> None:
    x, w, b = np.ones((2, 3)), np.full((3, 4), -1.0), np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(evaluate(nn.xw_plus_b, x, w, b), x @ w + b)
    np.testing.assert_array_equal(evaluate(nn.relu_layer, x, w, b), np.maximum(x @ w + b, 0))


# ---------------------------------------------------------------------- dropout


@pytest.mark.parametrize("arguments", [{"rate": 0.25}, {"keep_prob": 0.75}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout(evaluate: Any, arguments: Any, dtype: Any) -> None:
    got = evaluate(lambda x: nn.dropout(x, seed=3, **arguments), np.ones((100, 100), dtype))
    assert got.dtype == dtype
    np.testing.assert_allclose(np.unique(got), [0, 4 / 3], rtol=1e-6)
    assert abs(got.mean() - 1) < 0.03


def test_dropout_by_a_variable(graph: Graph) -> None:
    rate = tf.Variable(0.25)
    dropped = [tf.nn.dropout(tf.ones([4000]), rate=rate, seed=1), tf.nn.dropout(tf.ones([4000]), 1.0 - rate, seed=1)]
    with tf.Session() as session:
        session.run(rate.initializer)
        one, other = session.run(dropped)
    assert np.array_equal(one, other) and abs((one == 0).mean() - 0.25) < 0.03


def test_dropout_noise_shape_and_ends(evaluate: Any) -> None:
    x = np.ones((6, 50), np.float32)
    got = evaluate(lambda t: nn.dropout(t, rate=0.5, noise_shape=[None, 1], seed=1), x)
    assert all(len(set(row)) == 1 for row in got.tolist())
    np.testing.assert_array_equal(evaluate(lambda t: nn.dropout(t, rate=0.0), x), x)
    got = evaluate(lambda t, r: nn.dropout(t, rate=r, seed=1), x, np.array(0.5, np.float32))
    assert 0 < (got == 0).mean() < 1


@pytest.mark.parametrize("static", [(3, 5, 4), (None, 5, 4), None])
def test_sizes_of_a_noise_shape_may_be_tensors(static: Any) -> None:
    """One choice for all positions of an example and channel, as scripts ask for it of batches of any size."""
    with Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, static)
        wanted = [array.shape(x)[0], 1, 4 if static is None else None]
        got = session.run(nn.dropout(x, rate=0.5, noise_shape=wanted, seed=1), {x: np.ones((3, 5, 4))})
    assert {*got.ravel()} == {0, 2} and (got == got[:, :1]).all()


@pytest.mark.parametrize("arguments", [{}, {"rate": 1.0}, {"keep_prob": 0.0}, {"rate": 0.5, "keep_prob": 0.5}])
def test_dropout_refusals(graph: Graph, arguments: Any) -> None:
    with pytest.raises(ValueError, match="dropout"):
        nn.dropout(array.zeros([2]), **arguments)


# ---------------------------------------------------------------------- normalisation


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_moments(evaluate: Any, keep: bool, dtype: Any) -> None:
    x = np.random.default_rng(0).normal(3, 2, (50, 4)).astype(dtype)
    mean, variance = evaluate(lambda t: nn.moments(t, [0], keep_dims=keep), x)
    assert mean.dtype == variance.dtype == dtype
    np.testing.assert_allclose(mean, x.astype("f8").mean(0, keepdims=keep), rtol=2e-3)
    np.testing.assert_allclose(variance, x.astype("f8").var(0, keepdims=keep), rtol=2e-3)


@pytest.mark.parametrize("scale, offset", [(None, None), (2.0, None), (None, 3.0), (2.0, 3.0)])
def test_batch_normalization(evaluate: Any, scale: Any, offset: Any) -> None:
    x, mean, variance = np.arange(8.0).reshape(2, 4), np.arange(4.0), np.arange(4.0) + 1
    got = evaluate(lambda t, m, v: nn.batch_normalization(t, m, v, offset, scale, 0.1), x, mean, variance)
    np.testing.assert_allclose(got, (x - mean) / np.sqrt(variance + 0.1) * (scale or 1) + (offset or 0))


# ---------------------------------------------------------------------- losses

LOGITS = np.array([[2.0, -1.0, 0.5], [1000.0, 0.0, -1000.0]])
LABELS = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])


def test_sigmoid_cross_entropy(evaluate: Any) -> None:
    got = evaluate(lambda z, x: nn_loss.sigmoid_cross_entropy_with_logits(labels=z, logits=x), LABELS, LOGITS)
    np.testing.assert_allclose(got, np.logaddexp(LOGITS, 0) - LOGITS * LABELS)


def test_weighted_cross_entropy(evaluate: Any) -> None:
    def build(z: Any, x: Any) -> Any:
        return nn_loss.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=3.0)

    want = 3 * LABELS * np.logaddexp(-LOGITS, 0) + (1 - LABELS) * np.logaddexp(LOGITS, 0)
    np.testing.assert_allclose(evaluate(build, LABELS, LOGITS), want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax_cross_entropy(evaluate: Any, dtype: Any) -> None:
    want = -(LABELS * special.log_softmax(LOGITS, -1)).sum(-1)
    z, x = LABELS.astype(dtype), LOGITS.astype(dtype)
    tolerance = 1e-2 if dtype == np.float16 else 1e-6
    for build in (nn_loss.softmax_cross_entropy_with_logits, nn_loss.softmax_cross_entropy_with_logits_v2):
        got = evaluate(lambda a, b, build=build: build(labels=a, logits=b), z, x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=tolerance)
        deep = evaluate(lambda a, b, build=build: build(labels=a, logits=b), z[None], x[None])
        np.testing.assert_allclose(deep, want[None], rtol=tolerance)
    across = evaluate(lambda a, b: nn_loss.softmax_cross_entropy_with_logits(a, b, dim=0), z.T, x.T)
    np.testing.assert_allclose(across, want, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sparse_softmax_cross_entropy(evaluate: Any, dtype: Any) -> None:
    labels = np.array([2, 0], dtype)
    want = -special.log_softmax(LOGITS, -1)[[0, 1], labels]

    def build(z: Any, x: Any) -> Any:
        return nn_loss.sparse_softmax_cross_entropy_with_logits(labels=z, logits=x)

    np.testing.assert_allclose(evaluate(build, labels, LOGITS), want)
    np.testing.assert_allclose(evaluate(build, labels[None], LOGITS[None]), want[None])
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 3 is not in \[0, 3\)"):
        evaluate(build, np.array([0, 3], dtype), LOGITS)


@pytest.mark.parametrize(
    "loss",
    [
        nn_loss.sigmoid_cross_entropy_with_logits,
        nn_loss.softmax_cross_entropy_with_logits,
        nn_loss.sparse_softmax_cross_entropy_with_logits,
    ],
)
def test_losses_name_both_shapes(graph: Graph, loss: Any) -> None:
    labels = array.zeros([3], "int32") if "sparse" in loss.__name__ else array.zeros([3, 3])
    with pytest.raises(InvalidArgumentError, match=r"(?s)\(2, 3\).*\(3|\(3.*\(2, 3\)"):
        loss(labels=labels, logits=array.zeros([2, 3]))
    with pytest.raises(ValueError, match="by name"):
        loss(labels=labels)


# ---------------------------------------------------------------------- the largest


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_top_k(evaluate: Any, dtype: Any) -> None:
    x = np.array([[5, 1, 5, 7], [2, 2, 2, 2]], dtype)
    values, indices = evaluate(lambda t: nn.top_k(t, 3), x)
    assert values.tolist() == [[7, 5, 5], [2, 2, 2]] and values.dtype == dtype
    assert indices.tolist() == [[3, 0, 2], [0, 1, 2]] and indices.dtype == np.int32
    with pytest.raises(InvalidArgumentError, match="at least k = 5 columns"):
        evaluate(lambda t: nn.top_k(t, 5), x)


def test_in_top_k(evaluate: Any) -> None:
    x = np.array([[0.1, 0.5, 0.5], [np.inf, 0, 0], [0.1, 0.2, 0.3]], np.float32)
    assert evaluate(lambda t: nn.in_top_k(t, [2, 1, 9], 1), x).tolist() == [True, False, False]
    assert evaluate(lambda t: nn.in_top_k(t, [0, 1, 0], 3), x).tolist() == [True, False, True]


def test_integers_are_refused_or_made_floats(graph: Graph) -> None:
    x = array.placeholder("int32", [2, 2])
    with pytest.raises(TypeError, match="float"):
        nn.softmax(x)
    assert nn.leaky_relu(x).dtype == "float32" and nn.relu(x).dtype == "int32"
    assert math.reciprocal(math.to_float(x)).dtype == "float32"


def test_the_slope_of_a_leaky_relu_may_be_learned(graph: Graph) -> None:
    slope, x = tf.Variable([0.5, 0.25]), tf.constant([[-2.0, 3.0], [0.0, -4.0]])
    y = tf.nn.leaky_relu(x, slope)
    with tf.Session() as session:
        session.run(slope.initializer)
        found = session.run([y, *tf.gradients(y, [x, slope])])
    for a, b in zip(found, ([[-1, 3], [0, -1]], [[0.5, 1], [0.5, 0.25]], [-2, -4])):
        np.testing.assert_array_equal(a, b)


def test_none_stands_for_the_default_of_lrn(graph: Graph) -> None:
    with tf.Session() as session:
        assert session.run(tf.nn.lrn(tf.ones([1, 1, 1, 3]), None, None, None, None)).tolist() == [[[[0.5] * 3]]]


def test_entropy_of_a_row_that_all_share(graph: Graph) -> None:
    """Each of the two matrices may have one row for all; what it gets back is summed over them."""
    rows, one = tf.constant([[1.0, 2.0], [0.5, -1.0], [3.0, 3.0]]), tf.constant([[0.25, 0.75]])
    entropy = tf.nn.softmax_cross_entropy_with_logits_v2  # of which labels have a gradient too
    losses = [entropy(labels=a, logits=b) for a, b in ((one, rows), (rows, one))]
    alike = tf.tile(one, [3, 1])
    wanted = [entropy(labels=a, logits=b) for a, b in ((alike, rows), (rows, alike))]
    with tf.Session() as session:
        for loss, full in zip(losses, wanted):
            own, other = session.run(
                [[loss, *tf.gradients(loss, [rows, one])], [full, *tf.gradients(full, [rows, one])]]
            )
            for a, b in zip(own, other):
                np.testing.assert_allclose(a, b, rtol=1e-5)
    with pytest.raises(InvalidArgumentError):
        tf.nn.softmax_cross_entropy_with_logits(labels=tf.zeros([2, 2]), logits=rows)
