"""Random ops: distributions, seeds, and what repeats when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.framework.random_seed import set_random_seed
from sparkflow.ops import random, random_more
from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import InvalidArgumentError

SIZE = (200, 300)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(evaluate: Any, dtype: str) -> None:
    got = evaluate(lambda: random.random_uniform(SIZE, dtype=dtype, seed=1))
    assert got.dtype.name == dtype and got.min() >= 0 and got.max() < 1
    wide = got.astype("f8")
    assert abs(wide.mean() - 0.5) < 0.01 and abs(wide.std() - 12**-0.5) < 0.01
    got = evaluate(lambda: random.random_uniform(SIZE, -2, 4.0, dtype, seed=1)).astype("f8")
    assert abs(got.mean() - 1) < 0.04 and got.min() >= -2 and got.max() <= 4


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_uniform_integers(evaluate: Any, dtype: str) -> None:
    got = evaluate(lambda: random.random_uniform(SIZE, -1, 3, dtype, seed=1))
    assert got.dtype == dtype and np.unique(got).tolist() == [-1, 0, 1, 2]
    with pytest.raises(ValueError, match="maxval"):
        random.random_uniform([2], dtype=dtype)
    with pytest.raises(InvalidArgumentError, match="minval < maxval"):
        evaluate(lambda: random.random_uniform([2], 3, 3, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_normal(evaluate: Any, dtype: str) -> None:
    got = evaluate(lambda: random.random_normal(SIZE, 3.0, 2.0, dtype, seed=1))
    assert got.dtype == dtype
    assert abs(got.astype("f8").mean() - 3) < 0.05 and abs(got.astype("f8").std() - 2) < 0.05


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_truncated_normal(evaluate: Any, dtype: str) -> None:
    got = evaluate(lambda: random.truncated_normal(SIZE, dtype=dtype, seed=1))
    assert got.dtype == dtype and np.abs(got).max() <= 2
    assert abs(got.astype("f8").std() - 0.8796) < 0.01  # that of a normal distribution cut at 2
    assert np.shape(evaluate(lambda: random.truncated_normal([], seed=1))) == ()


def test_shuffle(evaluate: Any) -> None:
    x = np.arange(40).reshape(20, 2)
    got = evaluate(lambda t: random.random_shuffle(t, seed=1), x)
    assert got.tolist() != x.tolist() and sorted(got.tolist()) == x.tolist()


def drawn(graph_seed: int | None, op_seed: int | None, before: int = 0) -> list[np.ndarray]:
    """Two draws of one op in a new graph and session; `before` other ops are made first."""
    with Graph().as_default() as graph:
        if graph_seed is not None:
            set_random_seed(graph_seed)
        for _ in range(before):
            random.random_normal([1])
        out = random.random_uniform([4], seed=op_seed)
        with Session(graph=graph) as session:
            return [session.run(out), session.run(out)]


@pytest.mark.parametrize("graph_seed, op_seed", [(1, None), (None, 2), (1, 2), (0, 0)])
def test_seeds_repeat_from_session_to_session_but_not_from_run_to_run(graph_seed: Any, op_seed: Any) -> None:
    first, second = drawn(graph_seed, op_seed), drawn(graph_seed, op_seed)
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).any()


def test_what_changes_the_values() -> None:
    draws = [drawn(None, None), drawn(None, None), drawn(1, None), drawn(1, None, before=1), drawn(1, 2), drawn(2, 2)]
    assert len({d[0].tobytes() for d in draws}) == len(draws)


def test_negative_sizes(evaluate: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        evaluate(random.random_normal, np.array([2, -1], np.int32))


@pytest.mark.parametrize("rate", [np.nan, 1e12])
def test_rates_that_no_integer_of_the_type_reaches(evaluate: Any, rate: float) -> None:
    with pytest.raises(InvalidArgumentError, match="must be below half of what int32 holds"):
        evaluate(lambda: random_more.random_poisson([rate], [2], dtype="int32"))


def test_one_value_of_a_parameter_that_is_one(evaluate: Any) -> None:
    assert evaluate(lambda: random_more.random_gamma([], 2.0)).shape == ()
    assert evaluate(lambda: random_more.random_poisson(2.0, [])).shape == ()
