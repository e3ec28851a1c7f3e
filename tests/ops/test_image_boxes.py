"""Boxes cut out of images, with their gradients by small steps, and refusals with the shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError, OutOfRangeError

RNG = np.random.default_rng(4)
BOXES = np.array([[0.1, 0.2, 0.9, 0.7], [0.83, 0.95, 0.15, 0.3]], np.float32)  # between pixels


def test_a_whole_image_is_cut_out_as_it_is(evaluate: Any) -> None:
    x = RNG.random((1, 4, 5, 2))
    got = evaluate(lambda t: tf.image.crop_and_resize(t, [[0.0, 0, 1, 1]], [0], [4, 5]), x)
    np.testing.assert_allclose(got, x.astype("f4"), rtol=1e-6)


@pytest.mark.parametrize("size", [(3, 4), (1, 1)])
def test_both_gradients(graph: Any, size: Any) -> None:
    """Linear in the image; in the boxes by a small step, in float32."""
    x, dy = RNG.random((2, 6, 7, 2)), RNG.normal(size=(2, *size, 2)).astype("f4")
    image, boxes = tf.constant(x), tf.placeholder("float32", [2, 4])
    y = tf.image.crop_and_resize(image, boxes, [1, 0], size)
    d_image, d_boxes = tf.gradients(y, [image, boxes], grad_ys=[tf.constant(dy)])
    step = 1e-3 * RNG.normal(size=BOXES.shape).astype("f4")
    with tf.Session() as session:
        value, di, db = session.run([y, d_image, d_boxes], {boxes: BOXES})
        ahead, behind = (session.run(y, {boxes: BOXES + s}) for s in (step, -step))
    np.testing.assert_allclose((value * dy).sum(), (di * x).sum(), rtol=1e-5)
    np.testing.assert_allclose((db * step).sum() * 2, ((ahead - behind) * dy).sum(), rtol=0.02, atol=1e-5)


def test_soft_suppression_lowers_scores(evaluate: Any) -> None:
    boxes, scores = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9]], np.float32), np.array([0.9, 0.8], np.float32)
    nms = tf.image.non_max_suppression_with_scores
    kept, left = evaluate(lambda b, s: nms(b, s, 2, iou_threshold=0.5, soft_nms_sigma=0.5), boxes, scores)
    assert kept.tolist() == [0, 1]
    np.testing.assert_allclose(left, [0.9, 0.8 * np.exp(-(0.9**2))], rtol=1e-5)
    assert len(evaluate(lambda b, s: nms(b, s, 2, iou_threshold=0.5)[0], boxes, scores)) == 1


def test_glimpses_have_noise_outside(evaluate: Any) -> None:
    x = np.full((1, 4, 4, 1), 7, np.float32)
    x[0, 0, 0] = 3
    got = evaluate(lambda t: tf.image.extract_glimpse(t, [6, 6], [[0.0, 0.0]]), x)
    np.testing.assert_array_equal(got[0, 1:5, 1:5], x[0])
    assert got.min() >= 3 and got.max() <= 7


def test_refusals(graph: Any) -> None:
    image, boxes = tf.placeholder("float32", [2, 6, 7, 3]), tf.placeholder("float32", [5, 4])
    with pytest.raises(InvalidArgumentError, match=r"\(4,\).*\(5, 4\)"):
        tf.image.crop_and_resize(image, boxes, tf.placeholder("int32", [4]), [2, 2])
    with pytest.raises(InvalidArgumentError, match=r"\(5, 3\)"):
        tf.image.non_max_suppression(tf.placeholder("float32", [5, 3]), tf.placeholder("float32", [5]), 2)
    out = tf.image.crop_and_resize(image, boxes, tf.constant([0, 1, 2, 0, 0]), [2, 2])
    with tf.Session() as session, pytest.raises(OutOfRangeError, match="box_index"):
        session.run(out, {image: np.zeros((2, 6, 7, 3)), boxes: np.zeros((5, 4))})


def test_parts_with_a_box_are_tensorflows(graph: Any) -> None:
    """Where none is found within max_attempts, the whole image."""
    boxes = [[[0.1, 0.2, 0.8, 0.9]]]
    found = tf.image.sample_distorted_bounding_box([20, 30, 3], boxes, seed=3, seed2=4)
    none = tf.image.sample_distorted_bounding_box([20, 30, 3], boxes, 3, 4, 1.0, area_range=[0.05, 0.1])
    with tf.Session() as session:
        drawn = [[v.tolist() for v in session.run(found[:2])] for _ in range(3)]
        whole = [v.tolist() for v in session.run(none)]
    assert drawn == [[[9, 2, 0], [9, 12, -1]], [[8, 6, 0], [10, 11, -1]], [[10, 13, 0], [6, 8, -1]]]
    assert whole == [[0, 0, 0], [20, 30, -1], [[[0, 0, 1, 1]]]]


@pytest.mark.parametrize(
    "size, boxes, options, said",
    [
        ([20, 30, 3], [[[0, 0, 1, 1]]], {"aspect_ratio_range": [0.0, 1.0]}, "aspect_ratio_range must be positive, got"),
        ([20, 30, 3], [[[0, 0, 1, 1]]], {"area_range": [0.5, 1.5]}, r"area_range must lie in \(0, 1\], got"),
        ([20, 30, 3], [[[0, 0, 1, 1]]], {"max_attempts": 0}, "max_attempts must be positive, got 0"),
        ([20, 30, 3], [[[0, 0, 1, 1]]], {"min_object_covered": -1.0}, "min_object_covered must not be negative"),
        ([20, 30, 3], [[[0, 0, 1, 1.5]]], {}, r"boxes must lie in \[0, 1\], got"),
        ([0, 30, 3], [[[0, 0, 1, 1]]], {}, r"image_size must be \[height, width, channels\], got \(0, 30, 3\)"),
    ],
)
def test_parts_that_cannot_be(graph: Any, size: Any, boxes: Any, options: dict[str, Any], said: str) -> None:
    found = tf.image.sample_distorted_bounding_box(size, tf.constant(boxes, tf.float32), **options)
    with tf.Session() as session, pytest.raises(InvalidArgumentError, match=said):
        session.run(list(found))
