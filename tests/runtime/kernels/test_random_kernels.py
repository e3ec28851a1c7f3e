"""Uniform values drawn in several threads: the bits that one generator gives, which goes on behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.random import uniform


def _generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[5, 7]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (1 << 18,), (600_001,), (300_000, 3)])
@pytest.mark.parametrize("before", [0, 1, 2, 8])
def test_bits(shape: tuple[int, ...], dtype: Any, before: int) -> None:
    """before: float32 values drawn first, which may leave some of what Philox made at once."""
    mine, plain = _generator(), _generator()
    mine.random(before, np.float32), plain.random(before, np.float32)
    for _ in range(2):
        assert np.asarray(uniform(mine, shape, dtype)).tobytes() == np.asarray(plain.random(shape, dtype)).tobytes()
    assert mine.standard_normal(3).tobytes() == plain.standard_normal(3).tobytes()


def test_another_generator_draws_as_ever() -> None:
    mine, plain = np.random.default_rng(1), np.random.default_rng(1)
    assert uniform(mine, (600_000,), np.float32).tobytes() == plain.random(600_000, np.float32).tobytes()
