"""Random ops, whatever their seeds: shapes, types, errors, seeds that repeat a stream; test_random.py compares what
they draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.compare import EXACT
from tests.oracle.program import program


@program("RandomUniform", "RandomStandardNormal", "TruncatedNormal", tolerance=EXACT)
def sizes_of_random_values(tf: Any) -> list[Any]:
    steps: list[Any] = []
    size = tf.placeholder(tf.int32, [None])
    for make in (tf.random_uniform, tf.random_normal, tf.truncated_normal):
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
            drawn = make(size, dtype=dtype, seed=1)
            alike = tf.zeros_like(drawn)
            steps += [([alike], {size: np.array(s, np.int32)}) for s in ([2, 3], [0], [], [4, 0, 2])]
        steps.append(([alike], {size: np.array([2, -1], np.int32)}))
    return steps


@program("RandomUniformInt", tolerance=EXACT)
def bounds_of_random_integers(tf: Any) -> list[Any]:
    low, high = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
    drawn = tf.random_uniform([100], low, high, tf.int64, seed=2)
    inside = tf.reduce_all(tf.logical_and(drawn >= low, drawn < high))

    def between(a: int, b: int) -> Any:
        return [inside], {low: np.array(a), high: np.array(b)}

    one = tf.random_uniform([20], 3, 4, tf.int32)
    return [between(0, 10), between(-5, 5), between(-(2**62), 2**62), between(3, 3), between(4, 3), [one]]


@program("RandomShuffle", tolerance=EXACT)
def shuffled_rows(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.int32, None)
    out = tf.random_shuffle(x, seed=3)
    total, sizes = tf.reduce_sum(tf.square(out)), tf.shape(out)
    rows = [np.arange(12, dtype=np.int32).reshape(4, 3), np.zeros((0, 2), np.int32), np.array(5, np.int32)]
    return [([total, sizes], {x: value}) for value in rows]
