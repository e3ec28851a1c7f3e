"""Uniform values drawn in several threads: the bits that one generator gives, which goes on behind them. Classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import random
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


@pytest.mark.parametrize("count, classes", [(1, 1), (1, 50), (7, 9), (0, 3)])
def test_classes_are_the_same_however_they_are_found(monkeypatch: pytest.MonkeyPatch, count: int, classes: int) -> None:
    logits = np.random.default_rng(1).normal(0, 3, (40, classes)).astype(np.float32)
    logits[3], logits[5, 0], logits[6, -1] = -np.inf, np.inf, np.nan
    found = []
    for few in (0, 1 << 12):
        monkeypatch.setattr(random, "_FEW", few)
        found.append(random.drawn_classes("here", np.random.default_rng(2), logits, np.int32(count), np.int64))
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (40, count) and ((found[0] >= 0) & (found[0] < classes)).all()
