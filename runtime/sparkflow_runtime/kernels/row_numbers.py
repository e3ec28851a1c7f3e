"""Index vectors as numbers of rows, what GatherNd, ScatterNd and their like begin with; and where a mask is set."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import check_indices

_KINDS = (np.dtype(np.int32), np.dtype(np.int64))


def flat_rows(xp: Any, indices: Any, shape: tuple[int, ...], what: str) -> Any:
    """The index vectors along the last axis as row numbers in an array whose first axes are made one."""
    depth = indices.shape[-1]
    if xp is np and 0 < depth <= len(shape) and indices.dtype in _KINDS:
        rows = np.empty(indices.size // depth, np.int64)
        vectors = np.ascontiguousarray(indices).reshape(len(rows), depth)
        if number_rows(vectors, np.array(shape[:depth], np.int64), rows) < 0:
            return rows.reshape(indices.shape[:-1])
    flat = xp.zeros(indices.shape[:-1], xp.int64)
    for i in range(depth):
        column = indices[..., i]
        check_indices(column, shape[i], f"{what} (column {i} of indices)")
        flat = flat * shape[i] + column
    return flat


@compiled(
    [
        f"int64(Array({kind}, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), int64[::1])"
        for kind in ("int32", "int64")
    ]
)
def number_rows(indices: Any, shape: Any, out: Any) -> int:
    """Into `out`; the number of the first vector that is not within, or -1."""
    depth = np.uint64(shape.shape[0])
    for i in range(np.uint64(indices.shape[0])):
        row = np.uint64(0)
        for k in range(depth):
            at, size = np.uint64(indices[i, k]), np.uint64(shape[k])
            if at >= size:
                return np.int64(i)  # type: ignore[return-value]
            row = row * size + at
        out[i] = np.int64(row)
    return -1


@number_rows.otherwise
def _(indices: Any, shape: Any, out: Any) -> int:
    wide = indices.astype(np.int64, copy=False)
    outside = (wide.view(np.uint64) >= shape.astype(np.uint64)).any(1)
    if outside.any():
        return int(outside.argmax())
    out[:] = 0
    for k, size in enumerate(shape.tolist()):
        out *= size
        out += wide[:, k]
    return -1


def places_of_set(mask: Any) -> Any:
    """int64 [n, 2]: the row and the column of each True of a matrix, in order."""
    count = int(np.count_nonzero(mask))
    out = np.empty((count + 1, 2), np.int64)
    places_of(np.ascontiguousarray(mask).view(np.uint8), out)
    return out[:count]


@compiled(["void(Array(uint8, 2, 'C', readonly=True), int64[:,::1])"])
def places_of(mask: Any, out: Any) -> None:
    """out has a row more than is filled: what is written there without a branch may be written over."""
    at = np.uint64(0)
    for i in range(np.uint64(mask.shape[0])):
        for j in range(np.uint64(mask.shape[1])):
            out[at, 0] = np.int64(i)
            out[at, 1] = np.int64(j)
            at += np.uint64(mask[i, j])


@places_of.otherwise
def _(mask: Any, out: Any) -> None:
    for axis, along in enumerate(mask.nonzero()):
        out[:-1, axis] = along
