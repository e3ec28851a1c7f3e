"""Rows reduced by segment: machine code and numpy give the same bits, and what TensorFlow gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import segment_reduce_loops as loops
from sparkflow_runtime.kernels.sum_loops import add_rows

TYPES = ("float32", "float64", "int32", "int64")


def rows_of(rng: np.random.Generator, dtype: str, count: int, width: int) -> np.ndarray:
    if dtype.startswith("i"):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (count, width), dtype, endpoint=True)
    odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 1e-40], (count, width))
    return np.where(rng.random((count, width)) < 0.3, odd, rng.normal(size=(count, width))).astype(dtype)


def one_by_one(rows: np.ndarray, ids: np.ndarray, kind: int, out: np.ndarray, begun: set[int]) -> np.ndarray:
    for row, target in zip(rows, ids.tolist()):
        if target < 0:
            continue
        held = out[target]
        with np.errstate(all="ignore"):
            better = (held > row, held < row, None)[kind]
            new = held * row if better is None else np.where(better | (held != held), held, row)
        out[target] = new if target in begun else row
        begun.add(target)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", [loops.MAX, loops.MIN, loops.PRODUCT])
@pytest.mark.parametrize("width", [0, 1, 3, 8])
def test_same_bits(dtype: str, kind: int, width: int) -> None:
    rng = np.random.default_rng(width)
    for count, segments in ((0, 3), (1, 1), (40, 4), (200, 9), (60, 100)):
        rows, ids = rows_of(rng, dtype, count, width), rng.integers(-1, segments, count)
        ends = np.iinfo(dtype) if dtype.startswith("i") else np.finfo(dtype)
        nothing = {loops.MAX: ends.min, loops.MIN: ends.max, loops.PRODUCT: 1}[kind]
        expected = one_by_one(rows, ids, kind, np.full((segments, width), nothing, dtype), {*range(segments)})
        for loop in (loops.reduce_rows.compile(), loops.reduce_rows.numpy):
            out = np.full((segments, width), nothing, dtype)
            assert loop(rows, ids, kind, out) == -1
            assert out.tobytes() == expected.tobytes()
        ids = np.sort(np.maximum(ids, 0))
        empty = np.full((segments, width), kind == loops.PRODUCT, dtype)
        expected = one_by_one(rows, ids, kind, empty, set())
        for loop in (loops.reduce_ordered.compile(), loops.reduce_ordered.numpy):
            out = np.full((int(ids[-1]) + 1 if count else 0, width), 7, dtype)
            assert loop(rows, ids, kind, out) == -1
            assert out.tobytes() == expected[: len(out)].tobytes()


def test_ids_out_of_range_or_order() -> None:
    rows = np.ones((4, 2), np.float32)
    for loop in (loops.reduce_rows.compile(), loops.reduce_rows.numpy):
        assert loop(rows, np.array([0, -5, 3, 9]), loops.MAX, np.zeros((3, 2), np.float32)) == 2
    for loop in (loops.reduce_ordered.compile(), loops.reduce_ordered.numpy):
        for ids, wrong in (([0, 2, 1, 2], 2), ([-1, 0, 0, 0], 0), ([0, 0, 0, 9], 3), ([1, 1, 1, 0], 3)):
            assert loop(rows, np.array(ids), loops.MAX, np.zeros((3, 2), np.float32)) == wrong


def test_infinite_rows_of_unsorted_segments(graph: Any) -> None:
    """A segment begins with the least finite number, as in TensorFlow, so nothing below that comes out."""
    low, high = np.finfo(np.float32).min, np.finfo(np.float32).max
    rows, ids = tf.constant([[-np.inf], [np.inf], [-np.inf]]), tf.constant([0, 1, 0])
    with tf.Session() as session:
        assert session.run(tf.math.unsorted_segment_max(rows, ids, 3)).tolist() == [[low], [np.inf], [low]]
        assert session.run(tf.math.unsorted_segment_min(rows, ids, 3)).tolist() == [[-np.inf], [high], [high]]
        halves = tf.math.unsorted_segment_max(tf.cast(rows, tf.float16), ids, 3)
        assert session.run(halves).tolist() == [[-65504], [np.inf], [-65504]]
        assert session.run(tf.math.segment_max(rows, [0, 0, 1])).tolist() == [[np.inf], [-np.inf]]


def test_a_negative_number_of_segments_is_named(graph: Any) -> None:
    count = tf.placeholder(tf.int32, [])
    with tf.Session() as session:
        for function in (tf.math.unsorted_segment_max, tf.math.unsorted_segment_prod):
            made = function(tf.zeros([2, 1]), [-1, -1], count)
            with pytest.raises(tf.errors.InvalidArgumentError, match="num_segments must not be negative, got -1"):
                session.run(made, {count: -1})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_of_whole_numbers_by_the_loop(dtype: str) -> None:
    rng = np.random.default_rng(0)
    rows, ids = rows_of(rng, dtype, 100, 3), rng.integers(0, 7, 100)
    expected = np.zeros((7, 3), dtype)
    np.add.at(expected, ids, rows)
    for loop in (add_rows.compile(), add_rows.numpy):
        out = np.zeros((7, 3), dtype)
        assert loop(rows, ids, out) == -1 and (out == expected).all()
        assert loop(rows, np.where(np.arange(100) == 5, -1, ids), out) == 5
