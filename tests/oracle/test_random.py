"""Random values: not TensorFlow's bits, but its distributions and its rules of seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.engines import OURS, THEIRS, Engine

COUNT = 20_000
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda tf, dtype: tf.random_uniform([COUNT], seed=7, dtype=dtype),
    "uniform-between": lambda tf, dtype: tf.random_uniform([COUNT], -3, 5, seed=7, dtype=dtype),
    "normal": lambda tf, dtype: tf.random_normal([COUNT], 1, 2, seed=7, dtype=dtype),
    "gamma": lambda tf, dtype: tf.random_gamma([COUNT], 2.5, 0.5, seed=7, dtype=dtype),
    "small-gamma": lambda tf, dtype: tf.random_gamma([COUNT], 0.4, seed=7, dtype=dtype),
    "poisson": lambda tf, dtype: tf.random_poisson(tf.constant(3.5), [COUNT], seed=7, dtype=dtype),
    "classes": lambda tf, dtype: tf.cast(tf.multinomial(tf.constant([[0.0, 1, -1]], dtype), COUNT, seed=7)[0], dtype),
    "truncated": lambda tf, dtype: tf.truncated_normal([COUNT], 1, 2, seed=7, dtype=dtype),
}


def _run(engine: Engine, build: Callable[[Any], Any], times: int = 1, graph_seed: int | None = 11) -> list[np.ndarray]:
    graph = engine.graph()
    with graph.as_default():
        if graph_seed is not None:
            engine.tf.set_random_seed(graph_seed)
        fetch = build(engine.tf)
        with engine.session(graph) as session:
            return [np.asarray(session.run(fetch)) for _ in range(times)]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: the largest distance between the two empirical distribution functions."""
    a, b = np.sort(a.astype(np.float64)), np.sort(b.astype(np.float64))
    both = np.concatenate([a, b])
    return float(np.abs(np.searchsorted(a, both, "right") - np.searchsorted(b, both, "right")).max() / len(a))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_distribution_is_tensorflows(draw: str, dtype: str) -> None:
    ours, theirs = (_run(e, lambda tf: DRAWS[draw](tf, getattr(tf, dtype)))[0] for e in (OURS, THEIRS))
    assert ours.dtype == theirs.dtype
    assert _distance(ours, theirs) < 1.95 * np.sqrt(2 / COUNT)  # exceeded by chance once in a thousand


def test_integers_are_as_often() -> None:
    ours, theirs = (_run(e, lambda tf: tf.random_uniform([COUNT], 0, 10, tf.int32, seed=5))[0] for e in (OURS, THEIRS))
    for drawn in (ours, theirs):
        counts = np.bincount(drawn, minlength=10)
        assert len(counts) == 10 and np.abs(counts - COUNT / 10).max() < 5 * np.sqrt(COUNT / 10)


@pytest.mark.parametrize("graph_seed", [None, 11])
@pytest.mark.parametrize("op_seed", [None, 7])
def test_seeds_repeat_a_stream_as_in_tensorflow(graph_seed: int | None, op_seed: int | None) -> None:
    """Two sessions draw the same where a seed is set, a session goes on in its stream, and two ops draw differently."""
    for engine in (OURS, THEIRS):

        def build(tf: Any) -> Any:
            return [tf.random_uniform([4], seed=op_seed), tf.random_uniform([4], seed=op_seed)]

        first, again = (_run(engine, build, 2, graph_seed) for _ in range(2))
        repeats = graph_seed is not None or op_seed is not None
        assert all(np.array_equal(a, b) for a, b in zip(first, again)) is repeats
        assert not np.array_equal(first[0], first[1])
        alike = np.array_equal(first[0][0], first[0][1])
        assert alike is (op_seed is not None), engine.name
