"""Parts of an array, of which elementwise work follows, out of memory that they share (master/passes/own_parts.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

_FEWEST, _LONGEST_BYTES = 256, 512  # elements of a part; a run: of longer ones copying gains less than it takes
_MOST_BYTES = 1 << 24  # of all parts: they would be more than the caches hold, and a step's peak would grow


def owned(parts: list[Any]) -> list[Any]:
    """Copies of parts that lie in short runs; other ones as they are."""
    first = parts[0] if parts else None
    if type(first) is not np.ndarray or first.size < _FEWEST or first.flags.c_contiguous or first.dtype.kind == "O":
        return parts
    short = _run_bytes(first) <= _LONGEST_BYTES and first.nbytes * len(parts) <= _MOST_BYTES
    return [part.copy() for part in parts] if short else parts


def _run_bytes(x: Any) -> int:
    run: int = x.itemsize
    for size, stride in zip(x.shape[::-1], x.strides[::-1]):
        if size > 1:
            if stride != run:
                break
            run *= size
    return run
