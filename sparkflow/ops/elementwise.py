"""Builders of elementwise op families: one call gives the row of the table and the public function."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import rules

Elementwise = Callable[..., Tensor]


def unary(
    op_type: str, doc: str, signature: str = "x: T -> y: T", shape: Any = rules.same, **defaults: Any
) -> Elementwise:
    """Register `op_type` and return its function `f(x, name=None)`."""
    op(op_type, signature, shape, **defaults)

    def build(x: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [x], name=name)

    return _described(build, op_type, doc, signature)


def unary_float(op_type: str, doc: str, signature: str = "x: T -> y: T") -> Elementwise:
    """As `unary`, for floating and complex types only."""
    return unary(op_type, doc, signature, rules.same_float)


def binary(op_type: str, doc: str, signature: str = "x: T, y: T -> z: T", **defaults: Any) -> Elementwise:
    """Register `op_type` and return its function `f(x, y, name=None)`, which broadcasts as numpy does."""
    op(op_type, signature, rules.broadcast, **defaults)

    def build(x: Any, y: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [x, y], name=name)

    return _described(build, op_type, doc, signature, 2)


def of_sparse_too(build: Elementwise) -> Callable[..., Any]:
    """build, which of a SparseTensor is one with build's values: for functions that are 0 at 0."""

    @wraps(build)
    def either(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, build(x.values, *args, **kwargs), x.dense_shape)
        return build(x, *args, **kwargs)

    return either


def of_ragged_too(build: Callable[..., Any], operands: int = 1) -> Callable[..., Any]:
    """build, which of RaggedTensors is what `ops/ragged_dispatch.py` has for its name: its values' one, as a rule.

    operands: how many of the first arguments are broadcast to one another.
    """
    label = build.__name__

    @wraps(build)
    def either(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is Tensor:
                continue
            one = value[0] if isinstance(value, (list, tuple)) and value else value
            if hasattr(one, "_computed"):  # a RaggedTensor knows how
                return one._computed(label, build, args, kwargs, operands)
        return build(*args, **kwargs)

    return either


of_ragged_operands = partial(of_ragged_too, operands=2)


def _described(build: Any, op_type: str, doc: str, signature: str, operands: int = 1) -> Elementwise:
    """build with its name, and with its arguments called as the op's inputs are."""
    inputs = re.findall(r"(\w+):", signature.partition("->")[0])
    code = build.__code__
    build.__code__ = code.replace(co_varnames=(*inputs, *code.co_varnames[len(inputs) :]))
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op_type).lower()
    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return of_ragged_too(build, operands)
