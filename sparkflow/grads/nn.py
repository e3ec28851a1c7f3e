"""Gradients of activations, biases and losses."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.broadcast import repeated_axes, summed_to
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import (
    array,
    array_select,
    math,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.array_slice import scatter_nd
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow.ops.nn import softmax
from sparkflow_runtime.wire import dtypes

# ---------------------------------------------------------------------- activations

gradient("Relu")(lambda op, dy: apply_op("ReluGrad", [dy, op.outputs[0]]))
gradient("Relu6")(lambda op, dy: apply_op("Relu6Grad", [dy, op.outputs[0]]))
gradient("Elu")(lambda op, dy: apply_op("EluGrad", [dy, op.outputs[0]]))
gradient("Selu")(lambda op, dy: apply_op("SeluGrad", [dy, op.outputs[0]]))
gradient("Softplus")(lambda op, dy: apply_op("SoftplusGrad", [dy, op.inputs[0]]))
gradient("Softsign")(lambda op, dy: apply_op("SoftsignGrad", [dy, op.inputs[0]]))
gradient("LeakyRelu")(lambda op, dy: apply_op("LeakyReluGrad", [dy, op.inputs[0]], {"alpha": op.attr("alpha")}))
gradient("L2Loss")(lambda op, dy: op.inputs[0] * dy)


@gradient("ReluGrad", "Relu6Grad")
def _relu_grad_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    return lambda: apply_op(op.type, [d, op.inputs[1]]), lambda: array.zeros_like(op.inputs[1])


@gradient("EluGrad", "SeluGrad")
def _elu_grad_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    """z = dy (y + c) below zero, and a multiple of dy above."""
    dy, y = op.inputs

    def by_output() -> Tensor:
        zeros = array.zeros_like(y)
        return array_select.where(math.less(y, zeros), d * dy, zeros)

    return lambda: apply_op(op.type, [d, y]), by_output


@gradient("LeakyReluGrad")
def _leaky_relu_grad_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    alpha = {"alpha": op.attr("alpha")}
    return lambda: apply_op("LeakyReluGrad", [d, op.inputs[1]], alpha), lambda: array.zeros_like(op.inputs[1])


@gradient("SoftplusGrad")
def _softplus_grad_grad(op: Operation, d: Tensor) -> tuple[Any, Any]:
    """z = dy sigmoid(x)."""
    dy, x = op.inputs
    return lambda: apply_op("SoftplusGrad", [d, x]), lambda: d * dy * (math.sigmoid(x) * math.sigmoid(math.negative(x)))


# ---------------------------------------------------------------------- biases


@gradient("BiasAdd")
def _bias_add(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    return dy, lambda: apply_op("BiasAddGrad", [dy], {"data_format": op.attr("data_format")})


@gradient("BiasAddGrad")
def _bias_add_grad(op: Operation, d: Tensor) -> Tensor:
    """Every row gets the vector."""
    sizes = array.shape(op.inputs[0])
    if op.attr("data_format") == "NCHW":
        rank = array.rank(op.inputs[0])
        ones = array.fill(apply_op("Pack", [[rank - 2]]), 1)
        d = array.reshape(d, apply_op("ConcatV2", [[[-1], ones], 0]))
    return array.broadcast_to(d, sizes)


# ---------------------------------------------------------------------- softmax


@gradient("Softmax")
def _softmax(op: Operation, dy: Tensor) -> Tensor:
    """y = softmax(x)  =>  dx = y (dy - sum(dy y))."""
    y = op.outputs[0]
    return (dy - reduce_sum(dy * y, -1, keepdims=True)) * y


@gradient("LogSoftmax")
def _log_softmax(op: Operation, dy: Tensor) -> Tensor:
    """y = log softmax(x)  =>  dx = dy - softmax(x) sum(dy)."""
    return dy - math.exp(op.outputs[0]) * reduce_sum(dy, -1, keepdims=True)


def _scaled_rows(loss_grad: Tensor, backprop: Tensor) -> Tensor:
    return array.expand_dims(loss_grad, -1) * backprop


def _second_order(logits: Tensor, backprop_grad: Tensor) -> Tensor:
    """The Jacobian of softmax at the logits, applied to the gradient of the op's second output."""
    y = softmax(logits)
    return (backprop_grad - reduce_sum(backprop_grad * y, -1, keepdims=True)) * y


def _is_used(grad: Tensor) -> bool:
    """Whether anybody differentiates the second output; the walk puts zeros where nobody does."""
    value = constant_value(grad.op.inputs[1] if grad.op.type == "Fill" else grad)
    return grad.op.type != "ZerosLike" and (value is None or bool((value != 0).any()))


def _once(grad: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """grad summed over the rows or classes in which `own` is known to be repeated; where that is open, it is not."""
    return summed_to(grad, own) if repeated_axes(own._shape, other._shape) else grad


@gradient("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(op: Operation, dloss: Tensor, dbackprop: Tensor) -> tuple[Any, Any]:
    (logits, labels), backprop = op.inputs, op.outputs[1]

    def by_logits() -> Tensor:
        grad = _scaled_rows(dloss, backprop)
        return _once(grad + _second_order(logits, dbackprop) if _is_used(dbackprop) else grad, logits, labels)

    def by_labels() -> Tensor:
        grad = _scaled_rows(dloss, math.negative(apply_op("LogSoftmax", [logits])))
        return _once(grad - dbackprop if _is_used(dbackprop) else grad, labels, logits)

    return by_logits, by_labels


@gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(op: Operation, dloss: Tensor, dbackprop: Tensor) -> tuple[Any, Any]:
    def by_logits() -> Tensor:
        grad = _scaled_rows(dloss, op.outputs[1])
        return grad + _second_order(op.inputs[0], dbackprop) if _is_used(dbackprop) else grad

    return by_logits, None


# ---------------------------------------------------------------------- the largest


@gradient("TopKV2")
def _top_k(op: Operation, dvalues: Tensor, dindices: Any) -> tuple[Any, Any]:
    """Each value's gradient goes to the place it was taken from."""
    x, indices = op.inputs[0], op.outputs[1]

    def grad() -> Tensor:
        sizes = array.shape(x)
        columns = sizes[-1]
        k = array.shape(indices)[-1]
        flat = array.reshape(indices, apply_op("Pack", [[-1, k]]))
        rows = math.range(0, array.shape(flat)[0], 1)
        places = array.reshape(math.cast(flat, dtypes.int32) + array.expand_dims(rows * columns, -1), [-1, 1])
        summed = scatter_nd(places, array.reshape(dvalues, [-1]), apply_op("Pack", [[array.size(x)]]))
        return array.reshape(summed, sizes)

    return grad, None


not_differentiable("InTopK", "InTopKV2")
