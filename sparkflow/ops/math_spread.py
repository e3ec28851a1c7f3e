"""Variances, norms and running sums of logarithms over axes; polynomials."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.ops import array, math, math_special, rules
from sparkflow.ops.math_reduce import reduce_mean, reduced, reduction
from sparkflow_runtime.wire import dtypes

op(
    "EuclideanNorm", "input: T, reduction_indices: Tidx -> output: T", reduced, keep_dims=False, Tidx=dtypes.int32
)  # fmt: skip
op(
    "CumulativeLogsumexp", "x: T, axis: Tidx -> out: T", rules.same, exclusive=False, reverse=False, Tidx=dtypes.int32
)  # fmt: skip


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The root of the sum of squares over `axis` (all, when None)."""
    return reduction("EuclideanNorm", input_tensor, axis, keepdims, name, (None, None))


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean squared distance from the mean over `axis` (all, when None). Raises TypeError on integers."""
    with get_default_graph().name_scope(name or "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        if x.dtype.is_integer:
            raise TypeError(f"Input must be either real or complex. Received integer type {x.dtype.name}.")
        away = math.subtract(x, reduce_mean(x, axis, True))
        squares = math_special.real(math.multiply(math.conj(away), away)) if x.dtype.is_complex else math.square(away)
        return reduce_mean(squares, axis, keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The root of reduce_variance."""
    with get_default_graph().name_scope(name or "reduce_std"):
        return math.sqrt(reduce_variance(input_tensor, axis, keepdims))


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """log of the running sums of exp(x) along one axis, without overflow; of nothing minus infinity."""
    attrs = {"exclusive": exclusive, "reverse": reverse}
    return apply_op("CumulativeLogsumexp", [x, axis], attrs, name)


def polyval(coeffs: list[Any], x: Any, name: str | None = None) -> Tensor:
    """The polynomial of these coefficients at x, the highest power first."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with get_default_graph().name_scope(name or "polyval"):
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return array.zeros_like(x)
        total = convert_to_tensor(coeffs[0])
        for coefficient in coeffs[1:]:
            total = math.add(convert_to_tensor(coefficient), math.multiply(total, x))
        return total


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with get_default_graph().name_scope(name or "reciprocal_no_nan"):
        x = convert_to_tensor(x, name="x")
        return math.div_no_nan(convert_to_tensor(1, x.dtype.base_dtype), x)
