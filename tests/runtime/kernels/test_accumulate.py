"""Sums over the iterations of a loop: rows that are kept are added before anybody sees the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import accumulate, math, math_reduce  # noqa: F401
from sparkflow_runtime.kernels.accumulate import by_rows, postponing, settled
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager

RNG = np.random.default_rng(0)


def adding(op: str, **attrs: Any) -> Any:
    node = Node("n", op, attrs, "CPU", np, ResourceManager())
    row = find("AddV2", "CPU")
    return postponing(row, op, find(op, "CPU").factory(node)).factory(node)


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_added_up(dtype: Any) -> None:
    """Of few rows at once, of many as they come, and of both in turn."""
    add, first = adding("MatMul", transpose_a=True), draw(5, 7, dtype=dtype)
    held: Any = first
    expected, before = first.astype(np.float64), first.copy()
    for rows in [3, 3, 3, 4, 4, 200, 3, 1, 0, 2]:
        a, b = draw(rows, 5, dtype=dtype), draw(rows, 7, dtype=dtype)
        held = add(held, a, b)
        expected = expected + a.T.astype(np.float64) @ b
    got = settled(held)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, 1e-4)
    np.testing.assert_array_equal(first, before)  # it may be a constant


def test_sums_are_added_up() -> None:
    add, held = adding("Sum"), np.zeros(6, np.float32)
    parts = [draw(rows, 6) for rows in (4, 4, 5, 300, 1)]
    for x in parts:
        held = add(held, x, np.array([0], np.int32))
    np.testing.assert_allclose(settled(held), sum(x.sum(0) for x in parts), 1e-4)


def test_sums_of_other_ranks_and_types_are_added_at_once() -> None:
    add = adding("Sum")
    held = add(np.zeros((2, 3), np.float32), np.ones((4, 2, 3), np.float32), np.array([0], np.int32))
    np.testing.assert_array_equal(held, np.full((2, 3), 4))
    assert type(add(np.zeros(3, np.int32), np.ones((4, 3), np.int32), np.array([0], np.int32))) is np.ndarray


def test_what_is_kept_has_a_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(accumulate, "_KEPT_BYTES", 1000)
    add, held, most = adding("Sum"), np.zeros(10, np.float32), 0
    for _ in range(50):
        held = add(held, np.ones((4, 10), np.float32), np.array([0], np.int32))
        most = max(most, len(held._kept))
    np.testing.assert_array_equal(settled(held), np.full(10, 200))
    assert 5 < most < 10


def test_which_ops_may_wait() -> None:
    assert by_rows("Sum", False, False)
    assert by_rows("MatMul", True, False)
    assert not any(by_rows("MatMul", a, b) for a, b in [(False, False), (False, True), (True, True)])


def gradients(steps: Any, watch: bool) -> tuple[list[Any], Any]:
    """Of a recurrent net's weights and bias; watch: something else in the loop reads the value of every iteration."""
    x = tf.placeholder(tf.float32, [None, 4, 3])
    w, b = tf.constant(draw(8, 5)), tf.constant(draw(5))

    def body(t: Any, h: Any) -> Any:
        return t + 1, tf.tanh(tf.matmul(tf.concat([x[t], h], 1), w) + b)

    _, h = tf.while_loop(lambda t, h: t < steps, body, [tf.constant(0), tf.zeros([4, 5])])
    found = tf.gradients(tf.reduce_sum(h * h), [w, b])
    return [*found, *(tf.gradients(tf.reduce_sum(found[0] ** 2), [w, b]) if watch else [])], x


@pytest.mark.parametrize("steps", [0, 1, 6])
@pytest.mark.parametrize("watch", [False, True])
def test_gradients_of_a_loop(steps: int, watch: bool, monkeypatch: Any) -> None:
    fed = draw(max(steps, 1), 4, 3)
    found = []
    for postponed in (True, False):
        if not postponed:
            monkeypatch.setattr("sparkflow_runtime.worker.values.by_rows", lambda *_: False)
        RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state
        with tf.Graph().as_default(), tf.Session() as session:
            values, x = gradients(steps, watch)
            found.append(session.run(values, {x: fed}))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-3, 1e-5)
