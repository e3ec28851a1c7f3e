"""TFRecord files in blocks of whole records, and back."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from sparkflow_runtime.records.framing import FOOTER, HEADER, Frames, frame, frames, next_record
from sparkflow_runtime.wire.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)

BLOCK_BYTES = 4 << 20
_LARGE_BYTES = 64 << 10  # of a record
_PIECE = 4096  # compressed bytes at once: so much is lost before what is damaged
COMPRESSIONS = ("", "GZIP", "ZLIB")


class Block(NamedTuple):
    """Records buffer[starts[i]:ends[i]] (uint8, writable); offset: where in the file (decompressed) the buffer
    begins."""

    buffer: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    offset: int

    def records(self) -> list[bytes]:
        if len(self.buffer) > _LARGE_BYTES * len(self.starts):  # one copy of each, where a view costs nothing beside it
            return [self.buffer[start:end].tobytes() for start, end in zip(self.starts, self.ends)]
        view = self.buffer.tobytes()
        return [view[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist())]


class RecordFile:
    """The records of one file, from the beginning.

    path: a local one, or a URI that pyarrow.fs knows (s3://, hdfs://, file:// ...). compression: '', 'GZIP' or 'ZLIB'.
    reuse: a block's buffer holds until the next block is asked for: fresh memory costs as much as the reading.
    skip_damaged: leave out what is damaged and go on at the next whole record; `skipped` counts such places. Otherwise
    DataLossError with file and position, which tells of that choice unless it is None. Raises NotFoundError,
    PermissionDeniedError.
    """

    def __init__(
        self,
        path: str,
        compression: str = "",
        skip_damaged: bool | None = None,
        block_bytes: int = BLOCK_BYTES,
        reuse: bool = False,
    ):
        self.path, self.skip_damaged, self.skipped = path, skip_damaged, 0
        self._block_bytes = block_bytes
        self._buffers = [np.empty(0, np.uint8)] * 2 if reuse else []
        self._stream = open_stream(path, "rb", compression)

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    def blocks(self) -> Iterator[Block]:
        left, offset, more, searching = np.empty(0, np.uint8), 0, True, False
        want = self._block_bytes
        while more or len(left):
            buffer, more = self._next(left, want if more else 0, offset)
            left = buffer[:0]  # the memory of what came before goes now
            at, searching = self._resume(buffer, searching)
            found = frames(buffer[at:])
            if len(found.starts):
                yield Block(buffer, found.starts + at, found.ends + at, offset)
            used = at + found.used
            want = self._block_bytes if used else max(self._block_bytes, min(2 * want, _missing(buffer)))
            if found.bad:
                used, searching = self._after_damage(buffer, used, found, offset)
            elif not more and used < len(buffer) and not searching:
                self._damaged(f"the file ends inside the record that begins at byte {offset + used}")
                return
            left, offset = buffer[used:], offset + used
            if not more and searching:
                return

    def _resume(self, buffer: np.ndarray, searching: bool) -> tuple[int, bool]:
        """(where the next record begins, whether it is still to be found)."""
        if not searching:
            return 0, False
        at = next_record(buffer, 0)
        return (max(0, len(buffer) - HEADER + 1), True) if at is None else (at, False)

    def _after_damage(self, buffer: np.ndarray, at: int, found: Frames, offset: int) -> tuple[int, bool]:
        """The same after a damaged record at `at`: a right length says where the next one begins."""
        self._damaged(f"{found.bad} that begins at byte {offset + at} is wrong")
        if found.bad.endswith("record"):
            return at + HEADER + int(buffer[at : at + 8].view("<i8")[0]) + FOOTER, False
        return at + 1, True

    def _damaged(self, what: str) -> None:
        if not self.skip_damaged:
            told = f"{self.path}: {what}. The file is damaged, not finished, or no TFRecord file of this compression"
            raise DataLossError(
                told if self.skip_damaged is None else f"{told}; on_error='skip' leaves such records out"
            )
        self.skipped += 1

    def _next(self, left: np.ndarray, size: int, offset: int) -> tuple[np.ndarray, bool]:
        """(`left` and up to `size` bytes more of the file, whether there were any)."""
        have = len(left)
        buffer = self._memory(have + size)
        buffer[:have] = left
        read = self._read(buffer[have:], offset + have) if size else 0
        return buffer[: have + read], read > 0

    def _memory(self, size: int) -> np.ndarray:
        """Of two that take turns, as what is left of a block is copied into the next one."""
        if not self._buffers:
            return np.empty(size, np.uint8)
        buffer = self._buffers.pop(0)
        self._buffers.append(buffer if len(buffer) >= size else np.empty(size, np.uint8))
        return self._buffers[-1][:size]

    def _read(self, target: np.ndarray, offset: int) -> int:
        try:
            return int(self._stream.readinto(target.data))  # type: ignore[attr-defined]  # any buffered stream has it
        except (EOFError, zlib.error) as error:
            self._damaged(f"decompression ended at byte {offset}: {error}")
            return 0
        except OSError as error:
            raise DataLossError(f"{self.path}: cannot be read at byte {offset}: {error}") from error


def _missing(buffer: np.ndarray) -> int:
    """The bytes that the record lacks which begins here: it is longer than a block."""
    return HEADER + int(buffer[:8].view("<i8")[0]) + FOOTER - len(buffer) if len(buffer) >= HEADER else 0


class RecordWriter:
    """Writes records to a file; it is there, empty, from the start, and whole after `close`.

    held: whether it is open all the while. Otherwise it is a local file that is opened at each writing: there may be
    more of them than a process may have open. level: of compression, 0 to 9; -1: zlib's own.
    """

    def __init__(self, path: str, compression: str = "", held: bool = True, level: int = -1):
        self.path = path
        self._stream = open_stream(path, "wb" if held else "ab", compression, level)

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, record: bytes) -> None:
        self._stream.write(frame(record))

    def write_framed(self, data: np.ndarray) -> None:
        """Many records with their frames, uint8."""
        self._stream.write(data.data)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()


@contextmanager
def opened(path: str, compression: str) -> Iterator[BinaryIO]:
    """What is in the file. Raises DataLossError where it is damaged or of another compression, and as `open_stream`
    does."""
    stream = open_stream(path, "rb", compression)
    try:
        with io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream as file:
            yield file
    except (EOFError, zlib.error) as error:
        raise DataLossError(f"{path}: {error}. It is damaged, cut short, or no {compression} file") from None


def open_stream(path: str, mode: str, compression: str = "", level: int = -1) -> BinaryIO:
    """A file, decompressed or to be compressed, at that level; mode "ab": see `_Reopened`.

    Raises NotFoundError, PermissionDeniedError, FailedPreconditionError, InvalidArgumentError.
    """
    if compression not in COMPRESSIONS:
        raise InvalidArgumentError(
            f"compression: expected one of {', '.join(map(repr, COMPRESSIONS))}, got {compression!r}"
        )
    try:
        if "://" in path:
            raw: Any = _remote(path, mode)
        else:
            raw = _Reopened(path) if mode == "ab" else open(path, mode)  # noqa: SIM115 - it is what is given back
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: {error.strerror or error}") from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{path}: {error.strerror or error}") from None
    except IsADirectoryError:
        raise FailedPreconditionError(f"{path} is a directory, not a file of records") from None
    if compression and mode == "rb":
        return _Inflated(raw, compression)  # type: ignore[return-value]
    if compression == "GZIP":
        return _Gzip(raw, level)  # type: ignore[return-value]
    if compression == "ZLIB":
        return _Deflated(raw, level)  # type: ignore[return-value]
    return raw


def _remote(path: str, mode: str) -> Any:
    from pyarrow import fs

    system, inner = fs.FileSystem.from_uri(path)
    return system.open_input_stream(inner) if mode == "rb" else system.open_output_stream(inner)


class _Reopened(io.RawIOBase):
    """A file that is open only while something is written behind what is in it."""

    def __init__(self, path: str):
        self._path = path
        with open(path, "wb"):
            pass

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with open(self._path, "ab") as file:
            return file.write(data)


class _Gzip(gzip.GzipFile):
    """Closes the file below too."""

    def __init__(self, raw: BinaryIO, level: int):
        self._below = raw
        super().__init__(fileobj=raw, mode="wb", compresslevel=level, mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._below.close()


class _Inflated(io.RawIOBase):
    """A zlib stream, or the members of a gzip file, as a file. Where the data are damaged it gives what comes before,
    then raises EOFError or zlib.error."""

    def __init__(self, raw: BinaryIO, compression: str):
        self._raw, self._members = raw, compression == "GZIP"
        self._inflate, self._given, self._at = self._begun(), memoryview(b""), 0

    def _begun(self) -> Any:
        return zlib.decompressobj(wbits=31 if self._members else 15)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        """As much as fits, up to the end or to what is damaged."""
        view, at = memoryview(target).cast("B"), 0
        while at < len(view):
            try:
                data = self._next(len(view) - at)
            except (EOFError, zlib.error):
                if at:  # the next call meets it again
                    break
                raise
            if not data:
                break
            view[at : at + len(data)] = data
            at += len(data)
        return at

    def _next(self, most: int) -> bytes:
        """Some bytes; none at the end."""
        while True:
            if self._inflate.eof and not self._another_member():
                return b""
            if not self._more():
                if not self._raw.tell():  # an empty file: to TensorFlow and gzip it has no record, as a plain one
                    return b""
                raise EOFError("the compressed data end early")
            piece = self._given[self._at : self._at + _PIECE]
            data = bytes(self._inflate.decompress(piece, most))
            inflate = self._inflate
            self._at += len(piece) - len(inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
            if data:
                return data

    def _another_member(self) -> bool:
        while self._members and self._more():
            if self._given[self._at]:
                self._inflate = self._begun()
                return True
            self._at += 1  # zeros may fill a file up
        return False

    def _more(self) -> bool:
        if self._at == len(self._given):
            self._given, self._at = memoryview(self._raw.read(1 << 18)), 0
        return bool(len(self._given))

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Deflated(io.RawIOBase):
    def __init__(self, raw: BinaryIO, level: int):
        self._raw, self._deflate = raw, zlib.compressobj(level)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._raw.write(self._deflate.compress(data))
        return len(data)

    def flush(self) -> None:
        if not self._raw.closed:
            self._raw.flush()

    def close(self) -> None:
        if not self.closed:
            self._raw.write(self._deflate.flush())
            self._raw.close()
        super().close()
