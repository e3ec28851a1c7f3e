"""When two results agree: dtype, shape and values, the floats within so many units in the last place."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np


class Tolerance(NamedTuple):
    """ulps: units in the last place that floats may differ by; 0 compares bits, signed zeros included.

    scaled: a unit is that of the largest finite value of the whole result: for sums, whose terms may cancel.
    floor: a unit is at least that of this value: for what is computed by subtracting such values.
    """

    ulps: float = 0
    scaled: bool = False
    floor: float = 0


EXACT = Tolerance(0)
SAME = Tolerance(1e-9)  # equal, but a zero may have either sign
ROUNDED = Tolerance(2)  # a few correctly rounded operations in another order
FUNCTION = Tolerance(8)  # a function of the mathematical library
FUNCTION_SUM = Tolerance(32, scaled=True)  # functions summed: softmax, losses
SUM = Tolerance(8, scaled=True)  # sums in another order

REAL_OF = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}


def is_float(dtype: Any) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def as_value(value: Any) -> np.ndarray:
    """What a session gave, as an array; strings as objects."""
    if isinstance(value, (bytes, str)):
        return np.array(value.encode() if isinstance(value, str) else value, object)
    return np.asarray(value)


def difference(ours: np.ndarray, theirs: np.ndarray, tolerance: Tolerance) -> tuple[str | None, float]:
    """(what differs, or None; the worst error of floats in units in the last place)."""
    if ours.dtype != theirs.dtype:
        return f"dtype {ours.dtype} instead of {theirs.dtype}", 0.0
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}", 0.0
    if ours.dtype.kind == "c":
        return _float_difference(*map(_parts, (ours, theirs)), tolerance, np.maximum(*map(_sizes, (ours, theirs))))
    if is_float(ours.dtype):
        return _float_difference(ours.reshape(-1), theirs.reshape(-1), tolerance)
    unequal = np.argwhere(np.atleast_1d(ours != theirs))
    if not len(unequal):
        return None, 0.0
    at = tuple(unequal[0])
    return f"{np.atleast_1d(ours)[at]!r} instead of {np.atleast_1d(theirs)[at]!r} at {list(map(int, at))}", 0.0


def _parts(z: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(z).reshape(-1).view(REAL_OF[z.dtype])


def _sizes(z: np.ndarray) -> np.ndarray:
    """For both parts of each number its modulus: rounding in one part reaches the other."""
    with np.errstate(all="ignore"):
        return np.repeat(np.abs(z.reshape(-1)), 2)


def _float_difference(
    ours: np.ndarray, theirs: np.ndarray, tolerance: Tolerance, sizes: np.ndarray | None = None
) -> tuple[str | None, float]:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    info = ml_dtypes.finfo(ours.dtype)
    with np.errstate(all="ignore"):
        bad = np.isnan(a) != np.isnan(b)
        infinite = (np.isinf(a) | np.isinf(b)) & ~np.isnan(a) & ~np.isnan(b)
        bad |= infinite & (a != b)
        finite = np.isfinite(a) & np.isfinite(b)
        if not tolerance.ulps:
            bad |= finite & (np.signbit(a) != np.signbit(b))
        size = np.maximum(np.abs(a), np.abs(b)) if sizes is None else sizes.astype(np.float64)
        finite &= np.isfinite(size)
        if tolerance.scaled and finite.any():
            size = np.full_like(size, size[finite].max())
        size = np.maximum(size, tolerance.floor)
        unit = np.maximum(size * float(info.eps), float(info.smallest_normal))
        ulps = np.where(finite, np.abs(a - b) / unit, 0.0)
    bad |= ulps > tolerance.ulps
    worst = float(ulps.max()) if ulps.size else 0.0
    if not bad.any():
        return None, worst
    i = int(np.argmax(bad))
    return f"{ours[i]!r} instead of {theirs[i]!r} at flat position {i} ({ulps[i]:.1f} ulps)", worst
