"""Showing the files of a writing: all of them, also where the process that does it dies half-way.

A note in the folder says what is to be shown, from before the first file is moved until after the last one was. Who
finds it where no writer lives finishes that work: a file is moved once, whoever does it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sparkflow_connectors.record_types import SIDECAR
from sparkflow_connectors.waiting import Patience
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.errors import DataLossError, FailedPreconditionError, UnavailableError

TEMPORARY = "_temporary"
_NOTE = "_committing.json"
_LAST = (SIDECAR, "_SUCCESS")
_HELD_S, _LOOK_S = 600.0, 0.02  # for another to let go of a folder
_OLD_S = 86400.0  # after so long without a change, a writing of who knows whom is spoken of
log = logging.getLogger("sparkflow")


class _Note(NamedTuple):
    """temporary: the folder in which the files are, until they are moved. replace: what else there is goes. gone: these
    go, by their paths in the folder."""

    temporary: str
    files: list[str]
    replace: bool
    gone: Sequence[str] = ()


def show(
    folder: str, temporary: str, files: Sequence[str], replace: bool, sidecar: str, gone: Sequence[str] = ()
) -> None:
    """Move these files below `temporary`, a folder in `folder`, to the same places in `folder`. replace: what else is
    there goes. sidecar: its text. gone: files in `folder` that go. To be called by who holds the folder."""
    for name, text in zip(_LAST, (sidecar, "")):
        Path(temporary, name).write_text(text, encoding="utf-8")
    note = _Note(os.path.basename(temporary), list(files), replace, list(gone))
    unfinished = Path(temporary, _NOTE)
    unfinished.write_text(json.dumps(note._asdict()), encoding="utf-8")
    os.replace(unfinished, os.path.join(folder, _NOTE))
    _finish(folder)


def is_showing(folder: str, temporary: str) -> bool:
    """Whether the files of that writing are partly shown."""
    with suppress(FileNotFoundError):
        return _note(folder).temporary == os.path.basename(temporary)
    return False


def settled(folder: str) -> None:
    """Return when no writer is about to show files; what one that died has not shown is shown first.

    Raises FailedPreconditionError where this process cannot do that, DataLossError where the files are gone.
    """
    if not os.path.exists(os.path.join(folder, _NOTE)):
        return
    with held(folder):
        settle(folder)


def settle(folder: str) -> None:
    """The same for who holds the folder."""
    if not os.path.exists(os.path.join(folder, _NOTE)):
        return
    log.warning("%s: a writer ended while its files were being shown; the others are shown now", folder)
    try:
        _finish(folder)
    except OSError as error:
        raise FailedPreconditionError(
            f"{folder}: a writer ended while its files were being shown, and this process cannot finish that: {error}. "
            "Read or write the folder once as somebody who may write there"
        ) from None


def _finish(folder: str) -> None:
    note = _note(folder)
    temporary = os.path.join(folder, note.temporary)
    if note.replace:
        _remove_others(folder, {*note.files, *_LAST, _NOTE})
    for name in note.gone:
        with suppress(FileNotFoundError):  # it went already
            os.unlink(os.path.join(folder, name))
        with suppress(OSError):  # others are in its folder
            os.rmdir(os.path.dirname(os.path.join(folder, name)))
    for name in [*note.files, *_LAST]:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with suppress(FileNotFoundError):  # it was moved already
            os.replace(os.path.join(temporary, name), target)
        if not os.path.exists(target):
            raise DataLossError(f"{folder}: {name}, of a writing that was cut short, is gone. Write the folder anew")
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _NOTE))
    shutil.rmtree(temporary, ignore_errors=True)


def _note(folder: str) -> _Note:
    return _Note(**json.loads(Path(folder, _NOTE).read_text(encoding="utf-8")))


def _remove_others(folder: str, kept: set[str]) -> None:
    """All files but those kept (paths in the folder) and those of writings, and folders that are empty then."""
    for at, inner, names in os.walk(folder):
        if at == folder:
            inner[:] = [name for name in inner if not name.startswith(TEMPORARY)]
        links = [name for name in inner if os.path.islink(os.path.join(at, name))]
        for name in [*names, *links]:
            path = os.path.join(at, name)
            if os.path.relpath(path, folder) not in kept:
                os.unlink(path)
    for at, _, _ in os.walk(folder, topdown=False):
        if at != folder and not Path(at).relative_to(folder).parts[0].startswith(TEMPORARY):
            with suppress(OSError):  # something is kept in it
                os.rmdir(at)


def remove_abandoned(folder: str) -> None:
    """Take away what writers began there that were killed; of what may be another machine's, only say that it is there
    and old. To be called by who holds the folder, with no note in it."""
    for name in sorted(name for name in os.listdir(folder) if name.startswith(TEMPORARY)):
        path = os.path.join(folder, name)
        over = temporaries.abandoned(name)
        if over:
            log.info("%s: a writer was killed before it showed any of its files; they are removed", path)
            shutil.rmtree(path, ignore_errors=True)
        elif over is None and time.time() - temporaries.changed(path) > _OLD_S:
            log.warning(
                "%s has not changed for a day, and whether its writer lives cannot be seen here. If no job writes to "
                "this folder, remove it", path,
            )  # fmt: skip


@contextmanager
def held(folder: str, shared: bool = False) -> Iterator[None]:
    """The folder for this process alone, or for those that share it, on file systems that can. Not again by who holds
    it: that would wait for itself. Raises UnavailableError where another one does not let it go."""
    with ExitStack() as stack:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            _take(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, folder)
        yield


def _take(descriptor: int, how: int, folder: str) -> None:
    patience = Patience()
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holders = _holders(descriptor)
        if patience.waited_s(folder) > _HELD_S:
            raise UnavailableError(
                f"{folder}: another process ({holders}) has held it for {_HELD_S:g} s, as one that shows the files "
                "it wrote there does. If it is stopped, let it go on or end it: whoever is next then shows its files"
            )
        patience.say("waiting for %s, which another process holds (%s)", folder, holders)
        time.sleep(_LOOK_S)


def _holders(descriptor: int) -> str:
    """Those of this machine that have the file's lock."""
    file, found = os.fstat(descriptor), []
    key = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if key in fields and "->" not in fields:  # those that wait have an arrow
                found.append(fields[fields.index(key) - 1])
    pids = [pid for pid in found if pid.isdigit() and pid != "0"]  # others are of another container
    return f"pid {', '.join(pids)}" if pids else "of another machine or container"
