"""Floats rounded to what a few bits can hold. Source: Jacob et al. 2017."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.kernels.row_reductions import extreme
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _nudged(xp: Any, low: Any, high: Any, num_bits: int, narrow: bool) -> tuple[Any, Any, Any]:
    """(min, max, the step between two values), moved so that 0 is one of the values."""
    first, last = np.float32(narrow), np.float32(2**num_bits - 1)
    scale = (high - low) / (last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = first - low / scale
        zero = xp.where(zero < first, first, xp.where(zero > last, last, xp.floor(zero + np.float32(0.5))))
    return (first - zero) * scale, (last - zero) * scale, scale


def _rounded(xp: Any, x: Any, low: Any, high: Any, num_bits: int, narrow: bool) -> Any:
    bottom, top, scale = _nudged(xp, low, high, num_bits, narrow)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.float32(1) / scale
        zero = xp.floor(-bottom * inverse + np.float32(0.5))
        steps = xp.floor((xp.clip(x, bottom, top) - bottom) * inverse - zero + np.float32(0.5))
        found = steps * scale
    return xp.where((low == 0) & (high == 0), 0, found).astype(np.float32, copy=False)


def _grads(xp: Any, dy: Any, x: Any, low: Any, high: Any, num_bits: int, narrow: bool, axes: Any) -> Any:
    bottom, top, _ = _nudged(xp, low, high, num_bits, narrow)
    nothing = (low == 0) & (high == 0)
    inside = ((x >= bottom) & (x <= top)) | nothing
    below, above = (xp.where(cut & ~nothing, dy, 0).sum(axes) for cut in (x < bottom, x > top))
    return xp.where(inside, dy, 0).astype(np.float32, copy=False), below.astype(np.float32), above.astype(np.float32)


def _constants(low: float, high: float) -> tuple[np.float32, np.float32]:
    return np.float32(low), np.float32(high)


@kernel("FakeQuantWithMinMaxArgs")
def _args(xp: Any, x: Any, *, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False) -> Any:
    return _rounded(xp, x, *_constants(min, max), num_bits, narrow_range)


@kernel("FakeQuantWithMinMaxArgsGradient")
def _args_gradient(
    xp: Any, dy: Any, x: Any, *, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False
) -> Any:
    return _grads(xp, dy, x, *_constants(min, max), num_bits, narrow_range, None)[0]


def _bounded(op: str, channels: bool) -> None:
    @kernel(op)
    def run(xp: Any, x: Any, low: Any, high: Any, *, num_bits: int = 8, narrow_range: bool = False) -> Any:
        wanted = np.shape(x)[-1:] if channels else ()
        if np.shape(low) != wanted or np.shape(high) != wanted or bool((low > high).any()):
            raise InvalidArgumentError(
                f"{op}: min and max must have shape {list(wanted)} and min not be above max, got {low} and {high}"
            )
        return _rounded(xp, x, low, high, num_bits, narrow_range)


_bounded("FakeQuantWithMinMaxVars", False)
_bounded("FakeQuantWithMinMaxVarsPerChannel", True)


@kernel("FakeQuantWithMinMaxVarsGradient", multi=True)
def _vars_gradient(
    xp: Any, dy: Any, x: Any, low: Any, high: Any, *, num_bits: int = 8, narrow_range: bool = False
) -> Any:
    return _grads(xp, dy, x, low, high, num_bits, narrow_range, None)


@kernel("FakeQuantWithMinMaxVarsPerChannelGradient", multi=True)
def _channels_gradient(
    xp: Any, dy: Any, x: Any, low: Any, high: Any, *, num_bits: int = 8, narrow_range: bool = False
) -> Any:
    return _grads(xp, dy, x, low, high, num_bits, narrow_range, tuple(range(x.ndim - 1)))


# ---------------------------------------------------------------------- one step for all


def _along(x: Any, bound: Any, axis: int) -> Any:
    """A bound for each part along the axis, in x's rank."""
    if axis == -1:
        return bound
    return bound.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


@kernel("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def _there_and_back(
    xp: Any, x: Any, input_min: Any, input_max: Any, *, signed_input: bool = True, num_bits: int = 8,
    range_given: bool = False, round_mode: Any = "HALF_TO_EVEN", narrow_range: bool = False, axis: int = -1,
) -> Any:  # fmt: skip
    if not 0 < num_bits < (62 if signed_input else 63):
        raise InvalidArgumentError(f"QuantizeAndDequantize: num_bits is out of range: {num_bits}")
    mode = round_mode.decode() if isinstance(round_mode, bytes) else round_mode
    if range_given:
        low, high = _along(x, input_min, axis), _along(x, input_max, axis)
        if bool((low > high).any()):
            raise InvalidArgumentError(f"Invalid range: input_min {input_min} > input_max {input_max}")
    else:
        axes = None if axis == -1 else tuple(i for i in range(x.ndim) if i != axis)
        low, high = (extreme(xp, name, x, axes, axis != -1, end) for name, end in (("min", np.inf), ("max", -np.inf)))
    kind = x.dtype.type
    first = kind(-(2 ** (num_bits - 1)) + narrow_range if signed_input else 0)
    last = kind(2 ** (num_bits - 1) - 1 if signed_input else 2**num_bits - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_low = xp.where(first * low > 0, first / low, np.finfo(x.dtype).max)
        by_high = xp.where(last * high > 0, last / high, np.finfo(x.dtype).max)
        uses_low = by_low < by_high
        scale = xp.where(uses_low, by_low, by_high).astype(x.dtype)
        inverse = xp.where(uses_low, low / first, high / last).astype(x.dtype)
    bottom = xp.where(uses_low, low, first * inverse).astype(x.dtype)
    top = xp.where(uses_low, last * inverse, high).astype(x.dtype)
    steps = (xp.clip(x, bottom, top) if range_given else x) * scale
    rounded = xp.rint(steps) if mode == "HALF_TO_EVEN" else xp.floor(steps + kind(0.5))
    return (rounded * inverse).astype(x.dtype, copy=False)


@kernel("QuantizeAndDequantizeV4Grad", multi=True)
def _there_and_back_grad(xp: Any, dy: Any, x: Any, input_min: Any, input_max: Any, *, axis: int = -1) -> Any:
    low, high = _along(x, input_min, axis), _along(x, input_max, axis)
    return xp.where((x >= low) & (x <= high), dy, 0), xp.zeros_like(input_min), xp.zeros_like(input_max)
