"""A sparse matrix by a dense one, entry by entry: a compiled loop with its numpy version."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES, add_rows

Array = Any
_ROWS, _ENTRIES = "Array({0}, 2, 'C', readonly=True)", "Array(int64, 2, 'C', readonly=True)"


def handles(xp: Any, values: Array, b: Array) -> bool:
    return xp is np and values.dtype in FLOAT_TYPES and values.dtype == b.dtype and b.ndim == 2


def product(indices: Array, values: Array, b: Array, rows: int, side: int) -> tuple[Array, int]:
    """(out [rows, b's columns], -1): each entry's value times row indices[i, 1 - side] of b is added to row
    indices[i, side], in their order. (Anything, i) where entry i lies outside."""
    out = np.zeros((rows, b.shape[1]), b.dtype)
    given = np.ascontiguousarray(values), np.ascontiguousarray(indices, np.int64), np.ascontiguousarray(b)
    return out, add_products(*given, side, out)


@compiled(
    [
        f"int64(Array({{0}}, 1, 'C', readonly=True), {_ENTRIES}, {_ROWS}, int64, {{0}}[:,::1])".format(kind)
        for kind in ("float32", "float64")
    ]
)
def add_products(values: Array, indices: Array, b: Array, side: int, out: Array) -> int:
    """Into `out`, which is zeros; the number of the first entry that is outside, or -1."""
    rows, size, width = np.uint64(out.shape[0]), np.uint64(b.shape[0]), np.uint64(out.shape[1])
    to, at = np.uint64(side), np.uint64(1 - side)
    for i in range(np.uint64(values.shape[0])):
        target, source, value = np.uint64(indices[i, to]), np.uint64(indices[i, at]), values[i]
        if target >= rows or source >= size:
            return np.int64(i)  # type: ignore[return-value]
        for k in range(width):
            out[target, k] += value * b[source, k]
    return -1


@add_products.otherwise
def _(values: Array, indices: Array, b: Array, side: int, out: Array) -> int:
    targets, sources = indices[:, side], indices[:, 1 - side]
    outside = (targets.view(np.uint64) >= len(out)) | (sources.view(np.uint64) >= len(b))
    if outside.any():
        return int(outside.argmax())
    if values.size and b.shape[1]:
        add_rows.numpy(values[:, None] * b[sources], np.ascontiguousarray(targets), out)
    return -1
