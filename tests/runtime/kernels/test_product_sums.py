"""Sums of many products: the bits of the products and additions one by one, whoever computes them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import parallel, product_sums
from sparkflow_runtime.kernels.crew import crew
from sparkflow_runtime.kernels.product_sums import sum_of_products


def one_by_one(a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
    return reduce(np.add, [parallel.product(x, y) for x, y in zip(a, b)])


def factors(count: int, m: int, k: int, n: int, kind: str = "float32", turned: bool = True) -> tuple[Any, Any]:
    rng = np.random.default_rng(m + k + n)
    a = [rng.standard_normal((k, m)).astype(kind).T if turned else rng.standard_normal((m, k)) for _ in range(count)]
    return [x.astype(kind, copy=False) for x in a], [rng.standard_normal((k, n)).astype(kind) for _ in range(count)]


@pytest.mark.parametrize("helped", [True, False])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize(
    ("count", "m", "k", "n"), [(4, 96, 64, 128), (20, 33, 7, 65), (300, 40, 20, 60), (5, 8, 3, 1), (6, 1, 4, 9)]
)
@pytest.mark.parametrize("turned", [True, False])
def test_bits(
    monkeypatch: pytest.MonkeyPatch, helped: bool, kind: str, count: int, m: int, k: int, n: int, turned: bool
) -> None:
    crew.compile()
    product_sums.wide_sums.compile()
    if not helped:
        monkeypatch.setattr(parallel, "crew_for", lambda work: None)
    a, b = factors(count, m, k, n, kind, turned)
    with parallel.blas_alone():
        found = sum_of_products(a, b)
        assert found is not None and found.tobytes() == one_by_one(a, b).tobytes()


def test_what_it_leaves_to_others() -> None:
    a, b = factors(4, 6, 5, 7)
    assert sum_of_products([*a[:3], a[3][:, :4]], [*b[:3], b[3][:4]]) is None, "of different sizes"
    assert sum_of_products([x[:, :1] for x in a], [y[:1] for y in b]) is None, "a column by a row"
    assert sum_of_products(a, [y.astype(np.float64) for y in b]) is None
    assert sum_of_products([x[:, :4] for x in a], b) is None, "the members say what is wrong"
    assert sum_of_products([x[:0] for x in a], b) is None
    large = np.zeros((200, 200), np.float32)
    assert sum_of_products([large] * 4, [large] * 4) is None, "each is shared out"
