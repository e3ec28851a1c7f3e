"""Likeness, edges and brightness of images, against what follows from their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(9)
X = RNG.random((2, 16, 15, 3)).astype(np.float32)


def test_equal_images_are_alike(evaluate: Any) -> None:
    np.testing.assert_allclose(evaluate(lambda x: tf.image.ssim(x, x, 1.0), X), [1, 1], rtol=1e-5)
    less, more = evaluate(lambda x: [tf.image.ssim(x, x + d, 1.0) for d in (0.3, 0.05)], X)
    assert (less < more).all() and (more < 1).all()
    np.testing.assert_allclose(evaluate(lambda x: tf.image.psnr(x, x + 0.1, 1.0), X), [20, 20], rtol=1e-4)


def test_scales(evaluate: Any) -> None:
    x = RNG.random((1, 32, 33, 1)).astype(np.float32)
    found = evaluate(lambda t: tf.image.ssim_multiscale(t, t, 1.0, (0.5, 0.5), filter_size=5), x)
    np.testing.assert_allclose(found, [1], rtol=1e-5)


def test_brightness_and_back(evaluate: Any) -> None:
    pairs = (tf.image.rgb_to_yiq, tf.image.yiq_to_rgb), (tf.image.rgb_to_yuv, tf.image.yuv_to_rgb)
    for found in evaluate(lambda x: [back(there(x)) for there, back in pairs], X):
        np.testing.assert_allclose(found, X, atol=1e-4)


def test_variation_and_gradients(evaluate: Any) -> None:
    down, across = np.diff(X, axis=1), np.diff(X, axis=2)
    np.testing.assert_allclose(
        evaluate(tf.image.total_variation, X), np.abs(down).sum((1, 2, 3)) + np.abs(across).sum((1, 2, 3)), rtol=1e-5
    )
    dy, dx = evaluate(tf.image.image_gradients, X)
    np.testing.assert_allclose(dy[:, :-1], down, atol=1e-6)
    np.testing.assert_allclose(dx[:, :, -1], 0)


def test_sobel_sees_a_slope(evaluate: Any) -> None:
    slope = np.tile(np.arange(6, dtype=np.float32)[:, None, None], (1, 5, 1))[None]
    found = evaluate(tf.image.sobel_edges, slope)
    np.testing.assert_allclose(found[0, 1:-1, :, 0], np.tile([8.0, 0.0], (4, 5, 1)))


def test_bicubic_goes_through_the_cells(evaluate: Any) -> None:
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.resize_bicubic(x, [31, 29], True)[:, ::2, ::2], X), X, atol=1e-5
    )
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.resize_area(x, [8, 15]), X), (X[:, ::2] + X[:, 1::2]) / 2, atol=1e-6
    )


@pytest.mark.parametrize("size, want", [((9, 40), (9, 8)), ((40, 5), (5, 5))])
def test_proportions(evaluate: Any, size: Any, want: Any) -> None:
    found = evaluate(lambda x: tf.image.resize_images(x, size, preserve_aspect_ratio=True), X)
    assert found.shape == (2, *want, 3)


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match=r"\(16, 15, 3\).*\(16, 14, 3\)"):
        tf.image.ssim(X[0], X[0, :, :14], 1.0)
    with pytest.raises(ValueError, match="Resize method"):
        tf.image.resize_images(X, [2, 2], "lanczos")
