"""Gradients of lists of tensors: the gradient of a list is a list of gradients."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array
from sparkflow.ops.math_reduce import unsorted_segment_sum
from sparkflow.ops.tensor_list import call
from sparkflow_runtime.wire.attrs import Shape

not_differentiable("EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape")
not_differentiable("OptionalNone", "OptionalHasValue")


def _dtype(op: Operation) -> Any:
    return op.attrs["element_dtype"]


def _shape_of(tensor: Tensor) -> Tensor:
    return array.shape(tensor)


def _length(tensors: Tensor) -> Tensor:
    return apply_op("TensorListLength", [tensors])


@gradient("TensorListPushBack")
def _push_back(op: Operation, dl: Tensor) -> Any:
    return call("TensorListPopBack", [dl, _shape_of(op.inputs[1])], _dtype(op))


@gradient("TensorListPopBack", partial=True)
def _pop_back(op: Operation, dl: Any, dx: Any) -> Any:
    dl = array.zeros_like(op.outputs[0]) if dl is None else dl
    dx = array.zeros_like(op.outputs[1]) if dx is None else dx
    return call("TensorListPushBack", [dl, dx], _dtype(op)), None


@gradient("TensorListStack")
def _stack(op: Operation, dx: Tensor) -> Any:
    return call("TensorListFromTensor", [dx, _shape_of(dx)[1:]], _dtype(op)), None


@gradient("TensorListFromTensor")
def _from_tensor(op: Operation, dl: Tensor) -> Any:
    return call("TensorListStack", [dl, _shape_of(op.inputs[0])[1:]], _dtype(op)), None


@gradient("TensorListGetItem")
def _get_item(op: Operation, dx: Tensor) -> Any:
    tensors, index, _ = op.inputs
    return call("TensorListSetItem", [array.zeros_like(tensors), index, dx], _dtype(op)), None, None


@gradient("TensorListSetItem")
def _set_item(op: Operation, dl: Tensor) -> Any:
    _, index, item = op.inputs
    rest = call("TensorListSetItem", [dl, index, array.zeros_like(item)], _dtype(op))
    return rest, None, call("TensorListGetItem", [dl, index, _shape_of(item)], _dtype(op))


@gradient("TensorListGather")
def _gather(op: Operation, dx: Tensor) -> Any:
    """An element that was taken twice has both gradients."""
    tensors, indices, _ = op.inputs
    rows = unsorted_segment_sum(dx, indices, _length(tensors))
    return call("TensorListFromTensor", [rows, _shape_of(rows)[1:]], _dtype(op)), None, None


@gradient("TensorListScatterV2")
def _scatter(op: Operation, dl: Tensor) -> Any:
    tensor, indices, *_ = op.inputs
    return call("TensorListGather", [dl, indices, _shape_of(tensor)[1:]], _dtype(op)), None, None, None


@gradient("TensorListResize")
def _resize(op: Operation, dl: Tensor) -> Any:
    return apply_op("TensorListResize", [dl, _length(op.inputs[0])]), None


@gradient("TensorListConcatV2")
def _concat(op: Operation, dx: Tensor, _: Any) -> Any:
    return call("TensorListSplit", [dx, op.inputs[1], op.outputs[1]], _dtype(op)), None, None


@gradient("TensorListSplit")
def _split(op: Operation, dl: Tensor) -> Any:
    _, shape, lengths = op.inputs
    return call("TensorListConcatV2", [dl, shape, lengths], _dtype(op))[0], None, None


# ---------------------------------------------------------------------- values that may be missing


@gradient("OptionalFromValue")
def _from_value(op: Operation, doptional: Tensor) -> Any:
    types, shapes = [t.dtype.base_dtype for t in op.inputs], [Shape(t._shape) for t in op.inputs]
    return apply_op("OptionalGetValue", [doptional], {"output_types": types, "output_shapes": shapes})


@gradient("OptionalGetValue")
def _get_value(op: Operation, *dys: Tensor) -> Any:
    return apply_op("OptionalFromValue", [list(dys)], {"Toutput_types": [t.dtype.base_dtype for t in op.outputs]})
