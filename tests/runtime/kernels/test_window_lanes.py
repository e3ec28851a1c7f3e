"""Pools whose outputs go through their windows in registers: the bits of the numpy versions, whatever the channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import max_pool_loops, window_loops
from sparkflow_runtime.kernels.windows import Window
from sparkflow_runtime.wire.windows import slide


def _window(drawn: Any, once: bool) -> Window:
    size = tuple(drawn.integers(1, [6, 12, 12]).tolist())
    taps = tuple(min(n, int(t)) for n, t in zip(size, drawn.integers(1, [4, 5, 5])))
    strides = taps if once else tuple(drawn.integers(1, 4, 3).tolist())
    out, before, after = zip(*(slide(*of, 1, "SAME") for of in zip(size, taps, strides)))
    return Window(size, taps, strides, (1, 1, 1), before, after, out)


def _numbers(drawn: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Ties, zeros of both signs, NaN and infinities among them."""
    x = drawn.integers(-3, 4, shape).astype(dtype) * drawn.choice([-1.0, 1.0], shape).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        x[drawn.random(shape) < 0.05] = value
    return x


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Which of its many NaNs a processor makes is not told."""
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("once", [False, True])
def test_any_channels_and_windows(dtype: Any, once: bool) -> None:
    drawn = np.random.default_rng(7)
    loops = (
        max_pool_loops.maxima,
        max_pool_loops.spread_to_maxima,
        window_loops.means,
        window_loops.spread_means,
    )
    compiled = [loop.compile() for loop in loops]
    for channels in [*range(1, 20), 24, 31, 32, 33, 47, 64, 70] * 4:
        win = _window(drawn, once)
        x, plain = _numbers(drawn, (3, *win.size, channels), dtype), drawn.standard_normal((3, *win.size, channels))
        dy, sizes = drawn.standard_normal((3, *win.out, channels)).astype(dtype), np.array([*win.size, channels])
        results = []
        for maxima, spread, means, spread_means in ([loop.numpy for loop in loops], compiled):
            y, dx = np.full_like(dy, np.finfo(dtype).min), np.full_like(x, 7 if once else 0)
            maxima(x.reshape(-1), y.reshape(-1), win.numbers, sizes, 0, 3)
            spread(x.reshape(-1), dy.reshape(-1), dx.reshape(-1), int(once), win.numbers, sizes, 0, 3)
            mean, shares = np.zeros_like(dy), np.zeros_like(x)
            with np.errstate(invalid="ignore"):
                means(plain.astype(dtype), mean, win.numbers, 1, 3)
            spread_means(dy, shares, win.numbers, 0, 2)
            results.append((y, dx, mean, shares))
        for of_numpy, of_lanes in zip(*results):
            assert _same(of_numpy, of_lanes), (win, channels)
