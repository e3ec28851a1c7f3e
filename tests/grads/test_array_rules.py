"""Gradients of blocks, rolls, scatters into copies, and the n-th element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


_AT = [[0, 1], [2, 0], [0, 1]]
CASES = [
    ("space_to_batch", lambda x: tf.space_to_batch_nd(x, [2, 3], [[1, 1], [0, 0]]), (normal(1, 4, 6, 2),)),
    ("batch_to_space", lambda x: tf.batch_to_space_nd(x, [2, 3], [[1, 0], [0, 2]]), (normal(6, 2, 2, 1),)),
    ("space_to_depth", lambda x: tf.space_to_depth(x, 2), (normal(1, 4, 2, 3),)),
    ("depth_to_space", lambda x: tf.depth_to_space(x, 2), (normal(1, 2, 2, 4),)),
    ("space_to_depth first", lambda x: tf.space_to_depth(x, 2, data_format="NCHW"), (normal(1, 3, 4, 2),)),
    ("depth_to_space first", lambda x: tf.depth_to_space(x, 2, data_format="NCHW"), (normal(1, 4, 2, 2),)),
    ("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), (normal(3, 4),)),
    ("scatter update", lambda x, u: tf.tensor_scatter_update(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("scatter add", lambda x, u: tf.tensor_scatter_add(x, _AT, u), (normal(3, 2), normal(3))),
    ("scatter sub", lambda x, u: tf.tensor_scatter_sub(x, [[2], [0]], u), (normal(3, 2), normal(2, 2))),
    ("scatter max", lambda x, u: tf.tensor_scatter_max(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("scatter min", lambda x, u: tf.tensor_scatter_min(x, _AT[:2], u), (normal(3, 2), normal(2))),
    ("nth_element", lambda x: tf.nn.nth_element(x, 2), (normal(3, 5),)),
    ("nth_element reverse", lambda x: tf.nn.nth_element(x, 1, reverse=True), (normal(3, 5),)),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", CASES, ids=[c[0] for c in CASES])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    check_gradient(build, *values, known_shapes=known_shapes)


SMOOTH = [
    ("erfinv", tf.math.erfinv, (RNG.uniform(-0.9, 0.9, (3, 2)),)),
    ("ndtri", tf.math.ndtri, (RNG.uniform(0.1, 0.9, (3, 2)),)),
    ("erfcinv", tf.math.erfcinv, (RNG.uniform(0.2, 1.8, (3, 2)),)),
    ("xlog1py", tf.math.xlog1py, (normal(2, 3), RNG.uniform(0.1, 2, 3))),
    ("multiply_no_nan", tf.math.multiply_no_nan, (normal(2, 3), normal(3))),
    ("reduce_euclidean_norm", lambda x: tf.math.reduce_euclidean_norm(x, 1), (normal(3, 4),)),
    ("reduce_euclidean_norm kept", lambda x: tf.math.reduce_euclidean_norm(x, [0], True), (normal(3, 4),)),
    ("reduce_variance", lambda x: tf.math.reduce_variance(x, 1), (normal(3, 4),)),
    ("reduce_std", tf.math.reduce_std, (normal(3, 4),)),
    ("cumulative_logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), (normal(3, 4),)),
    ("cumulative_logsumexp back", lambda x: tf.math.cumulative_logsumexp(x, 0, reverse=True), (normal(3, 4),)),
    ("polyval", lambda x: tf.math.polyval([np.float64(c) for c in (2, -1, 0.5)], x), (normal(3),)),
]


@pytest.mark.parametrize("known_shapes", [True, False])
@pytest.mark.parametrize("name, build, values", SMOOTH, ids=[c[0] for c in SMOOTH])
def test_smooth_gradient(check_gradient: Any, name: str, build: Any, values: Any, known_shapes: bool) -> None:
    check_gradient(build, *values, known_shapes=known_shapes)


def test_gamma_values_move_with_their_shape(graph: Any) -> None:
    """d/d alpha of the mean of gamma(alpha) is 1."""
    alpha = tf.constant([0.7, 2.0, 9.0], tf.float64)
    drawn = tf.random_gamma([40_000], alpha, dtype=tf.float64, seed=1)
    (slope,) = tf.gradients(tf.reduce_mean(drawn, 0), alpha)
    with tf.Session() as sess:
        mean, found = sess.run([tf.reduce_mean(drawn, 0), slope])
    np.testing.assert_allclose(mean, [0.7, 2, 9], rtol=0.05)
    np.testing.assert_allclose(found, 1, rtol=0.05)


@pytest.mark.parametrize("indices", [0, [0, 1], [[0], [1]], np.zeros((0, 2), np.int32)])
@pytest.mark.parametrize(("shape", "axis"), [((0, 2, 3), 1), ((2, 2, 0), 1), ((2, 2, 0), 0), ((2, 0, 3), 2)])
@pytest.mark.parametrize("known", [True, False])
def test_gather_from_what_has_no_elements(shape: tuple[int, ...], axis: int, indices: Any, known: bool) -> None:
    """A batch of no rows, say: its gradient has none either."""
    x = tf.placeholder(tf.float32, shape if known else [None] * 3)
    places = tf.placeholder(tf.int32, np.shape(indices) if known else None)
    dx = tf.convert_to_tensor(tf.gradients(tf.gather(x, places, axis=axis), x)[0])
    with tf.Session() as session:
        assert session.run(dx, {x: np.zeros(shape), places: indices}).shape == shape


@pytest.mark.parametrize(
    ("data", "ids", "wanted"), [((0, 6), (), (3, 0, 6)), ((2, 2, 0), (2, 2), (3, 0)), ((2, 0, 3), (2, 0), (3, 3))]
)
def test_unsorted_segments_of_no_elements(data: tuple[int, ...], ids: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    with tf.Session() as session:
        sums = tf.unsorted_segment_sum(np.zeros(data, np.float32), np.ones(ids, np.int32), 3)
        assert session.run(sums).shape == wanted
