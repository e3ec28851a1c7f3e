"""Gradients of windows laid out as columns, of morphology, and of pools with windows of changing sizes."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array, array_join, math, math_reduce
from sparkflow_runtime.wire import dtypes


@gradient("ExtractImagePatches", "ExtractVolumePatches")
def _patches(op: Operation, dy: Tensor) -> Tensor:
    """Each cell gets the sum of what came of its copies. Patches of the cells' numbers say which those are; 0 is
    padding."""
    x = op.inputs[0]
    attrs: dict[str, Any] = {
        name: op.attrs[name] for name in ("ksizes", "strides", "rates", "padding") if name in op.attrs
    }
    whole = array.shape(x)
    space, ends = whole[1:-1], (whole[:1], whole[-1:])
    count = math_reduce.reduce_prod(space)
    numbers = array.reshape(math.range(1, count + 1), array_join.concat([[1], space, [1]], 0))
    owners = array.reshape(apply_op(op.type, [numbers], attrs), [-1])
    rows = array.reshape(dy, array_join.concat([ends[0], [-1], ends[1]], 0))  # [batch, places * taps, channels]
    flat = array.reshape(array.transpose(rows, [1, 0, 2]), array_join.concat([array.shape(rows)[1:2], [-1]], 0))
    sums = math_reduce.unsorted_segment_sum(flat, owners, count + 1)[1:]
    placed = array.reshape(sums, array_join.concat([array.reshape(count, [1]), *ends], 0))
    return array.reshape(array.transpose(placed, [1, 0, 2]), whole)


@gradient("Dilation2D")
def _dilation(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    attrs: dict[str, Any] = {name: op.attrs[name] for name in ("strides", "rates", "padding")}
    inputs = [*op.inputs, dy]
    return (
        lambda: apply_op("Dilation2DBackpropInput", inputs, attrs),
        lambda: apply_op("Dilation2DBackpropFilter", inputs, attrs),
    )


@gradient("FractionalMaxPool")
def _fractional_max(op: Operation, dy: Tensor, *_: Any) -> Tensor:
    y, rows, columns = op.outputs
    attrs = {"overlapping": op.attrs["overlapping"]}
    return apply_op("FractionalMaxPoolGrad", [op.inputs[0], y, dy, rows, columns], attrs)


@gradient("FractionalAvgPool")
def _fractional_average(op: Operation, dy: Tensor, *_: Any) -> Tensor:
    rows, columns = op.outputs[1:]
    shape = array.shape(op.inputs[0], out_type=dtypes.int64)
    return apply_op("FractionalAvgPoolGrad", [shape, dy, rows, columns], {"overlapping": op.attrs["overlapping"]})
