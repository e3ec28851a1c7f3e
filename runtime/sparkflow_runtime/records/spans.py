"""Runs of bytes that lie apart, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records.native import move, raw, teach


@compiled(["void(uint8[::1], int64[::1], int64[::1], uint8[::1])"], before=teach)
def _gather(buffer: Any, starts: Any, offsets: Any, out: Any) -> None:
    source, target = raw(buffer), raw(out)
    for i in range(len(starts)):
        move(source, starts[i], offsets[i + 1] - offsets[i], target, offsets[i])


def gathered(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the bytes buffer[starts[i]:ends[i]] of all i, int64 offsets); buffer: uint8, writable."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    _gather(buffer, np.ascontiguousarray(starts), offsets, out)
    return out, offsets
