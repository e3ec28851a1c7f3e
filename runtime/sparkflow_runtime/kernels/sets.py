"""Sets along the last axis. A value in a row is one number (row * values + value's place), so a set of sets is a
sorted vector, and an operation of all rows is one of two vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.kernels.set_loops import BOTH, ONLY_A, ONLY_B, merge
from sparkflow_runtime.wire.errors import InvalidArgumentError

Rows = tuple[np.ndarray, np.ndarray, tuple[int, ...]]  # (row of each value, values, the rows' shape)

_OPERATIONS = {"intersection": BOTH, "union": ONLY_A + ONLY_B + BOTH, "a-b": ONLY_A, "b-a": ONLY_B}
prepares(
    merge.prepare, "DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation", "SetSize"
)
_WIDEST = 1 << 62


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


class _Coded:
    """Some sets whose values have codes from 0 to `span`, in the order of the values, and keys: row * span + code."""

    def __init__(self, *sets: Rows):
        values = [own for _, own, _ in sets]
        rows = math.prod(sets[0][2])
        self.known: Any = None  # all values in order, where a code is a value's place among them
        self.least, self.kind = 0, values[0].dtype
        if self.kind.kind in "iu" and self.kind != np.uint64 and any(len(v) for v in values):
            self.least = min(int(v.min()) for v in values if len(v))
            self.span = max(int(v.max()) for v in values if len(v)) - self.least + 1
            if self.span * max(1, rows) < _WIDEST and abs(self.least) < _WIDEST:
                self.keys = [
                    own * self.span + (v.astype(np.int64) - self.least) for (own, _, _), v in zip(sets, values)
                ]
                self._sort(sets)
                return
        self.known, codes = np.unique(np.concatenate(values), return_inverse=True)
        self.span = max(1, len(self.known))
        parts = np.split(codes.reshape(-1), np.cumsum([len(v) for v in values])[:-1])
        self.keys = [own * self.span + code for (own, _, _), code in zip(sets, parts)]
        self._sort(sets)

    def _sort(self, sets: tuple[Rows, ...]) -> None:
        """In place; row by row where each has as many."""
        for keys, (own, _, shape) in zip(self.keys, sets):
            rows = math.prod(shape)
            if rows and keys.size % rows == 0 and (own.reshape(rows, -1) == np.arange(rows)[:, None]).all():
                keys.reshape(rows, -1).sort(axis=-1)
            else:
                keys.sort(kind="stable")

    def values(self, codes: Any) -> Any:
        return self.known[codes] if self.known is not None else (codes + self.least).astype(self.kind)


def _merged(a: np.ndarray, b: np.ndarray, kept: int) -> np.ndarray:
    out = np.empty(len(a) + len(b) + 1, np.int64)
    return out[: merge(a, b, out, kept)]


def _combined(xp: Any, op: str, kind: Any, a: Rows, b: Rows) -> Any:
    name = kind.decode() if isinstance(kind, bytes) else kind
    if name not in _OPERATIONS:
        raise InvalidArgumentError(f"{op}: set_operation must be one of {sorted(_OPERATIONS)}, got {name!r}")
    if a[2] != b[2]:
        raise InvalidArgumentError(
            f"{op}: both sets must have the same shape but for the last size, got {list(a[2])} and {list(b[2])}"
        )
    coded = _Coded(a, b)
    own, other = coded.keys
    kept = _merged(own, other, _OPERATIONS[name])
    rows = kept // coded.span
    counts = np.bincount(rows, minlength=math.prod(a[2]))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    indices = np.empty((len(rows), len(a[2]) + 1), np.int64)
    if len(a[2]) == 1:
        indices[:, 0] = rows
    elif len(rows):
        indices[:, :-1] = np.transpose(np.unravel_index(rows, a[2]))
    indices[:, -1] = within
    shape = np.array([*a[2], counts.max(initial=0)], np.int64)
    return xp.asarray(indices), xp.asarray(coded.values(kept - rows * coded.span)), xp.asarray(shape)


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
    coded = _Coded(own)
    (keys,) = coded.keys
    counts = np.bincount(_merged(keys, keys, BOTH) // coded.span, minlength=math.prod(own[2]))
    return xp.asarray(counts.reshape(own[2]).astype(np.int32))
