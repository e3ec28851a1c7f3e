"""Gradients of norms and of running sums of logarithms."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.math import kept_sizes
from sparkflow.grads.registry import gradient
from sparkflow.ops import array, array_select, math
from sparkflow.ops.math_spread import cumulative_logsumexp


@gradient("EuclideanNorm")
def _euclidean_norm(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """x over the norm."""

    def grad() -> Tensor:
        y, d = op.outputs[0], dy
        if not op.attr("keep_dims"):
            sizes = kept_sizes(op)
            y, d = array.reshape(y, sizes), array.reshape(d, sizes)
        return math.truediv(op.inputs[0], math.truediv(y, d))

    return grad, None


@gradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """exp(x) times the sum of dy exp(-y) over the totals that x is in, what is above and below zero apart."""
    x, axis = op.inputs
    exclusive, backwards = op.attr("exclusive"), not op.attr("reverse")

    def part(d: Tensor) -> Tensor:
        lowest = array.fill(array.shape(d), math.cast(d.dtype.base_dtype.min, d.dtype.base_dtype))
        logs = array_select.where_v2(math.greater(d, array.zeros_like(d)), math.log(d), lowest)
        total = cumulative_logsumexp(math.subtract(logs, op.outputs[0]), axis, exclusive, backwards)
        return math.exp(math.add(total, x))

    return lambda: math.subtract(part(dy), part(math.negative(dy))), None
