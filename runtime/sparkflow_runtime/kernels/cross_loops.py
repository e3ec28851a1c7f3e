"""Crosses of columns that have one value in every row, hashed: a loop that reads strings where Python holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.records.fingerprints import PARTS, fingerprint_at
from sparkflow_runtime.records.held_texts import AS_EXPECTED, begin_at, length_at
from sparkflow_runtime.records.native import teach, word_at

_MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)
_47 = np.uint64(47)
_INT64 = np.dtype(np.int64)


def mixed(x: Any) -> Any:
    return x ^ (x >> _47)


def joined(found: Any, more: Any) -> Any:
    """FingerprintCat64: one hash of two, in which their order counts."""
    both = (found ^ _MULTIPLIER) ^ (mixed(more * _MULTIPLIER) * _MULTIPLIER)
    return mixed(mixed(both * _MULTIPLIER) * _MULTIPLIER)


def crossed(columns: Sequence[tuple[Any, Any]], rows: int, key: int, buckets: int) -> tuple[Any, Any] | None:
    """(indices, ids) of columns of (indices, or None of a dense one; values); None where one has not exactly one value
    in each row, or values of a type that the loop does not read."""
    about, held = [], []
    for indices, values in columns:
        if values.size != rows or values.dtype not in (_INT64, object) or not (AS_EXPECTED or values.dtype == _INT64):
            return None
        entries, width = 0, 0
        if indices is None:
            if values.ndim != 2:
                return None
        else:
            if indices.dtype != np.int64 or indices.ndim != 2 or len(indices) != rows or not indices.shape[1]:
                return None
            held.append(indices := np.ascontiguousarray(indices))
            entries, width = address(indices), indices.shape[1]
        held.append(values := np.ascontiguousarray(values))
        about.append((entries, width, address(values), values.dtype == object))
    indices, found = np.empty((rows, 2), np.int64), np.empty(rows, np.uint64)
    how = np.array([key, buckets], np.uint64)
    done = cross_rows(np.array(about, np.int64), id(bytes), how, indices, found)
    return (indices, found.view(np.int64)) if done else None


@compiled(
    ["int64(int64[:,::1], int64, uint64[::1], int64[:,::1], uint64[::1])"],
    before=teach,
    nogil=False,
    parts=(*PARTS, length_at, begin_at, mixed, joined),
)
def cross_rows(columns: Any, kind: int, how: Any, indices: Any, found: Any) -> int:
    """Whether every column has one value in each row, which ids are found of then."""
    for i in range(found.shape[0]):
        one = how[0]
        for c in range(columns.shape[0]):
            entries, values = columns[c, 0], columns[c, 2]
            if entries != 0 and word_at(entries, columns[c, 1] * i) != i:
                return 0
            if columns[c, 3] != 0:
                n = length_at(values, i, kind)
                if n < 0:
                    return 0
                one = joined(one, fingerprint_at(begin_at(values, i), n))
            else:
                one = joined(one, np.uint64(word_at(values, i)))
        found[i] = one % how[1]
        indices[i, 0] = i
        indices[i, 1] = 0
    return 1


@cross_rows.otherwise
def _(columns: Any, kind: int, how: Any, indices: Any, found: Any) -> int:
    """Column by column numpy does it faster: it is told to."""
    return 0
