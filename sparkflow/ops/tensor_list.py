"""Lists of tensors as values (variant tensors): TensorFlow 2 makes them of TensorArrays and for loops' gradients."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow_runtime.wire.dtypes import int32


def _element(op: Operation) -> Dims:
    """What an op's last input says of an element."""
    asked = op.inputs[-1]
    return None if asked._shape == () else constant_value_as_shape(asked)


def _stacked(op: Operation) -> list[Dims]:
    dims, count = _element(op), op.attrs.get("num_elements", -1)
    return [None if dims is None else (None if count < 0 else count, *dims)]


def _gathered(op: Operation) -> list[Dims]:
    dims, indices = _element(op), op.inputs[1]._shape
    return [None if dims is None else (None if indices is None else indices[0], *dims)]


def _joined(op: Operation) -> Dims:
    """The elements' first axes one behind the other."""
    dims = constant_value_as_shape(op.inputs[1]) if op.inputs[1]._shape else None
    return None if dims is None else (None, *dims[1:])


def _list(op: Operation) -> list[Dims]:
    return [()]


_NEW = "element_shape: shape_type, {} -> handle: variant"
op("EmptyTensorList", _NEW.format("max_num_elements: int32"), _list)
op("TensorListReserve", _NEW.format("num_elements: int32"), _list)
op("TensorListFromTensor", "tensor: element_dtype, element_shape: shape_type -> output_handle: variant", _list)
op(
    "TensorListScatterV2",
    "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 -> output_handle: variant",
    _list,
)
op(
    "TensorListSplit",
    "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
    _list,
)
op("TensorListPushBack", "input_handle: variant, tensor: element_dtype -> output_handle: variant", _list)
op(
    "TensorListPopBack",
    "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype",
    lambda op: [(), _element(op)],
)
op(
    "TensorListGetItem",
    "input_handle: variant, index: int32, element_shape: Tshape -> item: element_dtype",
    lambda op: [_element(op)],
    Tshape=int32,
)
op(
    "TensorListSetItem",
    "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
    _list,
    resize_if_index_out_of_bounds=False,
)
op("TensorListResize", "input_handle: variant, size: int32 -> output_handle: variant", _list)
op("TensorListLength", "input_handle: variant -> length: int32", _list)
op("TensorListElementShape", "input_handle: variant -> element_shape: shape_type", lambda op: [None])
op(
    "TensorListStack",
    "input_handle: variant, element_shape: int32 -> tensor: element_dtype",
    _stacked,
    num_elements=-1,
)
op(
    "TensorListGather",
    "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype",
    _gathered,
)
op(
    "TensorListConcatV2",
    "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> tensor: element_dtype, lengths: int64",
    lambda op: [_joined(op), (None,)],
)

# Values that may be missing: TensorFlow 2 keeps what a branch in a loop computed in a list of these.
op("OptionalNone", "-> optional: variant", _list)
op("OptionalFromValue", "components: [Toutput_types] -> optional: variant", _list)
op("OptionalHasValue", "optional: variant -> has_value: bool", _list)
op(
    "OptionalGetValue",
    "optional: variant -> components: [output_types]",
    lambda op: [shape.dims for shape in op.attrs["output_shapes"]],
)


def call(op_type: str, inputs: list[Any], dtype: Any) -> Any:
    """One of these ops on elements of that type."""
    return apply_op(op_type, inputs, {"element_dtype": dtype})
