"""Choices, the largest of rows: machine code and numpy give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import pick_loops

KINDS = ["float32", "float64", "int32", "int64"]


def values(kind: str, *shape: int) -> Any:
    """With many equals, and NaN and infinities where there are such."""
    found = np.random.default_rng(5).integers(-4, 4, shape).astype(kind)
    if kind.startswith("float") and found.size > 9:
        found.reshape(-1)[::7], found.reshape(-1)[3::11], found.reshape(-1)[5::13] = np.nan, np.inf, -np.inf
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 20, 4), (1, 5, 5), (4, 9, 1), (2, 70, 64), (0, 4, 2), (2, 3, 0)])
def test_the_largest(kind: str, shape: tuple[int, int, int]) -> None:
    rows, columns, count = shape
    x = values(kind, rows, columns)
    made = []
    for version in (pick_loops.top.compile(), pick_loops.top.numpy):
        best, places = np.zeros((rows, count), kind), np.zeros((rows, count), np.int64)
        if count:
            version(x, best, places)
        made.append((best, places))
    for one, other in zip(*made):
        assert one.tobytes() == other.tobytes()
    for row, best, places in zip(x, *made[0]):
        key = np.where(row != row, np.inf, row) if kind.startswith("float") else row
        order = sorted(range(columns), key=lambda i: (row[i] == row[i], -float(key[i]), i))[:count]
        assert places.tolist() == order
        np.testing.assert_array_equal(best, row[order])


@pytest.mark.parametrize("count", [0, 3, pick_loops.MOST, pick_loops.MOST + 1])
def test_top_k_of_any_rank(count: int) -> None:
    x = np.random.default_rng(1).integers(0, 30, (2, 3, 80)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        best, places = session.run(tf.nn.top_k(x, count))
        one, at = session.run(tf.nn.top_k(x[0, 0], count))
    assert best.shape == places.shape == (2, 3, count) and places.dtype == np.int32
    np.testing.assert_array_equal(best, -np.sort(-x, -1)[..., :count])
    np.testing.assert_array_equal(np.take_along_axis(x, places, -1), best)
    np.testing.assert_array_equal(one, best[0, 0])
    np.testing.assert_array_equal(at, places[0, 0])


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3), (0, 0)])
def test_top_k_of_nothing(shape: tuple[int, ...]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run([tf.nn.top_k(np.zeros(shape, np.float32), k) for k in {0, shape[-1]}])
        in_order = session.run(tf.sort(tf.zeros(shape), direction="DESCENDING"))
    for values, places in found:
        assert values.shape == places.shape == (*shape[:-1], values.shape[-1]) and places.dtype == np.int32
    assert {values.shape[-1] for values, _ in found} == {0, shape[-1]} and in_order.shape == shape


@pytest.mark.parametrize("kind", [*KINDS, "float16", "uint8"])
@pytest.mark.parametrize("count", [65, 200, 300])
def test_many_of_wide_rows(kind: str, count: int) -> None:
    x = np.random.default_rng(7).integers(0, 90, (2, 3, 600)).astype(kind)
    with tf.Graph().as_default(), tf.Session() as session:
        best, places = session.run(tf.nn.top_k(x, count))
    order = np.argsort(-x.astype(np.int64), -1, kind="stable")[..., :count]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(best, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_how_many_are_above(kind: str) -> None:
    x = np.random.default_rng(2).standard_normal((40, 30)).astype(kind)
    x[3, 5], x[7, 2], x[9, 1] = np.nan, np.inf, -np.inf
    targets = np.random.default_rng(3).integers(0, 30, 40)
    made = []
    for version in (pick_loops.count_above.compile(), pick_loops.count_above.numpy):
        counts = np.zeros(40, np.int64)
        version(x, targets, counts)
        made.append(counts)
    np.testing.assert_array_equal(*made)
    assert made[0][[3, 7, 9]].tolist() == [-1, -1, -1] and (np.delete(made[0], [3, 7, 9]) >= 0).all()


def test_targets_that_do_not_fit() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        targets = tf.placeholder(tf.int32, None)
        found = tf.nn.in_top_k(np.ones((4, 3), np.float32), targets, 1)
        for wrong in ([0, 1], [[0, 1, 2, 0]], [0] * 5):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"targets \[batch\], got \(4, 3\)"):
                session.run(found, {targets: wrong})


@pytest.mark.parametrize("kind", KINDS)
def test_choices(kind: str) -> None:
    a, b = values(kind, 70, 90), values(kind, 70, 90)[::-1]
    condition = np.random.default_rng(4).random((70, 90)) < 0.5
    wanted = np.where(condition, a, b)
    for version in (pick_loops.chosen.compile(), pick_loops.chosen.numpy):
        out = np.empty(a.size, kind)
        version(condition.reshape(-1).view(np.uint8), a.reshape(-1), np.ascontiguousarray(b).reshape(-1), out)
        assert out.tobytes() == wanted.tobytes()
    assert pick_loops.choose(condition, a, b).tobytes() == wanted.tobytes()
    narrow = pick_loops.choose(condition, a, b[:1])
    np.testing.assert_array_equal(narrow, np.where(condition, a, b[:1]))
