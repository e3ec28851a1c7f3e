"""Loops over images: machine code and numpy give the same bits."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import colour_loops, image_boxes, resize_loops

# ---------------------------------------------------------------------- between cells


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
@pytest.mark.parametrize("channels", [1, 2, 13])
def test_between_four_cells(channels: int, kind: Any) -> None:
    rng, each = np.random.default_rng(6), np.arange(channels)
    x = (rng.random((3, 4, 5 * channels)) * 255 + 1).astype(kind)
    top = np.array([0, 1, 1, 0, 2, 3, 3])
    left, right = (rng.integers(0, 5, (9, 1)) * channels + each for _ in range(2))
    columns = left.reshape(-1).astype(np.uint32), right.reshape(-1).astype(np.uint32)
    across = np.repeat(rng.random(9, np.float32), channels)
    places = top, np.minimum(top + 1, 3), rng.random(7, np.float32), *columns, across
    made = []
    for version in (resize_loops.between.compile(), resize_loops.between.numpy):
        out = np.zeros((3, 7, 9 * channels), np.float32)
        version(x, *places, out, np.zeros((2, 9 * channels), np.float32), channels, 0, 2)
        made.append(out)
    assert made[0].tobytes() == made[1].tobytes()
    assert not made[0][2].any() and made[0][:2].all()


def test_resizing_bytes() -> None:
    """The same bits as of floats, also of sizes that a node has seen before."""
    x = np.random.default_rng(1).integers(0, 256, (2, 6, 5, 3), np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        fed, size = tf.placeholder(tf.uint8, [None, None, None, 3]), tf.placeholder(tf.int32, [2])
        found = tf.image.resize_bilinear(fed, size), tf.image.resize_bilinear(tf.cast(fed, tf.float32), size)
        for sizes in ([3, 2], [12, 10], [3, 2], [5, 7]):
            for image in (x, x[:, :4], x[:, ::2, 1:]):
                small, large = session.run(found, {fed: image, size: sizes})
                assert small.tobytes() == large.tobytes() and small.shape == (2, *sizes, 3)


@pytest.mark.parametrize("size", [[7, 9], [2, 3], [4, 5], [1, 1], [12, 2]])
@pytest.mark.parametrize("settings", [{}, {"align_corners": True}, {"half_pixel_centers": True}])
def test_resizing(size: list[int], settings: dict[str, bool]) -> None:
    x = np.random.default_rng(1).standard_normal((2, 4, 5, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.image.resize_bilinear(x, size, **settings))
    scales = [
        (old - 1) / (new - 1) if "align_corners" in settings and new > 1 else old / new
        for old, new in zip((4, 5), size)
    ]
    half = 0.5 if "half_pixel_centers" in settings else 0.0
    for h in range(size[0]):
        for w in range(size[1]):
            y, z = (max((at + half) * s - half, 0) for at, s in zip((h, w), scales))
            y, z = min(y, 3), min(z, 4)
            a, b = int(y), int(z)
            rows = x[:, [a, min(a + 1, 3)]][:, :, [b, min(b + 1, 4)]].astype(np.float64)
            upper, lower = (rows[:, i, 0] + (rows[:, i, 1] - rows[:, i, 0]) * (z - b) for i in (0, 1))
            np.testing.assert_allclose(found[:, h, w], upper + (lower - upper) * (y - a), atol=1e-4)


@pytest.mark.parametrize("channels", [0, 1, 5])
def test_crops(channels: int) -> None:
    rng = np.random.default_rng(3)
    image = rng.standard_normal((2, 6, 7, channels)).astype(np.float32)
    which = rng.integers(0, 2, 4)
    rows = rng.integers(0, 6, (4, 3)), rng.integers(0, 6, (4, 3)), rng.random((4, 3), np.float32)
    columns = rng.integers(0, 7, (4, 2)), rng.integers(0, 7, (4, 2)), rng.random((4, 2), np.float32)
    flags = rng.integers(0, 2, (4, 3)).astype(np.uint8), rng.integers(0, 2, (4, 2)).astype(np.uint8)
    made = []
    for version in (resize_loops.cut.compile(), resize_loops.cut.numpy):
        out = np.zeros((4, 3, 2, channels), np.float32)
        version(image, which, *rows, flags[0], *columns, flags[1], out, np.full(1, 7, np.float32), 1, 4)
        made.append(out)
    assert made[0].tobytes() == made[1].tobytes()
    assert not made[0][0].any()


# ---------------------------------------------------------------------- the best of many boxes


@pytest.mark.parametrize("count", [1, 5, 300])
@pytest.mark.parametrize("most", [1, 3, 200])
@pytest.mark.parametrize("limit", [0.0, 0.3, 0.8, 1.0])
def test_the_best_boxes(count: int, most: int, limit: float) -> None:
    rng = np.random.default_rng(count)
    low = rng.integers(0, 9, (count, 2)).astype(np.float32)
    high = low + rng.integers(0, 5, (count, 2)).astype(np.float32)
    area, order = (high - low).prod(1), rng.permutation(count)
    made = []
    for version in (image_boxes.best_boxes.compile(), image_boxes.best_boxes.numpy):
        kept = np.zeros(min(most, count), np.int64)
        room = np.zeros((5, len(kept)), np.float32)
        found = version(order, low, high, area, np.array([limit], np.float32), kept, room)
        made.append(kept[:found].tolist())
    assert made[0] == made[1] and made[0][0] == order[0]


def test_boxes_that_are_not_numbers() -> None:
    boxes = np.array([[0, 0, 1, 1], [np.nan, 0, 1, 1], [0, 0, 1, 1.01], [5, 5, 6, np.inf]], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        kept = session.run(tf.image.non_max_suppression(boxes, [0.9, 0.8, 0.7, np.nan], 10))
    assert kept.tolist() == [0, 1]


# ---------------------------------------------------------------------- colours


def pixels() -> Any:
    rng = np.random.default_rng(4)
    x = rng.random((500, 3)).astype(np.float32)
    x[:50] = np.round(x[:50] * 2) / 2  # greys, black, white, equal parts
    x[50:60] = rng.standard_normal((10, 3)) * 3
    x[60:63] = np.eye(3)
    x[63, 1], x[64, 0] = np.nan, np.inf
    return x


@pytest.mark.parametrize(
    ("loop", "turned", "scale"),
    [
        (colour_loops.to_hsv, 0.0, 1.0),
        (colour_loops.to_rgb, 0.0, 1.0),
        *((colour_loops.turn, by, 1.0) for by in (0.0, 0.3, -0.7)),
        *((colour_loops.saturate, 0.0, by) for by in (1.0, 2.5, 0.0)),
    ],
)
@np.errstate(all="ignore")
def test_colours_have_the_same_bits(loop: Any, turned: float, scale: float) -> None:
    x, made = pixels(), []
    for version in (loop.compile(), loop.numpy):
        out = np.zeros_like(x)
        version(x, out, np.array([turned, scale], np.float32), 0, len(x))
        made.append(out)
    one, other = made
    np.testing.assert_array_equal(one, other)
    assert one[one == one].tobytes() == other[one == one].tobytes()


def test_colours_are_those_of_the_standard_library() -> None:
    x = pixels()[65:]
    with tf.Graph().as_default(), tf.Session() as session:
        hsv = tf.image.rgb_to_hsv(x)
        there, back, turned = session.run([hsv, tf.image.hsv_to_rgb(hsv), tf.image.adjust_hue(x[None], 0.25)])
    np.testing.assert_allclose(there, [colorsys.rgb_to_hsv(*p) for p in x.tolist()], atol=1e-5)
    np.testing.assert_allclose(back, x, atol=1e-5)
    wanted = [colorsys.hsv_to_rgb((h + 0.25) % 1, s, v) for h, s, v in there.tolist()]
    np.testing.assert_allclose(turned[0], wanted, atol=1e-5)


def test_a_turned_hue_keeps_what_lies_beyond_0_and_1() -> None:
    """As a change of brightness leaves it: a pixel's highest and lowest numbers stay."""
    x = pixels()[65:] * 3 - 2
    with tf.Graph().as_default(), tf.Session() as session:
        turned = session.run(tf.image.adjust_hue(x[None], 0.2))[0]
        third = session.run(tf.image.adjust_hue(x[None], 1 / 3))[0]
    np.testing.assert_allclose(turned.min(1), x.min(1), atol=1e-5)
    np.testing.assert_allclose(turned.max(1), x.max(1), atol=1e-5)
    np.testing.assert_allclose(third, np.roll(x, 1, 1), atol=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_shared_rows(kind: Any, columns: int) -> None:
    rng = np.random.default_rng(3)
    x, cells, targets = rng.random((4, 6, columns)).astype(kind), rng.integers(0, 6, 30), rng.integers(0, 5, 30)
    shares, made = rng.standard_normal(30).astype(kind), []
    for version in (resize_loops.share_rows.compile(), resize_loops.share_rows.numpy):
        out = np.zeros((4, 5, columns), kind)
        version(x, cells, targets, shares, out, 1, 3)
        made.append(out)
    assert made[0].tobytes() == made[1].tobytes() and not made[0][[0, 3]].any() and made[0][1:3].any()
