"""The hot loop of operations on sets: two sorted vectors, walked through side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled

_KEYS = "Array(int64, 1, 'C', readonly=True)"
ONLY_A, ONLY_B, BOTH = 1, 2, 4  # added up: which keys are kept


@compiled([f"int64({_KEYS}, {_KEYS}, int64[::1], int64)"])
def merge(a: Any, b: Any, out: Any, kept: Any) -> Any:
    """Put the keys that `kept` names into out, each once and in order; how many they are. a, b: sorted, with repeats.
    out: room for both and one more."""
    i, j, count, one, none = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(1), np.uint64(0)
    ends, other_ends = np.uint64(a.shape[0]), np.uint64(b.shape[0])
    last, first = np.int64(0), True
    while i < ends and j < other_ends:  # without branches: which comes next nobody can guess
        x, y = a[i], b[j]
        key = x if x <= y else y
        found = kept & (BOTH if x == y else ONLY_A if x < y else ONLY_B)
        out[count] = key
        count += one if (found != 0) & (first | (key != last)) else none
        i += one if x <= y else none
        j += one if y <= x else none
        last, first = key, False
    for k in range(i, ends):
        out[count] = a[k]
        count += one if ((kept & ONLY_A) != 0) & (first | (a[k] != last)) else none
        last, first = a[k], False
    for k in range(j, other_ends):
        out[count] = b[k]
        count += one if ((kept & ONLY_B) != 0) & (first | (b[k] != last)) else none
        last, first = b[k], False
    return np.int64(count)


@merge.otherwise
def _(a: Any, b: Any, out: Any, kept: Any) -> int:
    parts = []
    for flag, compute in ((ONLY_A, np.setdiff1d), (ONLY_B, lambda a, b: np.setdiff1d(b, a)), (BOTH, np.intersect1d)):
        if kept & flag:
            parts.append(compute(a, b))
    keys = np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))
    out[: len(keys)] = keys
    return len(keys)
