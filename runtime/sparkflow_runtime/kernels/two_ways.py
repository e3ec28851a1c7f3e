"""A new file written through the page cache or past it, chunk by chunk by the way that has been faster of late.

Through the cache a chunk is a copy (2 GB/s seen) as long as the system has pages at hand. A virtual machine that gives
its free memory back to its host has none: each new page is a fault of the host (0.3 GB/s seen), and where much is dirty
already the writer waits for the disk anyway. Past the cache a chunk takes as long as the disk (1.3 GB/s seen; slow ones
0.1). Neither can be told beforehand, so both are timed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

import numpy as np

PAGE_BYTES = 4096  # what the direct way wants positions, sizes and addresses to be multiples of
_LARGE_BYTES = 1 << 26  # a file from which timing pays
_FIRST_AGAIN = 16  # chunks until the other way is tried again; twice as many each time in vain


def aligned(size: int) -> np.ndarray:
    """Room for `size` bytes that begins at a page."""
    room = np.empty(size + PAGE_BYTES, np.uint8)
    skip = -room.ctypes.data % PAGE_BYTES
    return room[skip : skip + size]


class TwoWays:
    """Any thread may write; `file` is an open one with a descriptor and a name, of `size` bytes in the end."""

    def __init__(self, file: Any, size: int):
        self.cached, self.direct = file.fileno(), -1
        self.lock = threading.Lock()
        self.slowness: dict[int, float] = {}  # descriptor -> seconds a byte, of late
        self.until_again = self.pause = _FIRST_AGAIN
        if size >= _LARGE_BYTES and hasattr(os, "O_DIRECT"):
            with contextlib.suppress(OSError):  # a file system without it, such as tmpfs
                self.direct = os.open(file.name, os.O_WRONLY | os.O_DIRECT)

    def __enter__(self) -> TwoWays:
        return self

    def __exit__(self, *_: object) -> None:
        if self.direct >= 0:
            os.close(self.direct)

    def write(self, chunk: np.ndarray, offset: int) -> None:
        """All of it. chunk: of `aligned`, or a beginning of that."""
        if self.direct < 0 or offset % PAGE_BYTES or chunk.size % PAGE_BYTES:
            _write_all(self.cached, chunk, offset)
            return
        way = self._choose()
        start = time.perf_counter()
        try:
            _write_all(way, chunk, offset)
        except OSError:
            if way == self.cached:
                raise
            _write_all(self.cached, chunk, offset)  # refused for its size or position: the slowness counts as its own
        self._learn(way, (time.perf_counter() - start) / chunk.size)

    def _choose(self) -> int:
        with self.lock:
            untried = [way for way in (self.cached, self.direct) if way not in self.slowness]
            if untried:
                return untried[0]
            best = min(self.slowness, key=self.slowness.__getitem__)
            self.until_again -= 1
            if self.until_again > 0:
                return best
            self.pause = self.until_again = 2 * self.pause
            return self.cached + self.direct - best

    def _learn(self, way: int, slowness: float) -> None:
        with self.lock:
            best = min(self.slowness, key=self.slowness.__getitem__, default=way)
            self.slowness[way] = (self.slowness.get(way, slowness) + slowness) / 2
            if min(self.slowness, key=self.slowness.__getitem__) != best:
                self.pause = self.until_again = _FIRST_AGAIN


def _write_all(handle: int, chunk: np.ndarray, offset: int) -> None:
    left = memoryview(chunk.data)
    while left:
        n = os.pwrite(handle, left, offset)
        left, offset = left[n:], offset + n
