"""Memory for tables, whose rows are looked up anywhere in them: in huge pages, so that few look-ups wait for the page
table, and on a line of the cache, so that a row of 16 floats is in one.

malloc puts arrays 16 bytes behind the start of a page, and hundreds of tables of some 100 KB into small pages. Here
they lie side by side in chunks; a chunk is given back when the last of its tables is gone, but for the one that is
being filled.
"""

from __future__ import annotations

import math
import mmap
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.memory import address

_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 26  # smaller ones stay in a cache; a larger one would be held twice for long
_CHUNK_BYTES, _PAGE_BYTES, _LINE_BYTES = 1 << 25, 1 << 21, 64  # alone, a table takes up to a page more than it needs


def takes(value: Any) -> bool:
    """Whether a variable of such values is a table that is worth the copy."""
    if type(value) is not np.ndarray or value.ndim < 2 or value.dtype.kind not in "fiu":
        return False
    return _LEAST_BYTES <= value.nbytes <= _MOST_BYTES


def new_table(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Uninitialised. Views of it have it for their base, as those of an array that owns its memory."""
    size = math.prod(shape) * dtype.itemsize
    with _lock:
        chunk, at = _chunks.place(-(-size // _LINE_BYTES) * _LINE_BYTES)
    return np.ndarray(shape, dtype, chunk, at)


class _Chunks:
    """The chunk that is being filled."""

    def __init__(self) -> None:
        self._chunk, self._at, self._end = mmap.mmap(-1, 1), 0, 0

    def place(self, size: int) -> tuple[mmap.mmap, int]:
        """(the memory, where in it the next so many bytes are)."""
        if size > _CHUNK_BYTES // 2:
            return _mapped(size)
        if self._at + size > self._end:
            self._chunk, self._at = _mapped(_CHUNK_BYTES)
            self._end = self._at + _CHUNK_BYTES
        at, self._at = self._at, self._at + size
        return self._chunk, at


def _mapped(size: int) -> tuple[mmap.mmap, int]:
    """Memory of its own, and where in it the first huge page begins."""
    found = mmap.mmap(-1, size + _PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        found.madvise(mmap.MADV_HUGEPAGE)
    return found, -address(np.ndarray(1, np.uint8, found)) % _PAGE_BYTES


_chunks, _lock = _Chunks(), Lock()
