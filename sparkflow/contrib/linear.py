"""tf.contrib.rnn's linear map, from before there were layers: cells written then call `_linear`.

Source: tensorflow/contrib/rnn/python/ops/core_rnn_cell.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import init_ops, math, nn
from sparkflow.ops.array_join import concat
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope

_WEIGHTS_VARIABLE_NAME, _BIAS_VARIABLE_NAME = "kernel", "bias"  # as cells of the user's own name theirs


class _Linear:
    """sum_i args[i] W[i] + b, with its variables kernel and bias in the variable scope of the moment.

    args: a tensor [batch, n], or a sequence of them. Raises ValueError where one is not of two dimensions, or its
    second is not known.
    """

    def __init__(
        self, args: Any, output_size: int, build_bias: bool, bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ):  # fmt: skip
        self._is_sequence = isinstance(args, (list, tuple))
        if args is None or (self._is_sequence and not args):
            raise ValueError("linear: args is empty")
        tensors = [convert_to_tensor(arg) for arg in (args if self._is_sequence else [args])]
        total = 0
        for tensor in tensors:
            dims = tensor.get_shape()
            if dims.ndims != 2:
                raise ValueError(f"linear: matrices are wanted, got shapes {[t.get_shape() for t in tensors]}")
            if dims[1].value is None:
                raise ValueError(f"linear: the number of columns must be known, got shape {dims}")
            total += dims[1].value
        dtype, scope = tensors[0].dtype, get_variable_scope()
        self._weights = get_variable("kernel", [total, output_size], dtype, kernel_initializer)
        self._biases = None
        if build_bias:
            with variable_scope(scope) as inner:
                inner.set_partitioner(None)
                start = bias_initializer or init_ops.constant_initializer(0.0, dtype)
                self._biases = get_variable("bias", [output_size], dtype, start)

    def __call__(self, args: Any) -> Tensor:
        x = args if not self._is_sequence else args[0] if len(args) == 1 else concat(args, 1)
        found = math.matmul(x, self._weights)
        return found if self._biases is None else nn.bias_add(found, self._biases)


def _linear(
    args: Tensor | Sequence[Tensor], output_size: int, bias: bool, bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> Tensor:  # fmt: skip
    """_Linear made, and called, at once."""
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)
