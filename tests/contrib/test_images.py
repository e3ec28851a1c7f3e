"""tf.contrib.image: images turned, moved, or seen from elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

image = tf.contrib.image
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def _run(tensor: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensor)


def test_turned_counterclockwise(graph: Any) -> None:
    square = X[:, :3]
    np.testing.assert_array_equal(_run(image.rotate(square, np.pi / 2)), np.rot90(square))
    batch = np.stack([square, square])[..., None]
    found = _run(image.rotate(batch, [np.pi, -np.pi / 2], "BILINEAR"))[..., 0]
    np.testing.assert_allclose(found, [np.rot90(square, 2), np.rot90(square, 3)], atol=1e-5)
    turned = image.rotate(tf.placeholder(tf.uint8, [None, None, 3]), 0.3)
    assert turned.shape.as_list() == [None, None, 3] and turned.dtype is tf.uint8


def test_moved(graph: Any) -> None:
    want = np.zeros_like(X)
    want[1:, 2:] = X[:-1, :-2]
    np.testing.assert_array_equal(_run(image.translate(X, [2, 1])), want)
    both = _run(image.translate(np.stack([X, X])[..., None], [[2, 1], [0.0, 0.0]]))[..., 0]
    np.testing.assert_array_equal(both, [want, X])


def test_one_after_the_other(graph: Any) -> None:
    """What is composed does at once what the parts do one after the other; and of another size."""
    move = image.translations_to_projective_transforms([1.0, 0.0])
    turn = image.angles_to_projective_transforms(np.pi / 2, 3, 3)
    square = X[:, :3]
    both = image.transform(square, image.compose_transforms(move, turn))
    apart = image.transform(image.transform(square, move), turn)
    np.testing.assert_array_equal(*_run([both, apart]))
    wide = image.transform(X, [1.0, 0, 0, 0, 1, 0, 0, 0], output_shape=[2, 6])
    np.testing.assert_array_equal(_run(wide), np.pad(X[:2], ((0, 0), (0, 2))))
    matrices = image.flat_transforms_to_matrices([2.0, 0, 1, 0, 2, 1, 0, 0])
    np.testing.assert_array_equal(_run(matrices), [[[2, 0, 1], [0, 2, 1], [0, 0, 1]]])
    np.testing.assert_array_equal(_run(image.matrices_to_flat_transforms(2 * matrices)), [[2, 0, 1, 0, 2, 1, 0, 0]])


def test_slopes_go_back_where_they_came_from(graph: Any) -> None:
    x, seen = tf.constant(X), tf.constant(np.arange(12.0, 24).reshape(3, 4), tf.float32)
    (slope,) = tf.gradients(image.translate(x, [1, 0]), x, seen)
    np.testing.assert_array_equal(_run(slope), np.pad(np.arange(12.0, 24).reshape(3, 4)[:, 1:], ((0, 0), (0, 1))))


def test_what_cannot_be(graph: Any) -> None:
    with pytest.raises(TypeError, match="rank between 2 and 4"):
        image.rotate(tf.placeholder(tf.float32), 1.0)
    with pytest.raises(TypeError, match="rank 1 or 2, but got rank 0"):
        image.transform(X, 1.0)
    with pytest.raises(TypeError, match="angles should have rank 0 or 1"):
        image.rotate(X, [[1.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'CUBIC' is none of NEAREST, BILINEAR"):
        _run(image.rotate(X, 1.0, "CUBIC"))
