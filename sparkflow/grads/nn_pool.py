"""Gradients of pooling."""

from __future__ import annotations

from functools import partial
from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import array


def _window(op: Operation, *more: str) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "data_format", *more)
    return {name: op.attrs[name] for name in names if name in op.attrs}


for _suffix in ("", "3D"):

    @gradient(f"MaxPool{_suffix}")
    def _max_pool(op: Operation, dy: Tensor, grad: str = f"MaxPool{_suffix}Grad") -> Tensor:
        return apply_op(grad, [op.inputs[0], op.outputs[0], dy], _window(op, "explicit_paddings"))

    @gradient(f"MaxPool{_suffix}Grad")
    def _max_pool_grad(op: Operation, d: Tensor, grad: str = f"MaxPool{_suffix}GradGrad") -> tuple[Any, Any, Any]:
        """Linear in dy: its transpose takes what d has where the maxima lie, which no small step moves."""
        x, y, _ = op.inputs
        return lambda: array.zeros_like(x), lambda: array.zeros_like(y), lambda: apply_op(grad, [x, y, d], _window(op))

    @gradient(f"MaxPool{_suffix}GradGrad")
    def _max_pool_grad_grad(op: Operation, d: Tensor, grad: str = f"MaxPool{_suffix}Grad") -> tuple[Any, Any, Any]:
        x, y, _ = op.inputs
        return lambda: array.zeros_like(x), lambda: array.zeros_like(y), lambda: apply_op(grad, [x, y, d], _window(op))

    @gradient(f"AvgPool{_suffix}")
    def _avg_pool(op: Operation, dy: Tensor, grad: str = f"AvgPool{_suffix}Grad") -> Tensor:
        return apply_op(grad, [array.shape(op.inputs[0]), dy], _window(op))

    @gradient(f"AvgPool{_suffix}Grad")
    def _avg_pool_grad(op: Operation, d: Tensor, pool: str = f"AvgPool{_suffix}") -> tuple[Any, Any]:
        return None, lambda: apply_op(pool, [d], _window(op))


@gradient("MaxPoolWithArgmax")
def _with_argmax(op: Operation, dy: Tensor, dargmax: Any) -> Tensor:
    return apply_op("MaxPoolGradWithArgmax", [op.inputs[0], dy, op.outputs[1]], _argmax_window(op))


@gradient("MaxPoolGradWithArgmax")
def _grad_with_argmax(op: Operation, d: Tensor) -> tuple[Any, Any, Any]:
    x, _, argmax = op.inputs
    return None, lambda: apply_op("MaxPoolGradGradWithArgmax", [x, d, argmax], _argmax_window(op)), None


@gradient("MaxPoolGradGradWithArgmax")
def _grad_grad_with_argmax(op: Operation, d: Tensor) -> tuple[Any, Any, Any]:
    x, _, argmax = op.inputs
    return None, lambda: apply_op("MaxPoolGradWithArgmax", [x, d, argmax], _argmax_window(op)), None


def _argmax_window(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("ksize", "strides", "padding", "include_batch_in_index", "Targmax")}


def _sized_by_inputs(op: Operation, kind: str, *given: Tensor) -> Tensor:
    """`kind` of these, with the window's ksize and strides, which are the last inputs of op."""
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    return apply_op(kind, [*given, *op.inputs[-2:]], attrs)


@gradient("MaxPoolV2")
def _max_pool_v2(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    return _sized_by_inputs(op, "MaxPoolGradV2", op.inputs[0], op.outputs[0], dy), None, None


for _op, _transpose in (("MaxPoolGradV2", "MaxPoolGradGradV2"), ("MaxPoolGradGradV2", "MaxPoolGradV2")):

    @gradient(_op)
    def _max_pool_grad_v2(op: Operation, d: Tensor, transpose: str = _transpose) -> tuple[Any, ...]:
        x, y = op.inputs[:2]
        by_grad = partial(_sized_by_inputs, op, transpose, x, y, d)
        return lambda: array.zeros_like(x), lambda: array.zeros_like(y), by_grad, None, None
