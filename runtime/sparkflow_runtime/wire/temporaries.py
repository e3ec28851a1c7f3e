"""Names of files that are being written: they say by which process, so that what a killed one left can be told apart.

`<path>.tmp-<machine>.<process>.<its start>-<random>`: the machine is one boot of a kernel and one space of process
numbers, and a number that is used again has another start.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import uuid
from functools import lru_cache

MARK = ".tmp-"
UNKNOWN_S = 600.0  # after so long without a change, what a process of another machine wrote is taken for left behind
_WRITER = re.compile(r"\.tmp-([0-9a-f]{8})\.(\d+)\.(\d+)-[0-9a-f]+$")


def temporary(path: str, process: int | None = None) -> str:
    """A new name beside `path` for what this process writes, or others for one that outlives them."""
    pid = process or os.getpid()
    return f"{path}{MARK}{_machine()}.{pid}.{_start(pid) or 0}-{uuid.uuid4().hex[:12]}"


def usual_folder() -> str:
    """Where temporary files go that have no place of their own. Where nothing of that can be written to, as in a
    container that only reads its disk, the folder at which that is told when it is tried."""
    import tempfile  # dear to import

    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return os.environ.get("TMPDIR") or "/tmp"


def abandoned(path: str) -> bool | None:
    """Whether the process that `temporary` names is no more; None where this machine cannot know."""
    found = _WRITER.search(path)
    if found is None or found[1] != _machine():
        return None
    pid, start = int(found[2]), int(found[3])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _is_zombie(pid) or (start > 0 and _start(pid) not in (None, start))


def remove_abandoned(directory: str, names: re.Pattern[str], parts: str, now: float) -> None:
    """Remove temporaries whose names match and whose writers are no more, and what they marked: `x_temp.tmp-...` marks
    the folder x_temp, whose name ends in `parts`.

    now: of the file system's clock, as os.stat tells it. A folder that somebody alive has marked stays; without a mark,
    or a writer's name, age decides.
    """
    with contextlib.suppress(OSError), os.scandir(directory) as entries:  # gone meanwhile: nothing is left
        found = sorted(entry.name for entry in entries if names.fullmatch(entry.name))
    marked: dict[str, list[str]] = {name: [] for name in found if name.endswith(parts)}
    for name in filter(lambda name: MARK in name, found):
        if (folder := name.partition(MARK)[0]) in marked:
            marked[folder].append(name)
        elif _over(os.path.join(directory, name), [name], now):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(directory, name))
    for name, marks in marked.items():
        if _over(os.path.join(directory, name), marks, now):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
            for mark in marks:
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(directory, mark))


def _over(path: str, writers: list[str], now: float) -> bool:
    known = [abandoned(writer) for writer in writers]
    if known and None not in known:
        return all(known)
    return False not in known and now - changed(path) > UNKNOWN_S


def changed(path: str) -> float:
    """When the file, or anything in the folder, was last written."""
    times = [0.0]
    with contextlib.suppress(OSError):
        times.append(os.stat(path).st_mtime)
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                times += [entry.stat().st_mtime for entry in entries]
    return max(times)


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            own = f"{file.read()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        own = platform.node()
    return hashlib.sha256(own.encode()).hexdigest()[:8]


def ancestor(name: str) -> int | None:
    """The nearest process from this one up that runs a program of that name; None where none does, or who knows."""
    pid = os.getpid()
    try:
        while pid > 1:
            program, fields = _stat(pid)
            if program == name:
                return pid
            pid = int(fields[1])
    except (OSError, IndexError, ValueError):
        return None
    return None


def _start(pid: int) -> int | None:
    """When a process began, in ticks since the boot; None where that is not told."""
    try:
        return int(_stat(pid)[1][19])
    except (OSError, IndexError, ValueError):
        return None


def _is_zombie(pid: int) -> bool:
    """Whether it has ended and nobody has asked how: in containers whose first process never asks, it stays so."""
    try:
        return _stat(pid)[1][0] == b"Z"
    except (OSError, IndexError):
        return False


def _stat(pid: int) -> tuple[str, list[bytes]]:
    """Its program's name, and what Linux tells of it after that."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        head, _, rest = file.read().rpartition(b")")
    return head.partition(b"(")[2].decode(errors="replace"), rest.split()
