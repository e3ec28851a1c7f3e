"""swish, and moments from sums that several parts of the data give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, math, math_reduce, operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.elementwise import of_ragged_too


@of_ragged_too
def swish(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """x * sigmoid(beta * x). Source: Ramachandran et al. 2017."""
    with get_default_graph().name_scope(name or "swish"):
        x = convert_to_tensor(features, name="features")
        return x * math.sigmoid(x * convert_to_tensor(beta, x.dtype.base_dtype))


def sufficient_statistics(
    x: Any, axes: Sequence[int], shift: Any = None, keep_dims: bool | None = None, name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """(how many values there are over the axes, their sum, the sum of their squares, shift), each after `shift` (a
    guess of the mean, which keeps the sums small) was subtracted; for normalize_moments."""
    keep = bool(keepdims if keep_dims is None else keep_dims)
    axes = list(dict.fromkeys(axes))
    with get_default_graph().name_scope(name or "sufficient_statistics"):
        x = convert_to_tensor(x, name="x")
        dims = x._shape
        if dims is not None and all(dims[a] is not None for a in axes):
            total = 1
            for a in axes:
                total *= dims[a] or 0
            counts = convert_to_tensor(total, x.dtype.base_dtype, "count")
        else:
            sizes = [array.shape(x)[a] for a in axes]
            counts = math.cast(math_reduce.reduce_prod(convert_to_tensor(sizes)), x.dtype)
        if shift is not None:
            shift = convert_to_tensor(shift, x.dtype.base_dtype, "shift")
            means, squares = x - shift, math.squared_difference(x, shift)
        else:
            means, squares = x, math.square(x)
        sums = (math_reduce.reduce_sum(t, axes, keepdims=keep) for t in (means, squares))
        first, second = sums
        return counts, first, second, shift


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(mean, variance) of sufficient_statistics."""
    with get_default_graph().name_scope(name or "normalize"):
        share = math.reciprocal(convert_to_tensor(counts))
        moved = math.multiply(mean_ss, share)
        mean = moved if shift is None else moved + shift
        return mean, math.multiply(variance_ss, share) - math.square(moved)
