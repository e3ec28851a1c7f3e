"""A partition on the task's own disk: appended to as its rows come, in Arrow's IPC form, and mapped or read afterwards.

The file has no name when its first row is written, so its space is free when the processes that hold it end, however
they end. It goes from process to process as a file descriptor, and what is in it as a list of places.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkflow_connectors.layout import Block, Layout
from sparkflow_runtime.wire.errors import DataLossError, ResourceExhaustedError
from sparkflow_runtime.wire.temporaries import usual_folder

_PARTS_AT_ONCE = 512  # that the kernel is asked to fill, which takes 1,024


class Place(NamedTuple):
    """Where a block of rows lies in the file."""

    offset: int
    nbytes: int
    rows: int


class Spool:
    """Blocks of rows in a file; `places` tells where. What is read are views of the file.

    fd: of a file that another process writes; taken over. Without it the file is made here, in `directory`, or where
    TMPDIR points.
    """

    def __init__(self, layout: Layout, fd: int | None = None, directory: str | None = None):
        self.layout, self.places, self.rows = layout, list[Place](), 0
        self._directory = directory or usual_folder()
        self._writer: _Writer | None = None
        self._inside = dict[tuple[int, int], list[tuple[int, int]]]()  # by a block's size in the file and its rows
        self._fd = fd  # None: the file is made when it is first written to, where an error of that is told

    def _made(self) -> int:
        try:
            with tempfile.TemporaryFile(prefix="sparkflow-", dir=self._directory) as file:
                return os.dup(file.fileno())
        except OSError as error:
            raise self._full(error, 0) from error

    @property
    def fd(self) -> int:
        """Raises ResourceExhaustedError where the file cannot be made."""
        if self._fd is None:
            self._fd = self._made()
        return self._fd

    def append(self, block: Block) -> Place:
        """Write rows behind the others. Raises ResourceExhaustedError on a full disk."""
        batch = self.layout.batch(block)
        try:
            if self._writer is None:
                self._writer = _Writer(self.fd, self.layout.schema)
            offset, nbytes = self._writer.write(batch)
        except OSError as error:
            raise self._full(error, batch.nbytes) from error
        place = Place(offset, nbytes, batch.num_rows)
        self.add(place)
        return place

    def add(self, place: Place) -> None:
        """Another process has written rows there."""
        self.places.append(place)
        self.rows += place.rows

    def read(self, number: int) -> Block:
        """Block `number`: read-only views of the file, which is mapped as long as one of them lives."""
        offset, nbytes, _ = self.places[number]
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        mapped = mmap.mmap(self.fd, offset + nbytes - begin, flags=flags, prot=mmap.PROT_READ, offset=begin)
        return self._block(pa.py_buffer(mapped).slice(offset - begin, nbytes))

    def read_to(self, number: int, out: Block, at: int) -> None:
        """Copy block `number` to the rows [at, ...) of `out`, straight from the file: half the price of mapping it.
        Raises DataLossError where the file is too short."""
        offset, nbytes, rows = self.places[number]
        inside = self._inside.get((nbytes, rows))
        if inside is None:
            inside = self._inside[nbytes, rows] = self._look_inside(number)
        parts = list[np.ndarray]()
        for skipped, which in inside:
            if not parts:
                offset += skipped
            elif skipped:
                parts.append(np.empty(skipped, np.uint8))
            parts.append(_bytes_of(out[which][at : at + rows]))
        for first in range(0, len(parts), _PARTS_AT_ONCE):
            offset = self._read(parts[first : first + _PARTS_AT_ONCE], offset)

    def _read(self, parts: list[np.ndarray], offset: int) -> int:
        """Fill the parts, one after the other; where the file goes on behind them."""
        wanted = sum(part.nbytes for part in parts)
        if os.preadv(self.fd, parts, offset) != wanted:  # type: ignore[arg-type]
            raise DataLossError(f"The spool in {self._directory} ends inside the block at byte {offset}")
        return offset + wanted

    def _look_inside(self, number: int) -> list[tuple[int, int]]:
        """The components of a block as they follow in its message, (bytes to skip, number), as Arrow finds them. They
        lie so in all blocks of the same size."""
        offset, nbytes, _ = self.places[number]
        message = np.empty(nbytes, np.uint8)
        self._read([message], offset)
        block, found, end = self._block(pa.py_buffer(message)), list[tuple[int, int]](), message.ctypes.data
        for which in sorted(range(len(block)), key=lambda i: int(block[i].ctypes.data)):
            if block[which].nbytes:
                found.append((block[which].ctypes.data - end, which))
                end = block[which].ctypes.data + block[which].nbytes
        return found

    def _block(self, message: pa.Buffer) -> Block:
        return self.layout.block(pa.ipc.read_record_batch(message, self.layout.schema))

    def close(self) -> None:
        """Give the file up; what was read stays as long as it is used."""
        if self._writer is not None:
            self._writer.close()
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _full(self, error: OSError, nbytes: int) -> ResourceExhaustedError:
        return ResourceExhaustedError(
            f"Cannot spool {nbytes} bytes of rows, after {self.rows} rows, to {self._directory}: "
            f"{error.strerror or error}. Free space there, or point TMPDIR to another disk"
        )


def _bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


class _Writer:
    """Arrow's stream writer on a file descriptor, which stays the caller's."""

    def __init__(self, fd: int, schema: pa.Schema):
        self._sink = pa.OSFile(f"/dev/fd/{fd}", "wb")
        self._stream = pa.ipc.new_stream(self._sink, schema)
        none = [pa.nulls(0, field.type) for field in schema]
        self._stream.write_batch(pa.RecordBatch.from_arrays(none, schema=schema))  # the schema goes out with the first

    def write(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """(offset, bytes) of the batch's message."""
        begin = self._sink.tell()
        self._stream.write_batch(batch)
        self._sink.flush()
        return begin, self._sink.tell() - begin

    def close(self) -> None:
        self._sink.close()
