"""Floats as integers of few bits and back. Source: Jacob et al. 2017."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array_join, array_rules, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

QUANTIZED = (dtypes.qint8, dtypes.quint8, dtypes.qint32, dtypes.qint16, dtypes.quint16)
_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _ranged(op: Operation) -> tuple[Dims, Dims]:
    """The shapes of the values and of each end of their range."""
    mode, even = op.attrs["mode"], op.attrs.get("round_mode") == "HALF_TO_EVEN"
    if mode not in _MODES:
        raise ValueError(f"{op.type}: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if even and mode != "SCALED":
        raise InvalidArgumentError(
            f"{op.type}: round_mode HALF_TO_EVEN is of mode SCALED alone, got mode {mode!r}. Leave round_mode out"
        )
    dims, axis = op.inputs[0]._shape, op.attrs["axis"]
    if axis < -1 or (dims is not None and axis >= len(dims)):
        raise InvalidArgumentError(f"{op.type}: axis must be -1 or one of an input {shapes.show(dims)}, got {axis}")
    ends: Dims = () if axis == -1 else (None if dims is None else dims[axis],)
    for what, tensor in zip(("min_range", "max_range"), op.inputs[1:], strict=True):
        found = rules.require_rank(op, what, tensor, len(ends or ()))
        if not shapes.compatible(found, ends):
            raise InvalidArgumentError(
                f"{op.type}: {what} must be of shape {shapes.show(ends)} along axis {axis} of {shapes.show(dims)}, got "
                f"{shapes.show(found)}"
            )
    return dims, ends


def _quantized_rule(op: Operation) -> list[Dims]:
    dims, ends = _ranged(op)
    return [dims, ends, ends]


def _first_and_scalars(op: Operation) -> list[Dims]:
    return [op.inputs[0]._shape, (), ()]


def _relu_rule(op: Operation) -> list[Dims]:
    given, wanted = op.inputs[0].dtype.base_dtype, op.attrs["out_type"]
    if given != wanted:
        raise InvalidArgumentError(
            f"{op.type}: out_type must be the type of the features, {given.name}, got {wanted.name}"
        )
    return _first_and_scalars(op)


def _reshaped_and_scalars(op: Operation) -> list[Dims]:
    return [*array_rules.reshape(op), (), ()]


def _concat_rule(op: Operation) -> list[Dims]:
    return [*array_join.joined(op, op.inputs[1 : 1 + op.attrs["N"]], op.inputs[0]), (), ()]


_ENDS = "min_range: float32, max_range: float32"
_MODE: dict[str, Any] = {"mode": "MIN_COMBINED", "narrow_range": False, "axis": -1}
op(
    "QuantizeV2", f"input: float32, {_ENDS} -> output: T, output_min: float32, output_max: float32", _quantized_rule,
    round_mode="HALF_AWAY_FROM_ZERO", ensure_minimum_range=0.01, **_MODE,
)  # fmt: skip
op("Dequantize", f"input: T, {_ENDS} -> output: dtype", lambda op: [_ranged(op)[0]], dtype=dtypes.float32, **_MODE)
op(
    "QuantizedConcat",
    "concat_dim: int32, values: N * T, input_mins: N * float32, input_maxes: N * float32 -> output: T, "
    "output_min: float32, output_max: float32",
    _concat_rule,
)
op(
    "QuantizedReshape",
    "tensor: T, shape: Tshape, input_min: float32, input_max: float32 -> output: T, output_min: float32, "
    "output_max: float32",
    _reshaped_and_scalars,
    Tshape=dtypes.int32,
)
_RELU = "min_features: float32, max_features: float32 -> activations: out_type, min_activations: float32, "
_RELU += "max_activations: float32"
for _name, _more in (("QuantizedRelu", ""), ("QuantizedRelu6", ""), ("QuantizedReluX", "max_value: float32, ")):
    op(_name, f"features: Tinput, {_more}{_RELU}", _relu_rule, out_type=dtypes.quint8)


def quantize_v2(
    input: Any, min_range: Any, max_range: Any, T: Any, mode: str = "MIN_COMBINED", name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO", narrow_range: bool = False, axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:  # fmt: skip
    """(input as integers of type T, and the ends of the range they stand for): min_range is the least of T's integers,
    max_range the largest. axis: a range for each part along it.

    mode: "MIN_COMBINED" scales and shifts; "MIN_FIRST" rounds where the range begins as well, so that 0 is met;
    "SCALED" only scales.
    """
    attrs = {
        "T": dtypes.as_dtype(T), "mode": mode, "round_mode": round_mode, "narrow_range": narrow_range,
        "axis": -1 if axis is None else axis, "ensure_minimum_range": float(ensure_minimum_range),
    }  # fmt: skip
    return apply_op("QuantizeV2", [input, min_range, max_range], attrs, name)


def quantize(
    input: Any, min_range: Any, max_range: Any, T: Any, mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO", name: str | None = None, narrow_range: bool = False,
    axis: int | None = None, ensure_minimum_range: float = 0.01,
) -> Any:  # fmt: skip
    """As quantize_v2, with other places for round_mode and name."""
    return quantize_v2(
        input, min_range, max_range, T, mode, name, round_mode, narrow_range, axis, ensure_minimum_range
    )  # fmt: skip


def dequantize(
    input: Any, min_range: Any, max_range: Any, mode: str = "MIN_COMBINED", name: str | None = None,
    axis: int | None = None, narrow_range: bool = False, dtype: Any = dtypes.float32,
) -> Tensor:  # fmt: skip
    """The floats that quantize's integers stand for, in the range it gave beside them."""
    attrs = {
        "mode": mode, "narrow_range": narrow_range, "axis": -1 if axis is None else axis,
        "dtype": dtypes.as_dtype(dtype),
    }  # fmt: skip
    return apply_op("Dequantize", [input, min_range, max_range], attrs, name)


def quantized_concat(
    concat_dim: Any, values: Sequence[Any], input_mins: Sequence[Any], input_maxes: Sequence[Any],
    name: str | None = None,
) -> Any:  # fmt: skip
    """quantize's integers of several ranges joined along an axis, in one range that holds all: (values, min, max)."""
    return apply_op("QuantizedConcat", [concat_dim, list(values), list(input_mins), list(input_maxes)], name=name)


def quantized_relu_x(
    features: Any, max_value: Any, min_features: Any, max_features: Any, out_type: Any = dtypes.quint8,
    name: str | None = None,
) -> Any:  # fmt: skip
    """quantize's integers cut to what stands for 0 to max_value: (values, min, max)."""
    inputs = [features, max_value, min_features, max_features]
    return apply_op("QuantizedReluX", inputs, {"out_type": dtypes.as_dtype(out_type)}, name)
