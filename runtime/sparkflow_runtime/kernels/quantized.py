"""Floats as integers of few bits and back: each tensor goes with the least and the largest float it stands for.

Where integers come from floats outside their range, the nearest of them is taken. All is computed in float32, as the
results of 32 bits are those of TensorFlow only so. Source: Jacob et al. 2017; TensorFlow's documentation of QuantizeV2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.dtypes import DType, float32
from sparkflow_runtime.wire.errors import InvalidArgumentError

F = np.float32
_NONE = np.finfo(F).max  # of two scales the smaller counts: this one never does


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _away(xp: Any, x: Any) -> Any:
    """The nearest whole number, of two as near the one that is further from 0."""
    return xp.trunc(x + xp.copysign(np.nextafter(x.dtype.type(0.5), x.dtype.type(0)), x))


def _whole(xp: Any, x: Any, kind: Any) -> Any:
    """x, whose values kind can nearly hold: the float next to its last integer may be beyond that."""
    if np.dtype(kind).itemsize < 4:
        return x.astype(xp.int32).astype(kind)
    with np.errstate(invalid="ignore"):
        return xp.where(x >= F(2**31), np.int32(-(2**31)), x.astype(xp.int32))  # as x86's instructions have it


def _normal(xp: Any, x: Any) -> Any:
    """0 for what is too small to have all its digits, as TensorFlow's kernels leave none of it."""
    return xp.where(abs(x) < np.finfo(F).tiny, F(0), x)


def _ends(op: str, x: Any, low: Any, high: Any, axis: int) -> tuple[Any, Any]:
    """Both in the rank of x. Raises InvalidArgumentError on ranges that are none."""
    wanted = () if axis == -1 else (x.shape[axis],)
    for name, end in (("min_range", low), ("max_range", high)):
        if np.shape(end) != wanted and np.size(end) != int(np.prod(wanted)):
            raise InvalidArgumentError(
                f"{op}: {name} must be of shape {list(wanted)} for an input of shape {list(x.shape)} and axis {axis}, "
                f"got shape {list(np.shape(end))}"
            )
    if bool((high < low).any()):
        raise InvalidArgumentError(f"{op}: max_range must be larger than min_range, got {high} and {low}")
    sizes = [-1 if i == axis else 1 for i in range(x.ndim)] if axis != -1 else []
    return low.reshape(sizes), high.reshape(sizes)


# ---------------------------------------------------------------------- to integers


def _combined(xp: Any, x: Any, low: Any, high: Any, kind: np.dtype[Any]) -> Any:
    info = np.iinfo(kind)
    scale = (F(info.max - info.min) / (high - low)).astype(F)
    steps = (xp.clip(x, low, high) - low) * scale
    if not info.min:
        return (steps + F(0.5)).astype(kind)
    return _whole(xp, _away(xp, steps - F((info.max - info.min + 1) // 2)), kind)


def _first(xp: Any, x: Any, low: Any, high: Any, kind: np.dtype[Any]) -> Any:
    info = np.iinfo(kind)
    scale = ((2.0 ** (8 * kind.itemsize) - 1) / (high - low).astype(np.float64)).astype(F)
    offset = _away(xp, low * scale) - F(info.min)
    steps = _away(xp, x * scale) - offset
    return xp.clip(steps, F(info.min), F(min(info.max, 2147483520))).astype(xp.int32).astype(kind)


def _scaled(xp: Any, x: Any, low: Any, high: Any, kind: np.dtype[Any], narrow: bool, even: bool) -> Any:
    """(integers, the range's ends): 0 stays 0."""
    least, most = F(np.iinfo(kind).min + narrow), F(np.iinfo(kind).max)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_low = xp.where(least * low > 0, least / low, _NONE)
        by_high = xp.where(most * high > 0, most / high, _NONE)
    scale = xp.minimum(by_low, by_high).astype(F)
    bottom, top = _normal(xp, least / scale), most / scale
    steps = xp.clip(x, bottom, top) * scale
    return _whole(xp, xp.rint(steps) if even else _away(xp, steps), kind), bottom, top


def _quantized(xp: Any, x: Any, low: Any, high: Any, kind: Any, mode: str, narrow: bool, even: bool) -> Any:
    if mode == "SCALED":
        return _scaled(xp, x, low, high, kind, narrow, even)
    return (_combined if mode == "MIN_COMBINED" else _first)(xp, x, low, high, kind), low, high


@kernel("QuantizeV2", multi=True)
def _quantize(
    xp: Any, x: Any, min_range: Any, max_range: Any, *, T: DType, mode: Any = "MIN_COMBINED",
    round_mode: Any = "HALF_AWAY_FROM_ZERO", narrow_range: bool = False, axis: int = -1,
    ensure_minimum_range: float = 0.01,
) -> Any:  # fmt: skip
    low, high = _ends("QuantizeV2", x, xp.asarray(min_range), xp.asarray(max_range), axis)
    apart = xp.maximum(F(1), xp.maximum(abs(low), abs(high))) * F(ensure_minimum_range)
    low = xp.minimum(F(0), low)
    high = xp.maximum(F(0), xp.maximum(high, low + apart))
    even = _text(round_mode) == "HALF_TO_EVEN"
    made, low, high = _quantized(xp, x, low, high, T.np, _text(mode), narrow_range, even)
    ends = () if axis == -1 else (x.shape[axis],)
    return made, xp.asarray(low, dtype=F).reshape(ends), xp.asarray(high, dtype=F).reshape(ends)


# ---------------------------------------------------------------------- to floats


def _floats(xp: Any, x: Any, low: Any, high: Any, mode: str, narrow: bool = False) -> Any:
    info = np.iinfo(x.dtype)
    if mode == "MIN_COMBINED":
        scale = (high - low) / (F(info.max) - F(info.min))
        return (x.astype(F) + F((info.max - info.min + 1) // 2 if info.min else 0)) * scale + low
    if mode == "MIN_FIRST":
        scale = ((high - low).astype(np.float64) / (2.0 ** (8 * x.itemsize) - 1)).astype(F)
        with np.errstate(divide="ignore", invalid="ignore"):
            rounded = xp.where(high == low, low, _away(xp, low / scale) * scale).astype(F)
        return (rounded - F(info.min) * scale) + x.astype(F) * scale
    scale = _normal(xp, high / F(info.max))
    return x.astype(F) * (xp.maximum(low / F(info.min + narrow), scale) if info.min else scale)


@kernel("Dequantize")
def _dequantize(
    xp: Any, x: Any, min_range: Any, max_range: Any, *, mode: Any = "MIN_COMBINED", narrow_range: bool = False,
    axis: int = -1, dtype: DType = float32,
) -> Any:  # fmt: skip
    low, high = _ends("Dequantize", x, xp.asarray(min_range), xp.asarray(max_range), axis)
    return _floats(xp, x, low, high, _text(mode), narrow_range).astype(dtype.np, copy=False)


# ---------------------------------------------------------------------- integers as they are


def _one(value: float, low: Any, high: Any, kind: Any) -> Any:
    """A float's integer, in the range of a tensor's."""
    info, steps = np.iinfo(kind), 2.0 ** (8 * np.dtype(kind).itemsize)
    if low == high:
        return np.dtype(kind).type(min(max(0, info.min), info.max))
    scale = steps / (float(F(high) - F(low)) * (steps / (steps - 1)))
    found = int(_away(np, np.float64(value * scale))) - int(_away(np, np.float64(low * scale))) + info.min
    return np.dtype(kind).type(min(max(found, info.min), info.max))


def _relu(op: str, most: float | None) -> None:
    @kernel(op, multi=True)
    def run(xp: Any, x: Any, *ends: Any, out_type: DType | None = None) -> Any:
        top, low, high = ends if len(ends) == 3 else (most, *ends)
        found = xp.maximum(x, _one(0.0, low, high, x.dtype))
        return (found if top is None else xp.minimum(found, _one(float(top), low, high, x.dtype))), low, high


_relu("QuantizedRelu", None)
_relu("QuantizedRelu6", 6.0)
_relu("QuantizedReluX", None)


@kernel("QuantizedReshape", multi=True, aliases=True)
def _reshape(xp: Any, x: Any, shape: Any, low: Any, high: Any) -> Any:
    return x.reshape([int(n) for n in shape]), low, high


@kernel("QuantizedConcat", multi=True)
def _concat(xp: Any, axis: Any, *given: Any) -> Any:
    """The parts in one range that holds all of theirs, and 0: of signed integers as far below 0 as above."""
    count = len(given) // 3
    parts, lows, highs = given[:count], given[count : 2 * count], given[2 * count :]
    low, high = F(min(0.0, *map(float, lows))), F(max(map(float, highs)))
    if np.iinfo(parts[0].dtype).min:
        high = max(-low, high)
        low = -high
    made = [
        x if (a, b) == (low, high) else _first(xp, _floats(xp, x, a, b, "MIN_FIRST"), low, high, x.dtype)
        for x, a, b in zip(parts, lows, highs)
    ]
    return xp.concatenate(made, int(axis)), xp.asarray(low), xp.asarray(high)
