"""Gradients of convolutions: each of the three ops of a family is linear in both inputs, and its transposes are the
other two."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array

_FAMILIES = [  # forward, by input, by filter
    ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
    ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
    ("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
]
_WINDOW = ("strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu")


def _register(forward: str, by_input: str, by_filter: str) -> None:
    def window(op: Operation) -> dict[str, Any]:
        return {name: op.attrs[name] for name in _WINDOW if name in op.attrs}

    @gradient(forward)
    def _forward(op: Operation, dy: Tensor) -> tuple[Any, Any]:
        """y = x * w."""
        x, w = op.inputs
        return (
            lambda: apply_op(by_input, [array.shape(x), w, dy], window(op)),
            lambda: apply_op(by_filter, [x, array.shape(w), dy], window(op)),
        )

    @gradient(by_input)
    def _by_input(op: Operation, d: Tensor) -> tuple[Any, Any, Any]:
        """dx = the transpose by w of dy: linear in w and dy."""
        _, w, dy = op.inputs
        return (
            None,
            lambda: apply_op(by_filter, [d, array.shape(w), dy], window(op)),
            lambda: apply_op(forward, [d, w], window(op)),
        )

    @gradient(by_filter)
    def _by_filter(op: Operation, d: Tensor) -> tuple[Any, Any, Any]:
        """dw = x times dy: linear in x and dy."""
        x, _, dy = op.inputs
        return (
            lambda: apply_op(by_input, [array.shape(x), d, dy], window(op)),
            None,
            lambda: apply_op(forward, [x, d], window(op)),
        )


for _family in _FAMILIES:
    _register(*_family)
