"""Copies of rows made without letting go of the GIL.

numpy releases it for every copy of more than a few hundred items. Where another thread waits for it, which is the rule
between the producers and consumers of a queue, each such copy hands the processor over and back: two threads that move
rows of 135 KB through one queue changed places three times a batch, and twice in twenty batches with these (2.5 and
11 million rows/s). What takes longer to copy than to hand over is left to numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

HELD_BYTES = 1 << 20  # 0.1 ms
PLAIN = frozenset("?bhilqBHILQefdFD")  # what the buffer protocol knows


def copied(array: np.ndarray) -> np.ndarray:
    """A copy in memory of its own, rows one after the other."""
    if array.nbytes > HELD_BYTES or array.dtype.char not in PLAIN or not array.flags.c_contiguous:
        return array.copy()
    return np.ndarray(array.shape, array.dtype, bytearray(array))


def joined(parts: Sequence[Any]) -> np.ndarray:
    """The rows of all parts, which have one dtype and rows of one shape."""
    rows, first = sum(map(len, parts)), parts[0]
    plain = first.dtype.char in PLAIN and all(part.flags.c_contiguous for part in parts)
    if not plain or sum(part.nbytes for part in parts) > HELD_BYTES:
        return np.concatenate(parts)
    return np.ndarray((rows, *first.shape[1:]), first.dtype, bytearray().join(parts))
