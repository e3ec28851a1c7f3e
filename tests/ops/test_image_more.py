"""Images: files, colours, flips, crops, boxes."""

from __future__ import annotations

import colorsys
import io
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(2)
IMAGE = RNG.integers(0, 255, (6, 8, 3)).astype(np.uint8)
FLOATS = RNG.random((2, 5, 4, 3)).astype(np.float32)
pillow = pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")


@pillow
def test_files(evaluate: Any) -> None:
    np.testing.assert_array_equal(evaluate(lambda x: tf.image.decode_png(tf.image.encode_png(x)), IMAGE), IMAGE)
    smooth = np.broadcast_to(np.arange(64, dtype=np.uint8)[:, None, None] * 3, (64, 64, 3)).copy()
    jpeg = evaluate(lambda x: tf.image.decode_jpeg(tf.image.encode_jpeg(x, quality=100), channels=3), smooth)
    assert np.abs(jpeg.astype(int) - smooth).max() < 6
    grey = evaluate(lambda x: tf.image.decode_jpeg(tf.image.encode_jpeg(x), channels=1, ratio=2), smooth)
    assert grey.shape == (32, 32, 1)
    assert evaluate(lambda x: tf.image.decode_image(tf.image.encode_png(x)), IMAGE).shape == IMAGE.shape


@pillow
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_grey_of_a_png_is_weighed_as_libpng_weighs_it(graph: Any, mode: str) -> None:
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(IMAGE).convert(mode).save(held, "PNG")
    r, g, b = np.moveaxis(IMAGE.astype(int), 2, 0)
    for decode in (tf.image.decode_png, tf.image.decode_image):
        with tf.Session() as session:
            grey = session.run(decode(held.getvalue(), channels=1))
        np.testing.assert_array_equal(grey[..., 0], (9797 * r + 19234 * g + 3737 * b) >> 15)


@pytest.mark.parametrize("known", [(None, None, 3), (6, None, 3), None])
@pytest.mark.parametrize("to", [(4, 10), (9, 3), (6, 8)])
def test_sizes_that_only_the_step_knows(graph: Any, known: Any, to: tuple[int, int]) -> None:
    """As those of a decoded file: what comes out is what comes of the same image with sizes known."""
    image = tf.placeholder(tf.uint8, known)
    fit, part = tf.image.resize_image_with_crop_or_pad(image, *to), tf.image.central_crop(image, 0.4)
    sized = tf.image.resize_image_with_crop_or_pad(IMAGE, *map(tf.constant, to))
    if known is not None:
        assert fit.shape.as_list() == [*to, 3] and part.shape[-1].value == 3
    expected = tf.image.resize_image_with_crop_or_pad(IMAGE, *to), tf.image.central_crop(IMAGE, 0.4)
    with tf.Session() as session:
        found = session.run([fit, part, sized, *expected], {image: IMAGE})
    for a, b in ((0, 3), (1, 4), (2, 3)):
        np.testing.assert_array_equal(found[a], found[b])


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: tf.image.flip_left_right(np.ones((2, 3))), "at least three-dimensional"),
        (lambda: tf.image.grayscale_to_rgb(FLOATS), "should be size 1"),
        (lambda: tf.image.adjust_gamma(FLOATS, -1.0), "non-negative"),
        (lambda: tf.image.resize_image_with_crop_or_pad(IMAGE, 0, 4), "target_height must be > 0"),
    ],
)
def test_images_refused(graph: Any, build: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        build()


@pillow
def test_no_image(graph: Any) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="no image"):
        session.run(tf.image.decode_jpeg(b"not an image"))


def test_colours(evaluate: Any) -> None:
    hsv = np.array([[colorsys.rgb_to_hsv(*p) for p in row] for row in FLOATS[0]])
    np.testing.assert_allclose(evaluate(tf.image.rgb_to_hsv, FLOATS[0]), hsv, atol=1e-5)
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(x)), FLOATS), FLOATS, atol=1e-5
    )
    np.testing.assert_allclose(evaluate(lambda x: tf.image.adjust_hue(x, 1.0), FLOATS), FLOATS, atol=1e-5)
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.adjust_saturation(x, 0.0), FLOATS)[..., 0], FLOATS.max(-1), atol=1e-5
    )
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.adjust_brightness(x, 0.25), FLOATS), FLOATS + 0.25, rtol=1e-6
    )
    mean = FLOATS.mean((1, 2), keepdims=True)
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.adjust_contrast(x, 2.0), FLOATS), 2 * FLOATS - mean, atol=1e-5
    )
    grey = evaluate(tf.image.rgb_to_grayscale, FLOATS)
    np.testing.assert_allclose(grey[..., 0], FLOATS @ [0.2989, 0.587, 0.114], rtol=1e-5)
    assert evaluate(lambda x: tf.image.adjust_brightness(x, 0.1), IMAGE).dtype == np.uint8


def test_types(evaluate: Any) -> None:
    np.testing.assert_allclose(
        evaluate(lambda x: tf.image.convert_image_dtype(x, tf.float32), IMAGE), IMAGE / 255, rtol=1e-6
    )
    back = evaluate(
        lambda x: tf.image.convert_image_dtype(tf.image.convert_image_dtype(x, tf.float32), tf.uint8), IMAGE
    )
    np.testing.assert_array_equal(back, IMAGE)
    np.testing.assert_array_equal(
        evaluate(lambda x: tf.image.convert_image_dtype(x, tf.uint16), IMAGE), IMAGE.astype(int) * 256
    )
    whitened = evaluate(tf.image.per_image_standardization, FLOATS)
    np.testing.assert_allclose(whitened.std((1, 2, 3)), 1, rtol=1e-4)


def test_moves(evaluate: Any) -> None:
    for build, wanted in (
        (tf.image.flip_left_right, IMAGE[:, ::-1]),
        (tf.image.flip_up_down, IMAGE[::-1]),
        (tf.image.transpose_image, IMAGE.swapaxes(0, 1)),
        *((lambda x, k=k: tf.image.rot90(x, k), np.rot90(IMAGE, k)) for k in range(4)),
        (lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 3, 4), IMAGE[1:4, 2:6]),
        (lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 9, 12), np.pad(IMAGE, ((1, 2), (2, 2), (0, 0)))),
        (lambda x: tf.image.resize_image_with_crop_or_pad(x, 4, 10), np.pad(IMAGE[1:5], ((0, 0), (1, 1), (0, 0)))),
        (lambda x: tf.image.central_crop(x, 0.5), IMAGE[1:5, 2:6]),
    ):
        np.testing.assert_array_equal(evaluate(build, IMAGE), wanted)


def test_random_ones(evaluate: Any) -> None:
    flipped = [evaluate(lambda x, s=s: tf.image.random_flip_left_right(x, seed=s), IMAGE) for s in range(8)]
    kinds = {("same" if (f == IMAGE).all() else "flipped" if (f == IMAGE[:, ::-1]).all() else "else") for f in flipped}
    assert kinds == {"same", "flipped"}
    assert evaluate(lambda x: tf.random_crop(x, [3, 3, 3], seed=1), IMAGE).shape == (3, 3, 3)
    assert evaluate(lambda x: tf.image.random_brightness(x, 0.1, seed=1), FLOATS).shape == FLOATS.shape
    batch = evaluate(lambda x: tf.image.random_flip_up_down(x, seed=3), FLOATS)
    assert all((b == a).all() or (b == a[::-1]).all() for a, b in zip(FLOATS, batch))


def test_boxes(evaluate: Any) -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [0, 5.05, 1, 6.05]], np.float32)
    scores = np.array([0.9, 0.75, 0.6, 0.95], np.float32)
    assert evaluate(lambda b, s: tf.image.non_max_suppression(b, s, 3, 0.5), boxes, scores).tolist() == [3, 0]
    drawn = evaluate(
        tf.image.draw_bounding_boxes,
        np.zeros((1, 5, 5, 3), np.float32),
        np.array([[[0.25, 0.25, 0.75, 0.75]]], np.float32),
    )
    assert drawn[0, 1, 1].tolist() == [1, 1, 0] and drawn[0, 2, 2].tolist() == [0, 0, 0] and drawn[..., 0].sum() == 8
    begin, size, box = evaluate(
        lambda b: list(tf.image.sample_distorted_bounding_box([40, 60, 3], b, seed=4, min_object_covered=0.5)),
        np.array([[[0.2, 0.2, 0.8, 0.8]]], np.float32),
    )
    assert (begin[:2] + size[:2] <= [40, 60]).all() and size[2] == -1 and box.shape == (1, 1, 4)


def test_is_jpeg(graph: Any) -> None:
    images = tf.constant([b"\xff\xd8\xff\xe0...", b"\xff\xd8", b"\x89PNG"])
    with tf.Session() as session:
        assert session.run(tf.image.is_jpeg(images)).tolist() == [True, False, False]
        assert session.run(tf.io.is_jpeg(images[0])) == np.True_


def test_parts_and_sizes_of_jpeg_files(graph: Any) -> None:
    image = (np.arange(16 * 24 * 3) % 251).reshape(16, 24, 3).astype(np.uint8)
    file, grey = tf.image.encode_jpeg(image), tf.image.encode_jpeg(image[:, :, :1])
    part = tf.image.decode_and_crop_jpeg(file, [2, 3, 5, 6], channels=3)
    assert part.shape.as_list() == [5, 6, 3]
    with tf.Session() as session:
        whole, cut = session.run([tf.image.decode_jpeg(file), part])
        np.testing.assert_array_equal(cut, whole[2:7, 3:9])
        sizes = session.run([tf.io.extract_jpeg_shape(file), tf.io.extract_jpeg_shape(grey, tf.int64)])
        assert [s.tolist() for s in sizes] == [[16, 24, 3], [16, 24, 1]] and sizes[1].dtype == np.int64
        for window in ([2, 3, 50, 6], [-1, 0, 2, 2], [0, 0, 0, 2], [1, 2, 3]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="crop"):
                session.run(tf.image.decode_and_crop_jpeg(file, window))
        with pytest.raises(tf.errors.InvalidArgumentError, match="no image"):
            session.run(tf.io.extract_jpeg_shape("text"))


def test_jpeg_files_of_some_quality(graph: Any) -> None:
    """The worse the file, the farther from the image it was made of."""
    rows, columns = np.mgrid[:32, :32] / 32
    image = np.stack([rows, columns, (rows * 7 + columns * 5) % 1], 2).astype(np.float32)
    quality = tf.placeholder(tf.int32, [])
    out = tf.image.adjust_jpeg_quality(image, quality)
    some = tf.image.random_jpeg_quality((image * 255).astype(np.uint8), 40, 60)
    assert out.shape.as_list() == [32, 32, 3] and some.dtype is tf.uint8
    with tf.Session() as session:
        away = [np.abs(session.run(out, {quality: q}) - image).mean() for q in (95, 50, 5)]
        assert 0 < away[0] < away[1] < away[2] < 0.2 and session.run(some).shape == (32, 32, 3)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"quality must be in \[0, 100\]"):
            session.run(out, {quality: 101})
    with pytest.raises(ValueError, match="min_jpeg_quality"):
        tf.image.random_jpeg_quality(image, 50, 50)
    with pytest.raises(ValueError, match="number of channels"):
        tf.image.adjust_jpeg_quality(tf.placeholder(tf.float32), 50)
