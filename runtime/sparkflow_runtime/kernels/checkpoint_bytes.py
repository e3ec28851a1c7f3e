"""A checkpoint's bytes on their way: written with their checksums, mapped and checked, on as many threads as there are
processors. All that takes time here (copies, checksums, writes) releases the GIL."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google_crc32c
import numpy as np

_CHUNK_BYTES = 1 << 20  # copied, summed and written while it is in the processor's cache
_MANY_BYTES = 1 << 25  # worth a thread; pages of so many are asked for at once
_PAGE = mmap.ALLOCATIONGRANULARITY
_POPULATE = 22  # MADV_POPULATE_READ, Linux 5.14


def write(out: Any, arrays: Sequence[np.ndarray], begins: Sequence[int]) -> list[int]:
    """Write each array at its place in a new file, whose last byte comes before begins[-1]; the crc32c of each.

    The sums are of what was written, even when a step changes an array meanwhile: each chunk is copied once.
    """
    out.flush()
    handle = out.fileno()
    os.truncate(handle, begins[-1])
    return _on_threads(lambda at: _write_one(handle, _flat(arrays[at]), begins[at]), [a.nbytes for a in arrays])


def _write_one(handle: int, flat: np.ndarray, offset: int) -> int:
    crc = 0
    buffer = np.empty(min(_CHUNK_BYTES, flat.size), np.uint8)
    for start in range(0, flat.size, _CHUNK_BYTES):
        rest = flat[start : start + _CHUNK_BYTES]
        chunk = buffer[: rest.size]
        np.copyto(chunk, rest)
        crc = google_crc32c.extend(crc, chunk)
        _write_all(handle, chunk, offset + start)
    return crc


def _write_all(handle: int, chunk: np.ndarray, offset: int) -> None:
    left = memoryview(chunk.data)
    while left:
        n = os.pwrite(handle, left, offset)
        left, offset = left[n:], offset + n


class MappedFile:
    """A file's bytes, read-only; they are read when they are looked at. Arrays of it outlive it and its name."""

    def __init__(self, path: str):
        self._map: mmap.mmap | None = None
        self.data: np.ndarray = np.empty(0, np.uint8)
        if os.path.getsize(path):
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.data = np.frombuffer(self._map, np.uint8)

    def part(self, offset: int, nbytes: int) -> np.ndarray:
        return self.data[offset : offset + nbytes]

    def checksum(self, offset: int, nbytes: int) -> int:
        """The crc32c of these bytes."""
        crc = 0
        for start in range(offset, offset + nbytes, _MANY_BYTES):
            part = self.part(start, min(_MANY_BYTES, offset + nbytes - start))
            self._expect(start, part.size)
            crc = google_crc32c.extend(crc, part)
        return crc

    def _expect(self, offset: int, nbytes: int) -> None:
        """Tell the system that these bytes are wanted now: one call instead of a fault a page."""
        first = offset // _PAGE * _PAGE
        if self._map is not None and first < len(self._map):
            with contextlib.suppress(OSError):  # an older system: pages come one by one
                self._map.madvise(_POPULATE, first, min(len(self._map), offset + nbytes) - first)


def checksums(parts: Sequence[tuple[MappedFile, int, int]]) -> list[int]:
    """The crc32c of each (file, offset, bytes)."""
    return _on_threads(lambda at: parts[at][0].checksum(*parts[at][1:]), [nbytes for _, _, nbytes in parts])


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _on_threads(work: Callable[[int], int], sizes: Sequence[int]) -> list[int]:
    """work(i) for each i, the largest first, so that no thread is left with a big one at the end."""
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    threads = min(os.cpu_count() or 1, 8, len(sizes))
    if threads < 2 or sum(sizes) < _MANY_BYTES:
        return [work(i) for i in range(len(sizes))]
    with ThreadPoolExecutor(threads, "sparkflow-checkpoint") as pool:
        results = dict(zip(order, pool.map(work, order)))
    return [results[i] for i in range(len(sizes))]
