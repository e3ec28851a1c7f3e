"""Floats rounded to what a few bits can hold, for training that knows of it. Source: Jacob et al. 2017."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _checked(op: Operation) -> list[Dims]:
    """The shape of the input. Raises InvalidArgumentError on bits or bounds that make no sense."""
    bits = op.attrs["num_bits"]
    if not 2 <= bits <= 16:
        raise InvalidArgumentError(f"{op.type}: num_bits must be between 2 and 16, inclusive, got {bits}")
    if "min" in op.attrs and not op.attrs["min"] < op.attrs["max"]:
        raise InvalidArgumentError(
            f"{op.type}: min has to be smaller than max, was: {op.attrs['min']} >= {op.attrs['max']}"
        )
    x = op.inputs[1] if op.type.endswith("Gradient") else op.inputs[0]
    dims = x._shape
    if op.type.endswith("Gradient"):
        dims = shapes.merge(dims, op.inputs[0]._shape)
    return [dims]


def _bounded(op: Operation) -> list[Dims]:
    """As `_checked`, with bounds as inputs: scalars, or one for each channel."""
    gradient, channels = op.type.endswith("Gradient"), "PerChannel" in op.type
    dims = _checked(op)[0]
    bounds: Dims = (None,) if channels else ()
    if channels and dims is not None:
        if not dims:
            raise InvalidArgumentError(f"{op.type}: inputs must have channels, got a scalar")
        bounds = dims[-1:]
    for name, tensor in zip(("min", "max"), op.inputs[-2:], strict=True):
        if not shapes.compatible(tensor._shape, bounds):
            raise InvalidArgumentError(
                f"{op.type}: {name} must have shape {shapes.show(bounds)} for inputs {shapes.show(dims)}, got shape "
                f"{shapes.show(tensor._shape)}"
            )
        bounds = shapes.merge(bounds, tensor._shape)
    if channels and dims is not None:
        dims = (*dims[:-1], *(bounds or (None,)))
    return [dims, bounds, bounds] if gradient else [dims]


_BITS: dict[str, Any] = {"num_bits": 8, "narrow_range": False}
op("FakeQuantWithMinMaxArgs", "inputs: float32 -> outputs: float32", _checked, min=-6.0, max=6.0, **_BITS)
op(
    "FakeQuantWithMinMaxArgsGradient",
    "gradients: float32, inputs: float32 -> backprops: float32",
    _checked,
    min=-6.0,
    max=6.0,
    **_BITS,
)
for _kind in ("", "PerChannel"):
    op(
        f"FakeQuantWithMinMaxVars{_kind}",
        "inputs: float32, min: float32, max: float32 -> outputs: float32",
        _bounded,
        **_BITS,
    )
    op(
        f"FakeQuantWithMinMaxVars{_kind}Gradient",
        "gradients: float32, inputs: float32, min: float32, max: float32 -> backprops_wrt_input: float32, "
        "backprop_wrt_min: float32, backprop_wrt_max: float32",
        _bounded,
        **_BITS,
    )


def _range(op: Operation, values: Tensor, ends: Sequence[Tensor]) -> Dims:
    """The shape of the range's ends: one for all values, or one for each of their slices along axis."""
    axis, dims = op.attrs["axis"], values._shape
    wanted: Dims = () if axis == -1 else (None if dims is None or axis >= len(dims) else dims[axis],)
    for name, tensor in zip(("input_min", "input_max"), ends, strict=True):
        found = rules.require_rank(op, name, tensor, len(wanted or ()))
        if not shapes.compatible(found, wanted):
            raise InvalidArgumentError(
                f"Dimensions must be equal: {op.type} of {shapes.show(dims)} along axis {axis} takes {name} of shape "
                f"{shapes.show(wanted)}, got {shapes.show(found)}"
            )
    return wanted


def _ranged(op: Operation) -> list[Dims]:
    _range(op, op.inputs[0], op.inputs[1:3])
    return [op.inputs[0]._shape]


def _ranged_gradient(op: Operation) -> list[Dims]:
    ends = _range(op, op.inputs[1], op.inputs[2:4])
    return [op.inputs[0]._shape, ends, ends]


_RANGED = "input: T, input_min: T, input_max: T -> output: T"
_ROUND: dict[str, Any] = {"round_mode": "HALF_TO_EVEN", "narrow_range": False, "axis": -1}
op(
    "QuantizeAndDequantizeV2", _RANGED, _ranged, signed_input=True, num_bits=8, range_given=False, **_ROUND
)  # fmt: skip
op(
    "QuantizeAndDequantizeV4", _RANGED, _ranged, signed_input=True, num_bits=8, range_given=False, **_ROUND
)  # fmt: skip
op(
    "QuantizeAndDequantizeV4Grad",
    "gradients: T, input: T, input_min: T, input_max: T -> input_backprop: T, input_min_backprop: T, "
    "input_max_backprop: T",
    _ranged_gradient,
    axis=-1,
)


def _attrs(num_bits: int, narrow_range: bool, **more: Any) -> dict[str, Any]:
    return {"num_bits": num_bits, "narrow_range": narrow_range, **more}


def fake_quant_with_min_max_args(
    inputs: Any, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """inputs cut to [min, max] and rounded to the nearest of 2^num_bits values, one of them 0 (2^num_bits - 1 of them
    with narrow_range). Gradients go through where nothing was cut."""
    attrs = _attrs(num_bits, narrow_range, min=float(min), max=float(max))
    return apply_op("FakeQuantWithMinMaxArgs", [inputs], attrs, name)


def fake_quant_with_min_max_args_gradient(
    gradients: Any, inputs: Any, min: float = -6, max: float = 6, num_bits: int = 8, narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The gradients where inputs were not cut."""
    attrs = _attrs(num_bits, narrow_range, min=float(min), max=float(max))
    return apply_op("FakeQuantWithMinMaxArgsGradient", [gradients, inputs], attrs, name)


def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """As fake_quant_with_min_max_args, with bounds that are learnt: what was cut is their gradient."""
    return apply_op("FakeQuantWithMinMaxVars", [inputs, min, max], _attrs(num_bits, narrow_range), name)


def fake_quant_with_min_max_vars_gradient(
    gradients: Any, inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The gradients of the inputs, of min and of max."""
    attrs = _attrs(num_bits, narrow_range)
    return apply_op("FakeQuantWithMinMaxVarsGradient", [gradients, inputs, min, max], attrs, name)


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """As fake_quant_with_min_max_vars, with bounds [channels] for inputs [..., channels]."""
    return apply_op("FakeQuantWithMinMaxVarsPerChannel", [inputs, min, max], _attrs(num_bits, narrow_range), name)


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any, inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The gradients of the inputs, of min and of max."""
    attrs = _attrs(num_bits, narrow_range)
    return apply_op("FakeQuantWithMinMaxVarsPerChannelGradient", [gradients, inputs, min, max], attrs, name)


def quantize_and_dequantize(
    input: Any, input_min: Any, input_max: Any, signed_input: bool = True, num_bits: int = 8, range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN", name: str | None = None, narrow_range: bool = False, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """input rounded to multiples of one step, so that the larger of |input_min| and |input_max| (of the input's own
    extremes unless range_given) is the last that num_bits hold. axis: bounds for each part along it.

    round_mode: "HALF_TO_EVEN" or "HALF_UP". The gradient passes through all of it.
    """
    attrs = _attrs(
        num_bits, narrow_range, signed_input=signed_input, range_given=range_given, round_mode=round_mode,
        axis=-1 if axis is None else axis,
    )  # fmt: skip
    return apply_op("QuantizeAndDequantizeV2", [input, input_min, input_max], attrs, name)


def quantize_and_dequantize_v2(
    input: Any, input_min: Any, input_max: Any, signed_input: bool = True, num_bits: int = 8, range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN", name: str | None = None, narrow_range: bool = False, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """As quantize_and_dequantize; the gradient passes through what lies between the bounds alone."""
    attrs = _attrs(
        num_bits, narrow_range, signed_input=signed_input, range_given=range_given, round_mode=round_mode,
        axis=-1 if axis is None else axis,
    )  # fmt: skip
    return apply_op("QuantizeAndDequantizeV4", [input, input_min, input_max], attrs, name)
