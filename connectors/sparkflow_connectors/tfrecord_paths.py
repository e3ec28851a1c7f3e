"""Which files a path of record files means: a folder's, those of a pattern, one by its name.

What a writer has not shown yet, and what lies beside records, has a name that begins with _ or . and is not read.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from sparkflow_runtime.wire.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CHOICE = re.compile(r"\{([^{}]*)\}")  # an innermost one


def local_path(path: str | os.PathLike[str]) -> str:
    """A path of a mounted file system, which may be written as file:///...

    Raises InvalidArgumentError on none, and on one of another store, which would be a folder of that name here.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"path: expected the name of a folder or file, got {type(path).__name__}")
    text = os.fspath(path)
    if text.startswith("file:"):
        text = text.removeprefix("file://") if text.startswith("file:///") else text.removeprefix("file:")
    if not text:
        raise InvalidArgumentError("path is empty: name a folder")
    if (found := _SCHEME.match(text)) is not None:
        raise InvalidArgumentError(
            f"{text}: record files are read and written through mounted file systems, and {found[1]}:// is none. Mount "
            "that store on every machine and give the path there, or copy the files"
        )
    return os.path.abspath(text)  # tasks run in other working directories


def roots_of(path: str) -> list[str]:
    """The folders and files of a pattern as Hadoop has them: *, ?, [...] and {one,other}; the path, if it is none."""
    if os.path.exists(path) or not (glob.has_magic(path) or _CHOICE.search(path)):
        return [path]
    patterns = _choices(re.sub("//+", "/", path))
    return sorted({root for one in patterns for root in glob.glob(one) if not _found_hidden(one, root)})


def _choices(pattern: str) -> list[str]:
    """A pattern for each of those in braces."""
    found = _CHOICE.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for choice in found[1].split(",") for one in _choices(before + choice + after)]


def _found_hidden(pattern: str, root: str) -> bool:
    """Whether a hidden name is in the path because a part of the pattern that does not say so fits it."""
    parts = zip(pattern.rstrip("/").split("/"), root.rstrip("/").split("/"), strict=True)
    return any(_is_hidden(name) and not _is_hidden(asked) for asked, name in parts)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) and not (name[0] == "_" and "=" in name)


def files_of(root: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    """(file, values of the partition folders it is in), sorted; hidden names are left out."""
    if not os.path.exists(root):
        raise NotFoundError(f"{root}: no such file or directory")
    if os.path.isfile(root):
        yield root, {}
        return
    for folder, inner, names in os.walk(root, onerror=_not_listed, followlinks=True):
        _check_links(root, folder, inner)
        inner[:] = sorted(name for name in inner if not _is_hidden(name))
        parts = Path(folder).relative_to(root).parts
        values = dict(partition_value(p) for p in parts if "=" in p)
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                yield os.path.join(folder, name), values


def _check_links(root: str, folder: str, inner: Sequence[str]) -> None:
    """Raises FailedPreconditionError on a link to a folder that it is in."""
    for path in (os.path.join(folder, name) for name in inner):
        if not os.path.islink(path):
            continue
        parts = Path(folder).relative_to(root).parts
        above = {os.path.realpath(os.path.join(root, *parts[:depth])) for depth in range(len(parts) + 1)}
        if os.path.realpath(path) in above:
            raise FailedPreconditionError(f"{path} is a link to a folder that it is in: its files have no end")


def _not_listed(error: OSError) -> None:
    """Whose files would be missing without a word."""
    if isinstance(error, PermissionError):
        raise PermissionDeniedError(f"{error.filename}: this process may not list the files of that folder") from None
    if not isinstance(error, FileNotFoundError):  # an empty one that a writer took away meanwhile
        raise FailedPreconditionError(f"{error.filename}: the folder cannot be read: {error.strerror}") from None


def partition_value(part: str) -> tuple[str, str | None]:
    name, _, value = part.partition("=")
    return unquote(name), None if value == NULL_PARTITION else unquote(value, errors="surrogateescape")
