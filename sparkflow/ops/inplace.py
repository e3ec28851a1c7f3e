"""Rows of a tensor replaced, or added to: tensorflow.python.ops.inplace_ops.

Those that are called alias there write over x itself. Here x keeps its value, and the result is to be used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_scatter, math
from sparkflow_runtime.wire.dtypes import int32


def _of_rows(scatter: Callable[..., Tensor], what: str) -> Callable[[Any, Any, Any], Tensor]:
    def changed(x: Any, i: Any, v: Any) -> Tensor:
        x = convert_to_tensor(x)
        v = convert_to_tensor(v, x.dtype.base_dtype, "v")
        if i is None:
            return array.reshape(changed(array.reshape(x, [1, -1]), 0, array.reshape(v, [-1])), array.shape(x))
        i = math.cast(convert_to_tensor(i, name="i"), int32)
        if i.shape.ndims == 0:
            i, v = array.reshape(i, [1]), array.expand_dims(v, 0)
        rows = math.floormod(i, array.shape(x)[0])  # as there, an index counts around
        return scatter(x, array.expand_dims(rows, -1), v)

    changed.__doc__ = f"x with x[i] {what} v: a row for a scalar i, rows for a vector, everything for None."
    return changed


alias_inplace_update = inplace_update = _of_rows(array_scatter.tensor_scatter_update, "=")
alias_inplace_add = inplace_add = _of_rows(array_scatter.tensor_scatter_add, "+=")
alias_inplace_sub = inplace_sub = _of_rows(array_scatter.tensor_scatter_sub, "-=")


def empty_like(x: Any, init: bool | None = None) -> Tensor:
    """A tensor as x is, of zeros whatever init says."""
    return array.zeros_like(x)
