"""Kernels that know their axes and shapes ahead do what they do when these are fed, wrong ones included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
X[1, 1, 1] = np.nan
WORDS = np.array([["a", "b"], ["c", "d"]], object)
Build = Callable[[Any, Any], Any]
REDUCTIONS = ["sum", "mean", "max", "min", "prod", "all", "any"]


def reduction(name: str, keep: bool) -> Build:
    def build(x: Any, axes: Any) -> Any:
        x = x > 0 if name in ("all", "any") else x
        return getattr(tf, f"reduce_{name}")(x, axes, keepdims=keep)

    return build


CASES: list[tuple[Build, Any, list[Any]]] = [
    *((reduction(name, keep), X, [[0], [1], [-1], [0, 2], [], [3], [-4]]) for name in REDUCTIONS for keep in (0, 1)),
    (tf.expand_dims, X, [0, 1, 3, -1, -2, -4, 4, -5]),
    (tf.expand_dims, WORDS, [0, -1]),
    (tf.expand_dims, np.float32(1.5), [0, -1, 1]),
    (tf.transpose, X, [[0, 1, 2], [2, 0, 1], [1, 0, 2]]),
    (lambda x, axis: tf.concat([x, x], axis), X, [0, 1, -1, 3]),
    (lambda x, axis: tf.gather(x, [[1, 0]], axis=axis), X, [0, 1, -1, 3]),
    (lambda x, axis: tf.gather(x, [[1, 5]], axis=axis), X, [0]),
    (lambda x, axis: tf.gather(x, 1, axis=axis), WORDS, [0, 1]),
    (lambda x, begin: tf.strided_slice(x, begin, [2, 3], [1, 1], shrink_axis_mask=2), X, [[0, 1], [1, -1], [0, 3]]),
    (lambda x, step: tf.strided_slice(x, [0, 2], [2, 0], step), X, [[1, -1], [1, 1], [2, -2]]),
    (lambda x, step: tf.strided_slice(x, [0, 1], [2, 2], step, shrink_axis_mask=2), WORDS, [[1, 1], [1, -1]]),
    (lambda x, axis: tf.argmax(x, axis), X, [0, 1, 2, -1, 3]),
]


def outcome(build: Build, x: Any, value: Any, how: str) -> Any:
    """What comes of it where the second input is "fed", or is a "constant", in a "loop" too; or the error's type."""
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string if np.asarray(x).dtype == object else tf.float32)
        given = tf.placeholder(tf.int32)

        def made() -> Any:
            return tf.identity(build(fed, tf.constant(value, tf.int32)))

        try:
            if how == "fed":
                return session.run(tf.identity(build(fed, given)), {fed: x, given: value})
            if how == "constant":
                return session.run(made(), {fed: x})
            shapes = [tf.TensorShape([]), tf.TensorShape(None)]
            out = tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, made()), [0, made()], shapes)
            return session.run(out[1], {fed: x})
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            return type(error)


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("how", ["constant", "loop"])
def test_as_when_they_are_fed(case: int, how: str) -> None:
    build, x, values = CASES[case]
    for value in values:
        known, fed = outcome(build, x, value, how), outcome(build, x, value, "fed")
        if isinstance(known, type) or isinstance(fed, type):
            assert isinstance(known, type) and isinstance(fed, type), (value, known, fed)
        else:
            assert known.dtype == fed.dtype and known.shape == fed.shape, value
            assert known.tolist() == fed.tolist() or known.tobytes() == fed.tobytes(), value
