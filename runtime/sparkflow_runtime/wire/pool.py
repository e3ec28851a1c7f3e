"""Buffers for large payloads, used again: fresh pages from the kernel cost more than the receive into them.

A buffer comes home when no view of it lives: every view holds, through numpy's `base`, one memoryview over the
buffer, and a weak reference to that memoryview tells when it dies. That may be in any thread, at any point, even
inside this module: so there is no lock here, only single operations that the interpreter keeps whole.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import numpy as np

MIN_BYTES = 1 << 20
KEEP_BYTES = 256 << 20  # of idle buffers; a buffer that comes home beyond it goes back to the system

_idle: dict[int, deque[mmap.mmap]] = {}  # by size
_lent: dict[int, _Lease] = {}


class _Lease(weakref.ref):
    __slots__ = ("buffer",)
    buffer: mmap.mmap


def empty(nbytes: int) -> np.ndarray:
    """An uninitialised uint8 array of `nbytes`; page-aligned and pooled from MIN_BYTES on."""
    if nbytes < MIN_BYTES:
        return np.empty(nbytes, np.uint8)
    buffer = _take(size_class(nbytes))
    array = np.frombuffer(buffer, np.uint8, nbytes)
    lease = _Lease(array.base, _come_home)
    lease.buffer = buffer
    _lent[id(lease)] = lease
    return array


def idle_bytes() -> int:
    return sum(size * len(buffers) for size, buffers in _idle.copy().items())


def size_class(nbytes: int) -> int:
    """The next of eight steps per power of two: at most an eighth lies idle."""
    step = 1 << ((nbytes - 1).bit_length() - 4)
    return -(-nbytes // step) * step


def _take(size: int) -> mmap.mmap:
    try:
        return _idle[size].popleft()
    except (KeyError, IndexError):
        buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a fork writes into pages of its own
        if hasattr(mmap, "MADV_HUGEPAGE"):
            buffer.madvise(mmap.MADV_HUGEPAGE)
        return buffer


def _come_home(lease: _Lease) -> None:
    del _lent[id(lease)]
    size = len(lease.buffer)
    if idle_bytes() + size <= KEEP_BYTES:
        _idle.setdefault(size, deque()).append(lease.buffer)
