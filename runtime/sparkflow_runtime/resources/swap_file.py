"""Where arrays wait that a step does not need for a while: an unnamed file on disk, written and read in the background.

The memory of an array is free once it is written; one that is wanted back before that was never away. The file has no
name, so it is gone with the process, and gives its space back when nothing lies in it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import cache
from threading import Condition, Lock, RLock
from typing import Any, BinaryIO

import numpy as np

from sparkflow_runtime.wire.errors import DeadlineExceededError, ResourceExhaustedError
from sparkflow_runtime.wire.temporaries import usual_folder

DIRECTORY = "SPARKFLOW_SWAP_DIR"
TIMEOUT_S = 120.0  # of one array; a disk that is slower than that is broken
_MOST_PENDING_BYTES = 256 << 20  # not yet written: whoever would add to them waits
_PAGE = 4096
_IN_MEMORY = frozenset(["tmpfs", "ramfs"])  # file systems that would keep the arrays where they are
_ADVICE = (
    f"Set {DIRECTORY} to a directory on a disk with room, or RewriterConfig.memory_optimization to what does not swap"
)


def swap_directory() -> str:
    """The user's choice, or the first usual place for temporary files that lies on a disk."""
    return os.environ.get(DIRECTORY) or usual_directory()


@cache
def usual_directory(mounts: str = "/proc/self/mounts") -> str:
    usual = [usual_folder(), "/var/tmp"]
    return next((d for d in usual if os.path.isdir(d) and _kind_of(d, mounts) not in _IN_MEMORY), usual[0])


def _kind_of(directory: str, mounts: str) -> str:
    """The type of the file system that holds it; empty where the system does not say."""
    try:
        with open(mounts, encoding="utf-8") as lines:
            rows = [line.split()[1:3] for line in lines]
    except OSError:
        return ""
    path = os.path.realpath(directory)
    above = [(len(at), kind) for at, kind in rows if path == at or path.startswith(at.rstrip("/") + "/")]
    return max(above, default=(0, ""))[1]


class Swapped:
    """One array on its way to the file, in it, or on its way back."""

    def __init__(self, file: SwapFile, array: np.ndarray, name: str):
        self._file, self.name, self.num_bytes = file, name, array.nbytes
        self._shape, self._dtype = array.shape, array.dtype
        self._array: np.ndarray | None = array
        self._lock = Lock()
        self._offset = -1
        self._written: Future[None] = file.submit(self._write)
        self._back: Future[np.ndarray] | None = None

    def _write(self) -> None:
        try:
            array = self._array
            if array is not None:
                offset = self._file.store(array, self.name)
                with self._lock:
                    self._offset, self._array = offset, None
                weakref.finalize(self, self._file.release, offset, self.num_bytes).atexit = False
        finally:
            self._file.pending(-self.num_bytes)

    def fetch(self) -> None:
        """Begin to bring it back."""
        with self._lock:
            if self._array is None and self._back is None:
                self._back = self._file.submit(self._read)

    def _read(self) -> np.ndarray:
        array = np.empty(self._shape, self._dtype)
        self._file.load(array, self._offset, self.name)
        return array

    def take(self, timeout_s: float = TIMEOUT_S) -> np.ndarray:
        """The array, waited for where need be; another time it is read again. Raises what went wrong with the file."""
        with self._lock:
            array = self._array
        if array is not None:
            if self._written.done():
                self._wait(self._written, timeout_s)  # it failed, or is done with this very moment
            return array
        self.fetch()
        with self._lock:
            back, self._back = self._back, None
        return self._wait(back or self._file.submit(self._read), timeout_s)

    def _wait(self, future: Future[Any], timeout_s: float) -> Any:
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            raise DeadlineExceededError(
                f"Swapping {self.name!r} ({self.num_bytes} bytes): the file in {self._file.directory!r} did not answer "
                f"in {timeout_s:g} s. {_ADVICE}"
            ) from None


class SwapFile:
    """One file for all arrays of a process, opened at first use."""

    def __init__(self, directory: str | None = None):
        self.directory = directory or swap_directory()
        self._file: BinaryIO | None = None
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="sparkflow-swap")
        self._lock = RLock()
        self._changed = Condition(self._lock)  # of which `with` may be interrupted and leave the lock taken
        self._pending_bytes = 0
        self._end = self._used = 0
        self._free: dict[int, list[int]] = {}  # size of a hole -> where such holes are

    def put(self, array: np.ndarray, name: str, timeout_s: float = TIMEOUT_S) -> Swapped:
        """Begin to write it. Nobody may change the array from now on."""
        with self._lock:
            room = self._changed.wait_for(
                lambda: not self._pending_bytes or self._pending_bytes + array.nbytes <= _MOST_PENDING_BYTES, timeout_s
            )
            if not room:
                raise DeadlineExceededError(
                    f"Swapping {name!r}: {self._pending_bytes} bytes before it were not written to a file in "
                    f"{self.directory!r} in {timeout_s:g} s. {_ADVICE}"
                )
            self._pending_bytes += array.nbytes
        return Swapped(self, np.ascontiguousarray(array).reshape(array.shape), name)

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        return self._pool.submit(work)

    def pending(self, more: int) -> None:
        with self._lock:
            self._pending_bytes += more
            self._changed.notify_all()

    @property
    def used_bytes(self) -> int:
        return self._used

    # ------------------------------------------------------------------ the file

    def store(self, array: np.ndarray, name: str) -> int:
        """Write it somewhere; returns where. Raises ResourceExhaustedError when the disk does not take it."""
        try:
            offset = self._room(_rounded(array.nbytes))
            data, done = _bytes_of(array), 0
            while done < len(data):
                done += os.pwrite(self._descriptor(), data[done:], offset + done)
            return offset
        except OSError as error:
            raise self._failed("write", name, array.nbytes, error) from error

    def load(self, array: np.ndarray, offset: int, name: str) -> None:
        data, done = _bytes_of(array), 0
        try:
            while done < len(data):
                count = os.preadv(self._descriptor(), [data[done:]], offset + done)
                if not count:
                    raise OSError("the file ends too early")
                done += count
        except OSError as error:
            raise self._failed("read", name, array.nbytes, error) from error

    def _failed(self, what: str, name: str, num_bytes: int, error: OSError) -> ResourceExhaustedError:
        try:
            status = os.statvfs(self.directory)
            left = f"{status.f_bavail * status.f_frsize} bytes are free there"
        except OSError:
            left = "it is no directory that can be used"
        return ResourceExhaustedError(
            f"Swapping {name!r}: cannot {what} {num_bytes} bytes in a file in {self.directory!r}: "
            f"{error.strerror or error}; {left}. {_ADVICE}"
        )

    def _descriptor(self) -> int:
        import tempfile

        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.directory, buffering=0)  # noqa: SIM115 - lives on
                weakref.finalize(self, self._file.close)
            return self._file.fileno()

    def _room(self, size: int) -> int:
        descriptor = self._descriptor()
        with self._lock:
            holes = self._free.get(size)
            if holes:
                offset = holes.pop()
            else:
                os.posix_fallocate(descriptor, self._end, max(1, size))
                offset, self._end = self._end, self._end + size
            self._used += size
            return offset

    def release(self, offset: int, num_bytes: int) -> None:
        """Nobody wants what lies there any more."""
        size = _rounded(num_bytes)
        with self._lock:
            self._used -= size
            self._free.setdefault(size, []).append(offset)
            if self._used == 0 and self._end > _MOST_PENDING_BYTES and self._file is not None:
                os.ftruncate(self._file.fileno(), 0)
                self._end, self._free = 0, {}

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._file is not None:
            self._file.close()


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _rounded(num_bytes: int) -> int:
    return -(-num_bytes // _PAGE) * _PAGE


class _Shared:
    file: SwapFile | None = None
    lock = Lock()


def swap_file() -> SwapFile:
    """The process's own. A fork gets another one."""
    with _Shared.lock:
        if _Shared.file is None or _Shared.file.directory != swap_directory():
            _Shared.file = SwapFile()
        return _Shared.file


def _forget() -> None:
    _Shared.file, _Shared.lock = None, Lock()


os.register_at_fork(after_in_child=_forget)
