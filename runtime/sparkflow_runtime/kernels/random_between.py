"""Normal values between limits, drawn again until they lie there, as one thread of TensorFlow draws them.

All draw from one stream: those of the first parameters, and where these end those of the next. Sources: Robert 1995,
"Simulation of truncated normal variables"; TensorFlow's parameterized_truncated_normal_op.cc for the order of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.wire.errors import InvalidArgumentError

_WIDE = 1.3  # deviations that a limit lies beyond the mean where values are drawn as if there were none
_AT_ONCE = 1 << 14  # blocks
_BARREN = 100  # times that some are tried and none is accepted
_Try = Callable[[philox.Stream, int], tuple[np.ndarray, np.ndarray]]  # -> [blocks, n] values, whether each is accepted


def between(stream: philox.Stream, given: Sequence[np.ndarray], count: int, dtype: Any) -> np.ndarray:
    """[count, n]. given: means, deviations, lowest and highest values, float64 [n]; worked out in dtype."""
    out, used = np.empty((len(given[0]), count), dtype), 0
    for row, *parameters in zip(out, *(x.astype(dtype) for x in given)):
        used += _fill(row, stream.at(used), *parameters) if count else 0
    return out.T


def _fill(row: np.ndarray, stream: philox.Stream, mean: Any, deviation: Any, low: Any, high: Any) -> int:
    """How many blocks it took."""
    if low == -np.inf or high < mean:  # the open side, or the longer tail, is the upper one
        low, high, deviation = high, low, -deviation
    per_block, attempt = _way((low - mean) / deviation, (high - mean) / deviation, row.dtype)
    filled, used, barren = 0, 0, 0
    while filled < len(row):
        if barren > _BARREN:  # every way that is taken accepts a third of its tries, or more
            raise InvalidArgumentError(
                f"StatelessParameterizedTruncatedNormal: {row.dtype} has no values between {low} and {high} of mean "
                f"{mean} and deviation {abs(deviation)}. Give limits that are nearer to the mean"
            )
        blocks = min(_AT_ONCE, (len(row) - filled) // 2 + 8)
        found, good = attempt(stream.at(used * per_block), blocks)
        places = np.flatnonzero(good)[: len(row) - filled]
        row[filled : filled + len(places)] = found.reshape(-1)[places] * deviation + mean
        filled, barren = filled + len(places), 0 if len(places) else barren + 1
        used += blocks if filled < len(row) else int(places[-1]) // found.shape[1] + 1
    return used * per_block


def _way(low: Any, high: Any, dtype: np.dtype) -> tuple[int, _Try]:
    """How values between these limits, in deviations, are tried, and how many blocks of words each try takes."""
    half, two, four = (dtype.type(x) for x in (0.5, 2, 4))
    root = np.sqrt(low * low + four)
    if (low < -_WIDE and high >= 0) or (high > _WIDE and low <= 0):
        return 1, _normal(low, high, dtype)
    if high - low < two * np.exp(half + low * (low - root) / four) / (low + root):
        return 2, _even(low, high, dtype)
    return 1, _exponential(low, high, (low + root) / two, dtype)


def _normal(low: Any, high: Any, dtype: np.dtype) -> _Try:
    def attempt(stream: philox.Stream, blocks: int) -> tuple[np.ndarray, np.ndarray]:
        found = philox.normal(stream, (blocks, _per_block(dtype)), dtype)
        return found, (found >= low) & (found <= high)

    return attempt


def _even(low: Any, high: Any, dtype: np.dtype) -> _Try:
    """A block of places, and one that says which of them stay."""
    top = dtype.type(0) if low < 0 else low * low

    def attempt(stream: philox.Stream, blocks: int) -> tuple[np.ndarray, np.ndarray]:
        even = philox.uniform(stream, (blocks, 2, _per_block(dtype)), dtype)
        found = even[:, 0] * (high - low) + low
        return found, even[:, 1] <= np.exp((top - found * found) / dtype.type(2))

    return attempt


def _exponential(low: Any, high: Any, rate: Any, dtype: np.dtype) -> _Try:
    """A number makes a place, the next one says whether it stays."""

    def attempt(stream: philox.Stream, blocks: int) -> tuple[np.ndarray, np.ndarray]:
        even = philox.uniform(stream, (blocks, _per_block(dtype)), dtype)
        with np.errstate(divide="ignore", over="ignore"):  # infinite is beyond each limit
            found = -np.log(even[:, 0::2]) / rate + low
            x = rate - found if low < rate else low - rate
            return found, (even[:, 1::2] <= np.exp(-x * x / dtype.type(2))) & (found < high)

    return attempt


def _per_block(dtype: np.dtype) -> int:
    return 2 if dtype == np.float64 else 4
