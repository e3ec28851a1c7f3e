"""A checkpoint's bytes on their way: written with their checksums, mapped and checked, on as many threads as there are
processors: copies, system calls and sums (28 GB/s in the cache) release the GIL."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from sparkflow_runtime.kernels.two_ways import PAGE_BYTES, TwoWays, aligned
from sparkflow_runtime.wire.checksums import crc32c

_CHUNK_BYTES = 1 << 20  # copied, summed and written while it is in the processor's cache
_MANY_BYTES = 1 << 25  # worth a thread
Part = TypeVar("Part")
Result = TypeVar("Result")


def write(out: Any, arrays: Sequence[np.ndarray], begins: Sequence[int]) -> list[int]:
    """Write each array at its place in a new file, whose last byte comes before begins[-1]; the crc32c of each.

    The sums are of what was written, even when a step changes an array meanwhile: each chunk is copied once.
    """
    out.flush()
    os.truncate(out.fileno(), begins[-1])
    parts = _together([a.nbytes for a in arrays])

    def work(part: tuple[int, int]) -> list[int]:
        first, last = part
        if last - first == 1:
            return [_write_one(file, _flat(arrays[first]), begins[first])]
        return _write_some(file, [_flat(a) for a in arrays[first:last]], begins[first])

    with TwoWays(out, begins[-1]) as file:
        return list(chain(*_on_threads(work, parts, [begins[last] - begins[first] for first, last in parts])))


def _together(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where runs of arrays begin and end that are written at once: as many neighbours as make up one chunk, or one."""
    parts, first, room = [], 0, _CHUNK_BYTES
    for i, size in enumerate(sizes):
        if i > first and size > room:
            parts.append((first, i))
            first, room = i, _CHUNK_BYTES
        room -= size
    return [*parts, (first, len(sizes))] if sizes else []


def _write_some(file: TwoWays, arrays: Sequence[np.ndarray], offset: int) -> list[int]:
    buffer, crcs, at = aligned(sum(flat.size for flat in arrays)), [], 0
    for flat in arrays:
        chunk = buffer[at : at + flat.size]
        np.copyto(chunk, flat)
        crcs.append(crc32c(chunk.data))
        at += flat.size
    file.write(buffer, offset)
    return crcs


def _write_one(file: TwoWays, flat: np.ndarray, offset: int) -> int:
    crc = 0
    buffer = aligned(min(_CHUNK_BYTES, flat.size))
    at = 0
    while at < flat.size:
        room = _CHUNK_BYTES - (offset + at) % PAGE_BYTES  # chunks but the first begin at a page of the file
        rest = flat[at : at + room]
        chunk = buffer[: rest.size]
        np.copyto(chunk, rest)
        crc = crc32c(chunk.data, crc)
        file.write(chunk, offset + at)
        at += rest.size
    return crc


def mapped(path: str) -> np.ndarray:
    """A file's bytes, read-only; they outlive the file's name."""
    with open(path, "rb", buffering=0) as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def checksums(parts: Sequence[np.ndarray]) -> list[int]:
    """The crc32c of each, read where it is mapped: a copy of 2 GB into the processor's cache took 0.24 s where this
    takes 0.15, the entries of the page tables included, which the copy that follows needs too."""
    return _on_threads(lambda part: crc32c(part.data), parts, [part.size for part in parts])


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _on_threads(work: Callable[[Part], Result], parts: Sequence[Part], sizes: Sequence[int]) -> list[Result]:
    """work(part) for each, the largest first, so that no thread is left with a big one at the end."""
    threads = min(os.cpu_count() or 1, 8, len(parts))
    if threads < 2 or sum(sizes) < _MANY_BYTES:
        return list(map(work, parts))
    order = sorted(range(len(parts)), key=lambda i: -sizes[i])
    with ThreadPoolExecutor(threads, "sparkflow-checkpoint") as pool:
        results = dict(zip(order, pool.map(work, [parts[i] for i in order])))
    return [results[i] for i in range(len(parts))]
