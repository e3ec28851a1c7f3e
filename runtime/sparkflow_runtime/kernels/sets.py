"""Sets along the last axis. A value in a row is one number (row * values + value's place), so a set of sets is a
sorted vector, and an operation of all rows is one of two vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

Rows = tuple[np.ndarray, np.ndarray, tuple[int, ...]]  # (row of each value, values, the rows' shape)

_OPERATIONS = {
    "intersection": np.intersect1d,
    "union": np.union1d,
    "a-b": np.setdiff1d,
    "b-a": lambda a, b: np.setdiff1d(b, a),
}


def _dense(op: str, values: Any) -> Rows:
    own = host(values)
    if own.ndim < 2:
        raise InvalidArgumentError(f"{op}: sets must be of rank 2 or more, got shape {list(own.shape)}")
    rows = np.repeat(np.arange(math.prod(own.shape[:-1])), own.shape[-1])
    return rows, own.reshape(-1), own.shape[:-1]


def _sparse(op: str, indices: Any, values: Any, shape: Any, validate: bool) -> Rows:
    where, what, sizes = host(indices), host(values), ints(shape)
    if where.ndim != 2 or what.shape != where.shape[:1] or where.shape[1] != len(sizes) or len(sizes) < 2:
        raise InvalidArgumentError(
            f"{op}: a sparse set of rank 2 or more is needed, got indices {list(where.shape)}, values "
            f"{list(what.shape)}, shape {list(sizes)}"
        )
    if ((where < 0) | (where >= np.array(sizes, np.int64))).any():
        raise InvalidArgumentError(f"{op}: an index is out of bounds of {list(sizes)}")
    places = np.ravel_multi_index(tuple(where.T), sizes) if len(where) else np.zeros(0, np.int64)
    if validate and len(places) and (np.diff(places) <= 0).any():
        raise InvalidArgumentError(f"{op}: the indices are repeated or out of order")
    return places // max(1, sizes[-1]), what, sizes[:-1]


def _keys(*sets: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
    """(all values in order, for each set its keys)."""
    both = np.concatenate([values for _, values, _ in sets])
    known, codes = np.unique(both, return_inverse=True)
    parts = np.split(codes.reshape(-1), np.cumsum([len(values) for _, values, _ in sets])[:-1])
    return known, [rows * len(known) + code for (rows, _, _), code in zip(sets, parts)]


def _combined(xp: Any, op: str, kind: Any, a: Rows, b: Rows) -> Any:
    name = kind.decode() if isinstance(kind, bytes) else kind
    if name not in _OPERATIONS:
        raise InvalidArgumentError(f"{op}: set_operation must be one of {sorted(_OPERATIONS)}, got {name!r}")
    if a[2] != b[2]:
        raise InvalidArgumentError(
            f"{op}: both sets must have the same shape but for the last size, got {list(a[2])} and {list(b[2])}"
        )
    known, keys = _keys(a, b)
    kept = _OPERATIONS[name](*keys)  # type: ignore[operator]
    rows, codes = np.divmod(kept, max(1, len(known)))
    counts = np.bincount(rows, minlength=math.prod(a[2]))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    indices = np.empty((len(rows), len(a[2]) + 1), np.int64)
    if len(rows):
        indices[:, :-1] = np.transpose(np.unravel_index(rows, a[2]))
    indices[:, -1] = within
    shape = np.array([*a[2], counts.max(initial=0)], np.int64)
    return xp.asarray(indices), known[codes], xp.asarray(shape)


@kernel("DenseToDenseSetOperation", multi=True)
def _dense_dense(xp: Any, a: Any, b: Any, *, set_operation: Any, validate_indices: bool = True) -> Any:
    op = "DenseToDenseSetOperation"
    return _combined(xp, op, set_operation, _dense(op, a), _dense(op, b))


@kernel("DenseToSparseSetOperation", multi=True)
def _dense_sparse(
    xp: Any, a: Any, indices: Any, values: Any, shape: Any, *, set_operation: Any, validate_indices: bool = True
) -> Any:
    op = "DenseToSparseSetOperation"
    return _combined(xp, op, set_operation, _dense(op, a), _sparse(op, indices, values, shape, validate_indices))


@kernel("SparseToSparseSetOperation", multi=True)
def _sparse_sparse(xp: Any, *parts: Any, set_operation: Any, validate_indices: bool = True) -> Any:
    op = "SparseToSparseSetOperation"
    a, b = (_sparse(op, i, v, s, validate_indices) for i, v, s in (parts[:3], parts[3:]))
    return _combined(xp, op, set_operation, a, b)


@kernel("SetSize")
def _size(xp: Any, indices: Any, values: Any, shape: Any, *, validate_indices: bool = True) -> Any:
    own = _sparse("SetSize", indices, values, shape, validate_indices)
    known, (keys,) = _keys(own)
    counts = np.bincount(np.unique(keys) // max(1, len(known)), minlength=math.prod(own[2]))
    return xp.asarray(counts.reshape(own[2]).astype(np.int32))
