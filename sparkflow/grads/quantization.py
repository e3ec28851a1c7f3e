"""Gradients of rounding: straight through, but for what was cut off at the bounds. Source: Bengio et al. 2013."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable


def _bits(op: Operation, *more: str) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("num_bits", "narrow_range", *more)}


@gradient("FakeQuantWithMinMaxArgs")
def _args(op: Operation, dy: Tensor) -> Tensor:
    return apply_op("FakeQuantWithMinMaxArgsGradient", [dy, op.inputs[0]], _bits(op, "min", "max"))


@gradient("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _vars(op: Operation, dy: Tensor) -> Any:
    return tuple(apply_op(f"{op.type}Gradient", [dy, *op.inputs], _bits(op)))


not_differentiable(
    *(f"FakeQuantWithMinMax{kind}Gradient" for kind in ("Args", "Vars", "VarsPerChannel")),
)

gradient("QuantizeAndDequantizeV2")(lambda op, dy: (dy, None, None))


@gradient("QuantizeAndDequantizeV4")
def _there_and_back(op: Operation, dy: Tensor) -> Any:
    return tuple(apply_op("QuantizeAndDequantizeV4Grad", [dy, *op.inputs], {"axis": op.attrs["axis"]}))


@gradient("QuantizeAndDequantizeV4Grad")
def _there_and_back_grad(op: Operation, d: Tensor, *_: Tensor) -> Any:
    """Linear in the gradients, and its own transpose."""
    found = apply_op("QuantizeAndDequantizeV4Grad", [d, *op.inputs[1:]], {"axis": op.attrs["axis"]})
    return found[0], None, None, None


not_differentiable(
    *("Dequantize", "QuantizeV2", "QuantizedConcat", "QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"),
    "QuantizedReshape",
)
not_differentiable("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation", "SetSize")
