"""Ops about the shapes that broadcasting gives, used by gradients."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.constant_value import constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, broadcast
from sparkflow_runtime.wire import dtypes


def _args_rule(op: Operation) -> list[Dims]:
    dims = broadcast(constant_value_as_shape(op.inputs[0]), constant_value_as_shape(op.inputs[1]), op.type)
    return [(None if dims is None else len(dims),)]


op("BroadcastGradientArgs", "s0: T, s1: T -> r0: T, r1: T", lambda op: [(None,), (None,)], T=dtypes.int32)
op("BroadcastArgs", "s0: T, s1: T -> r0: T", _args_rule, T=dtypes.int32)


def broadcast_gradient_args(s0: Any, s1: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The axes over which the gradients of two operands of those shapes are summed."""
    return apply_op("BroadcastGradientArgs", [s0, s1], name=name)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that operands of two shapes broadcast to, as a tensor."""
    return apply_op("BroadcastArgs", [shape_x, shape_y])
