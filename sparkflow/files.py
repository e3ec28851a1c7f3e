"""Files and folders as tf.gfile and tf.io.gfile have them; what goes wrong is one of tf.errors."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeVar

from sparkflow_runtime.wire import errors

_F = TypeVar("_F", bound=Callable[..., Any])


def _raises(function: _F) -> _F:
    """OSError as the error of tf.errors that says the same."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            path = error.filename or getattr(args[0], "_name", "")  # a file that is open already has none
            raise errors.class_of(error)(f"{os.fsdecode(path)}; {error.strerror or error}") from None

    return call  # type: ignore[return-value]


def _local(path: Any) -> str:
    """The path in this machine's file system. Raises UnimplementedError on that of another one."""
    text = os.fspath(path)
    text = text.decode() if isinstance(text, bytes) else text
    scheme, colon, rest = text.partition("://")
    if colon and scheme != "file":
        raise errors.UnimplementedError(f"File system scheme {scheme!r} not implemented (file: {text!r}); copy it here")
    return rest if colon else text


class GFile:
    """A file, opened when it is first used; a context manager, and its lines can be iterated over.

    mode: r, w, a, r+, w+, a+, each with b for bytes; otherwise it reads and writes text, UTF-8.
    """

    def __init__(self, name: Any, mode: str = "r"):
        if mode.replace("b", "") not in ("r", "w", "a", "r+", "w+", "a+"):
            raise errors.InvalidArgumentError(f"GFile: mode {mode!r} is not r, w, a, r+, w+ or a+, with or without b")
        self._name, self._mode = name, mode
        self._file: IO[Any] | None = None

    name = property(lambda self: self._name)
    mode = property(lambda self: self._mode)

    def _opened(self, reading: bool) -> IO[Any]:
        plain = self._mode.replace("b", "")
        if reading and plain in ("w", "a"):
            raise errors.PermissionDeniedError("File isn't open for reading")
        if not reading and plain == "r":
            raise errors.PermissionDeniedError("File isn't open for writing")
        if self._file is None:
            text = {} if "b" in self._mode else {"encoding": "utf-8", "newline": "\n"}  # \r is a character like others
            self._file = open(_local(self._name), self._mode, **text)  # type: ignore[call-overload] # noqa: SIM115
        return self._file

    @_raises
    def read(self, n: int = -1) -> Any:
        """n characters (bytes in a binary mode), all that is left by default."""
        return self._opened(True).read(n)

    @_raises
    def readline(self) -> Any:
        """Up to the next line feed, with it but without carriage returns; nothing at the end."""
        line = self._opened(True).readline()
        return line.replace("\r", "") if isinstance(line, str) else line.replace(b"\r", b"")

    def readlines(self) -> list[Any]:
        return list(self)

    @_raises
    def write(self, file_content: str | bytes) -> None:
        """Text or bytes, in any mode."""
        file = self._opened(False)
        if isinstance(file_content, str):
            file.write(file_content.encode() if "b" in self._mode else file_content)
        elif "b" in self._mode:
            file.write(file_content)
        else:
            file.flush()
            file.buffer.write(file_content)  # type: ignore[attr-defined]

    @_raises
    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """To offset from the beginning (whence 0), from here (1) or from the end (2). position: its older name."""
        self._opened("r" in self._mode or "+" in self._mode).seek(
            int((position if offset is None else offset) or 0), whence
        )

    @_raises
    def tell(self) -> int:
        return self._opened("r" in self._mode or "+" in self._mode).tell()

    @_raises
    def size(self) -> int:
        self.flush()
        return os.path.getsize(_local(self._name))

    def seekable(self) -> bool:
        return True

    @_raises
    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    @_raises
    def close(self) -> None:
        if self._file is None and self._mode.startswith("w"):
            self._opened(False)  # an empty file is there too
        if self._file is not None:
            self._file.close()
        self._file = None

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:  # many scripts never close what they have read
            file.close()

    def __iter__(self) -> Iterator[Any]:
        return self  # which keeps the file open, as `for line in GFile(name)` needs

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__


class FileStatistics(NamedTuple):
    """length in bytes; mtime_nsec since the epoch."""

    length: int
    mtime_nsec: int
    is_directory: bool


def exists(path: Any) -> bool:
    return os.path.lexists(_local(path))


def isdir(path: Any) -> bool:
    return os.path.isdir(_local(path))


@_raises
def listdir(path: Any) -> list[str]:
    """The names in a folder. Raises NotFoundError where there is none."""
    if not os.path.isdir(_local(path)):
        raise errors.NotFoundError(f"Could not find directory {os.fspath(path)}")
    return os.listdir(_local(path))


@_raises
def glob(pattern: Any) -> list[str]:
    """The paths that match, of one pattern or a list of them."""
    patterns = [pattern] if isinstance(pattern, (str, bytes, os.PathLike)) else pattern
    return [path for one in patterns for path in sorted(_glob.glob(_local(one)))]


@_raises
def mkdir(path: Any) -> None:
    """A folder that may be there. Raises NotFoundError where the one around it is not, AlreadyExistsError on a file."""
    local = _local(path)
    try:
        os.mkdir(local)
    except FileExistsError:
        if not os.path.isdir(local):
            raise


@_raises
def makedirs(path: Any) -> None:
    """With all folders around it; no error where it is there."""
    os.makedirs(_local(path), exist_ok=True)


@_raises
def remove(path: Any) -> None:
    """A file, or an empty folder's link; folders are for rmtree."""
    os.remove(_local(path))


@_raises
def rmtree(path: Any) -> None:
    """A folder and all that is in it, or a file."""
    local = _local(path)
    if os.path.isfile(local):
        os.remove(local)
    else:
        shutil.rmtree(local)


@_raises
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Raises AlreadyExistsError where dst is there, unless overwrite."""
    _check_free(dst, overwrite)
    os.replace(_local(src), _local(dst))


@_raises
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """A file. Raises AlreadyExistsError where dst is there, unless overwrite."""
    _check_free(dst, overwrite)
    shutil.copyfile(_local(src), _local(dst))


def _check_free(path: Any, overwrite: bool) -> None:
    if not overwrite and exists(path):
        raise errors.AlreadyExistsError(f"file already exists: {os.fspath(path)}")


@_raises
def stat(path: Any) -> FileStatistics:
    found = os.stat(_local(path))
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(_local(path)))


def walk(top: Any, topdown: bool = True, onerror: Callable[[OSError], Any] | None = None) -> Iterator[Any]:
    """(folder, names of its folders, names of its files) of everything below; in_order is topdown."""
    return os.walk(_local(top), topdown, onerror)


def get_registered_schemes() -> list[str]:
    return ["", "file"]


def join(path: Any, *paths: Any) -> str:
    return os.path.join(path, *paths)
