"""Fully connected layers, dropout, and flattening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, init_ops, math, nn
from sparkflow.ops.control_flow_cond import smart_cond
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow_runtime.wire.errors import InvalidArgumentError


def dense(
    inputs: Any,
    units: int,
    activation: Callable[[Tensor], Tensor] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """activation(inputs @ kernel + bias): [batch, ..., n] -> [batch, ..., units], of the dtype of inputs.

    Makes the variables <name>/kernel [n, units] (Glorot's uniform by default) and <name>/bias [units] (zeros). name:
    "dense", made unique, by default; with reuse the variables of that name are shared.
    Raises ValueError where inputs has less than two axes or its last size is not known.
    """
    x = convert_to_tensor(inputs)
    dims = x._shape
    if dims is None or len(dims) < 2 or dims[-1] is None:
        raise ValueError(f"The inputs to `dense` need at least two dimensions and the last one defined, got {x}")
    with variable_scope(name, "dense", reuse=reuse, dtype=x.dtype.base_dtype):
        kernel = get_variable(
            "kernel",
            [dims[-1], units],
            initializer=kernel_initializer,
            regularizer=kernel_regularizer,
            constraint=kernel_constraint,
            trainable=trainable,
        )
        out = math.matmul(x, kernel) if len(dims) == 2 else _matmul_last(x, kernel, dims, units)
        if use_bias:
            bias = get_variable(
                "bias",
                [units],
                initializer=bias_initializer or init_ops.zeros_initializer(),
                regularizer=bias_regularizer,
                constraint=bias_constraint,
                trainable=trainable,
            )
            out = nn.bias_add(out, bias)
        out = out if activation is None else activation(out)
        if activity_regularizer is not None:
            get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, activity_regularizer(out))
        return out


def _matmul_last(x: Tensor, kernel: Any, dims: tuple[int | None, ...], units: int) -> Tensor:
    """Over the last axis of x, whatever axes stand before it."""
    flat = math.matmul(array.reshape(x, [-1, dims[-1]]), kernel)
    sizes = array.shape(x)
    outer = [sizes[i] if d is None else d for i, d in enumerate(dims[:-1])]
    out = array.reshape(flat, [*outer, units])
    out.set_shape((*dims[:-1], units))
    return out


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """While training: zero each element with probability `rate`, and scale the others by 1 / (1 - rate).

    training: a Python bool, or a bool scalar tensor that decides at each step (nothing is drawn where it is false).
    noise_shape: elements along axes of size 1 are dropped together.
    """
    with get_default_graph().name_scope(name or "dropout"):
        x = convert_to_tensor(inputs)
        return smart_cond(
            training,
            lambda: nn.dropout(x, rate=rate, noise_shape=noise_shape, seed=seed),
            lambda: array.identity(x),
        )


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """[batch, ...] -> [batch, the product of the rest]. Raises InvalidArgumentError where inputs is a scalar."""
    x = convert_to_tensor(inputs)
    dims = x._shape
    if dims == ():
        raise InvalidArgumentError(f"flatten: the input has no batch axis, it is a scalar: {x}")
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"flatten: data_format must be channels_last or channels_first, got {data_format!r}")
    with get_default_graph().name_scope(name or "flatten"):
        if data_format == "channels_first" and dims is not None and len(dims) > 2:
            x = array.transpose(x, [0, *range(2, len(dims)), 1])
        known = dims is not None and None not in dims[1:]
        width = shapes.product(dims[1:]) if known and dims is not None else -1
        if not known:
            return array.reshape(x, [array.shape(x)[0], -1])
        out = array.reshape(x, [-1, width] if width else [array.shape(x)[0], 0])
        out.set_shape((dims[0] if dims else None, width))
        return out
