"""Windows as columns, morphology, and pools whose windows have changing sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError

X = np.random.default_rng(2).normal(size=(2, 7, 9, 2)).astype(np.float32)
ONES = [1, 1, 1, 1]


def test_patches_are_what_a_convolution_sees(evaluate: Any) -> None:
    taps = np.random.default_rng(3).normal(size=(3, 2, 2, 4)).astype(np.float32)

    def build(x: Any, w: Any) -> Any:
        patches = tf.extract_image_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], ONES, "SAME")
        return tf.tensordot(patches, tf.reshape(w, [12, 4]), 1), tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME")

    np.testing.assert_allclose(*evaluate(build, X, taps), rtol=1e-4, atol=1e-5)


def test_dilation_with_nothing_to_add_is_a_pool(evaluate: Any) -> None:
    def build(x: Any) -> Any:
        return tf.nn.dilation2d(x, tf.zeros([3, 2, 2]), ONES, ONES, "SAME"), tf.nn.max_pool(x, [3, 2], [1, 1], "SAME")

    np.testing.assert_array_equal(*evaluate(build, X))


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("overlapping", [True, False])
def test_fractional_windows_cover_everything(evaluate: Any, even: bool, overlapping: bool) -> None:
    def build(x: Any) -> Any:
        return list(tf.nn.fractional_max_pool(x, [1, 1.6, 1.4, 1], even, overlapping))

    y, rows, columns = evaluate(build, X)
    assert y.shape == (2, 4, 6, 2) and rows[0] == columns[0] == 0 and (rows[-1], columns[-1]) == (7, 9)
    assert set(np.diff(rows)) <= {1, 2} and set(np.diff(columns)) <= {1, 2}
    ends = [np.minimum(s[1:] + overlapping, n) for s, n in ((rows, 7), (columns, 9))]
    want = [[X[:, a:b, c:d].max((1, 2)) for c, d in zip(columns, ends[1])] for a, b in zip(rows, ends[0])]
    np.testing.assert_array_equal(y, np.moveaxis(np.array(want), 2, 0))


def test_deterministic_windows_repeat(graph: Any) -> None:
    same = tf.nn.fractional_avg_pool(X, [1, 1.6, 1.4, 1], deterministic=True, seed=3, seed2=4)
    other = tf.nn.fractional_avg_pool(X, [1, 1.6, 1.4, 1], seed=3)
    with tf.Session() as session:
        runs = [session.run(same) for _ in range(3)]
        assert all(np.array_equal(r[1], runs[0][1]) and np.array_equal(r[2], runs[0][2]) for r in runs)
        assert len({session.run(other).row_pooling_sequence.tobytes() for _ in range(20)}) > 1


def test_refusals(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(2, 7, 9, 2\).*\(3, 2, 3\)"):
        tf.nn.dilation2d(X, tf.zeros([3, 2, 3]), ONES, ONES, "SAME")
    with pytest.raises(InvalidArgumentError, match="pooling_ratio"):
        tf.nn.fractional_max_pool(X, [1, 0.5, 2, 1])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_an_op_over_spread_windows_is_a_dilated_one(graph: Any, padding: str) -> None:
    x, w = tf.random_normal([2, 8, 7, 3], seed=1), tf.random_normal([3, 2, 3, 4], seed=2)

    def conv(image: Any, axes: int, padding: str) -> Any:
        return tf.nn.conv2d(image, w, [1, 1, 1, 1], padding)

    spread = tf.nn.with_space_to_batch(x, [2, 3], padding, conv, filter_shape=[3, 2])
    with tf.Session() as session:
        found, want = session.run([spread, tf.nn.conv2d(x, w, 1, padding, dilations=[2, 3])])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_spread_windows_are_refused(graph: Any) -> None:
    x = tf.zeros([2, 8, 7, 3])
    for rate, padding, more in (([0], "VALID", {}), ([2], "SAME", {}), ([2, 2], "VALID", {"spatial_dims": [2, 1]})):
        with pytest.raises(ValueError, match="with_space_to_batch"):
            tf.nn.with_space_to_batch(x, rate, padding, lambda t, *_: t, **more)
