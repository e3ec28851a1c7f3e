"""Sums of squares: close to the exact ones, however many, in any layout and type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.squares import sum_of_squares


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 12288, 3_000_001])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_sums_are_close_to_the_exact_ones(kind: str, count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count).astype(kind)
    found = sum_of_squares(values)
    assert found.dtype == kind
    np.testing.assert_allclose(found, np.square(values.astype(np.longdouble)).sum(), rtol=8 * np.finfo(kind).eps)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(20_000, dtype=np.float32).reshape(100, 200)[::2, ::-1],
        np.float32(3.0),
        np.arange(5, dtype=np.float16),
        np.array([1.0, np.nan], np.float32),
        np.array([1.0, np.inf], np.float32),
        np.array([3e38, 1.0], np.float32),
        np.zeros((3, 0), np.float32),
    ],
)
def test_l2_loss(values: Any) -> None:
    with np.errstate(over="ignore"):
        expected = (np.square(values).sum(dtype=values.dtype) * 0.5).astype(values.dtype)
    with tf.Session() as session:
        found = session.run(tf.nn.l2_loss(tf.placeholder_with_default(values, values.shape)))
    assert found.dtype == values.dtype and found.shape == ()
    np.testing.assert_allclose(found, expected, rtol=2e-3 if values.dtype == np.float16 else 1e-6)
