"""Values kept within bounds, by value or by norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import math
from sparkflow.ops.elementwise import of_ragged_too
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _clip_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    for bound in op.inputs[1:]:
        if bound._shape != () and not shapes.compatible(bound._shape, dims):
            raise InvalidArgumentError(
                f"ClipByValue: a bound must be a scalar or of t's shape {shapes.show(dims)}, "
                f"got {shapes.show(bound._shape)}"
            )
    return [dims]


op("ClipByValue", "t: T, clip_value_min: T, clip_value_max: T -> output: T", _clip_rule)


def _like(t: Any, values: Tensor) -> Any:
    return IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values


def _values(t: Any, name: str) -> Tensor:
    return t.values if isinstance(t, IndexedSlices) else convert_to_tensor(t, name=name)


@of_ragged_too
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """t with values below the minimum raised to it and those above the maximum lowered to it; bounds broadcast."""
    with get_default_graph().name_scope(name or "clip_by_value") as scope:
        values = _values(t, "t")
        low = math.minimum(values, clip_value_max)
        low.set_shape(values._shape)  # refuses a bound that would make t larger
        clipped = math.maximum(low, clip_value_min, name=scope)
        clipped.set_shape(values._shape)
        return _like(t, clipped)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """t * clip_norm / norm where t's L2 norm (over `axes`) exceeds clip_norm, else t."""
    with get_default_graph().name_scope(name or "clip_by_norm") as scope:
        values = _values(t, "t")
        squares = reduce_sum(math.square(values), axes, keepdims=True)
        # where() twice: the gradient of sqrt at 0 is infinite, and infinite times 0 is nan
        positive = math.greater(squares, 0)
        ones = apply_op("OnesLike", [squares])
        roots = math.sqrt(apply_op("Select", [positive, squares, ones]))
        norm = apply_op("Select", [positive, roots, squares])
        clipped = math.truediv(math.multiply(values, clip_norm), math.maximum(norm, clip_norm))
        return _like(t, apply_op("Identity", [clipped], name=scope))


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """t * clip_norm / (norm / number of values) where that average norm exceeds clip_norm, else t."""
    with get_default_graph().name_scope(name or "clip_by_average_norm"):
        t = convert_to_tensor(t, name="t")
        count = math.cast(apply_op("Size", [t]), "float32")
        inverse = math.rsqrt(reduce_sum(math.square(t)))
        share = math.minimum(math.multiply(inverse, count), math.divide(convert_to_tensor(1.0), clip_norm))
        return math.multiply(math.multiply(t, clip_norm), share)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """sqrt(sum of squares) over all tensors of the list, None among them counting as nothing: of nothing it is 0."""
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"global_norm takes a list of tensors, got {t_list!r}")
    with get_default_graph().name_scope(name or "global_norm"):
        halves = []
        for t in t_list:
            if t is not None:
                values = _values(t, "t")
                with values.graph.colocate_with(values):
                    halves.append(apply_op("L2Loss", [values]))
        if not halves:
            return convert_to_tensor(0.0, name="global_norm")
        total = reduce_sum(apply_op("Pack", [halves]))
        two = convert_to_tensor(2.0, total.dtype)
        return math.sqrt(math.multiply(total, two), name="global_norm")


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale all tensors by clip_norm / global norm where that is below 1. Returns the tensors and the global norm.

    A norm that is not finite makes every value nan, so that it is seen.
    """
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with get_default_graph().name_scope(name or "clip_by_global_norm") as scope:
        norm = convert_to_tensor(norm)
        one = convert_to_tensor(1.0, norm.dtype)
        scale = math.multiply(clip_norm, math.minimum(math.truediv(one, norm), math.truediv(one, clip_norm)))
        scale = math.add(scale, math.subtract(norm, norm))  # inf - inf is nan
        return [t if t is None else _scaled(t, scale, f"{scope}_{i}") for i, t in enumerate(t_list)], norm


def _scaled(t: Any, scale: Tensor, name: str) -> Any:
    values = _values(t, "t")
    with values.graph.colocate_with(values):
        return _like(t, apply_op("Identity", [math.multiply(values, scale)], name=name))
