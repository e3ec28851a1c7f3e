"""The thread that makes loops ready, and the processes that build what the disk has not got.

Servers and workers that start together on a host want the same loops, and each is built by one process: by the child of
who took its lock first. That child has the lock too, so it stays with it where the program ends before. All others look
now and then whether the machine code is there; a child of theirs would import numba and LLVM to see that it has nothing
to do, and a dozen of these hold up the one that has.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from sparkflow_runtime.kernels import machine_code
from sparkflow_runtime.kernels.machine_code import Source

if TYPE_CHECKING:
    from subprocess import Popen

_log = logging.getLogger(__name__)

_NICE = 5  # the step goes on with the numpy versions, and goes first
_BUILDER = "import sys; sys.path[:] = {path!r}; from {ours}machine_build import main; main({names!r}, {nice}, {held!r})"
_OURS = "sparkflow_runtime.kernels."
_MOST_LOCKS = 32  # each is an open file
_LOOK_EVERY_S = 0.25


class Work(Protocol):
    """What the background thread makes ready."""

    name: str

    @property
    def sources(self) -> Sequence[Source]:
        """The functions it is made of."""

    @property
    def where(self) -> str:
        """module:attribute, by which a child process finds it."""

    @property
    def kept(self) -> bool:
        """Whether its machine code is kept on disk, so that a child process can build it."""

    def load(self) -> bool:
        """Take the machine code from disk; whether it was there."""

    def compile(self) -> Any:
        """Have numba build it in this process."""


def lacking(work: Work) -> bool:
    """Whether its machine code could be on disk, and is not."""
    return work.kept and any(machine_code.read(source) is None for source in work.sources)


class _Background:
    """What waits to be made ready, and the thread that does it, once something does."""

    def __init__(self) -> None:
        self._unready: dict[int, Work] = {}
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a fork too, where no thread is left: the next work starts one, for what waited as well."""
        self._queue: SimpleQueue[Work] = SimpleQueue()
        for work in self._unready.values():
            self._queue.put(work)
        self._lock = Lock()
        self._thread: Thread | None = None

    def add(self, work: Work) -> None:
        with self._lock:
            self._unready[id(work)] = work
            self._queue.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="sparkflow-compile", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        left: list[Work] = []
        while True:
            works = [*self._asked(_LOOK_EVERY_S if left else None), *left]
            left = _made_ready(works)
            for work in works:
                if work not in left:
                    self._unready.pop(id(work), None)

    def _asked(self, timeout_s: float | None) -> list[Work]:
        """What is in the queue. timeout_s: how long to wait for the first."""
        works = []
        try:
            works.append(self._queue.get(timeout=timeout_s))
            while True:
                works.append(self._queue.get_nowait())
        except Empty:
            return works


_BACKGROUND = _Background()
os.register_at_fork(after_in_child=_BACKGROUND.begin_anew)  # a fork has none of its parent's threads


def in_background(work: Work) -> None:
    """Have it made ready by the background thread."""
    _BACKGROUND.add(work)


def make_ready(work: Work) -> None:
    if not work.load():
        work.compile()


def _made_ready(works: Sequence[Work]) -> list[Work]:
    """Loaded, built or compiled, but for those that other processes build just now."""
    missing = [work for work in works if not _done(work, work.load)]
    with _locked([work.where for work in missing if lacking(work)]) as (mine, others):
        if mine:
            _in_child(mine)
    left = [work for work in missing if work.where in others]
    for work in missing:
        if work not in left:
            _done(work, lambda work=work: make_ready(work))  # type: ignore[misc]
    return left


def _done(work: Work, do: Callable[[], bool | None]) -> bool:
    try:
        return do() is not False
    except Exception:
        # The numpy version goes on: results are the same, only slower. Said once, with the trace that mends it.
        _log.exception("%s could not be compiled; its numpy version stays in use", work.name)
        return True


@contextmanager
def _locked(names: Iterable[str]) -> Iterator[tuple[dict[str, int], set[str]]]:
    """(those that are this process's to build, with the files that lock them, -1 where nothing is kept for others;
    those that are not)."""
    mine, others = dict[str, int](), set[str]()
    with ExitStack() as stack:
        for name in names:
            if len(mine) == _MOST_LOCKS:
                others.add(name)  # until these are built
                continue
            lock = machine_code.lock(name)
            if lock is None:
                others.add(name)
                continue
            mine[name] = lock
            if lock >= 0:
                stack.callback(os.close, lock)
        yield mine, others


def _in_child(names: Mapping[str, int]) -> None:
    """Have a child process build these. Whatever it does not bring about is built here. names: with their locks."""
    _log.info(
        "Building %d loops beside the steps, once for this machine (`sparkflow compile` does so ahead)", len(names)
    )
    try:
        building = child([*names], _NICE, names)
        said = building.communicate()[1]
        if building.returncode:
            _log.info("Compiling in a child process failed:\n%s", said)
    except (OSError, ValueError) as error:
        _log.info("No child process to compile in: %s", error)


def child(names: Sequence[str], nice: int = 0, locks: Mapping[str, int] | None = None) -> Popen[str]:
    """A process that builds these (module:attribute), keeps them on disk, and tells stderr what went wrong. nice: it
    gives way to others, as os.nice says. locks: of those that this process has locked."""
    import subprocess  # seldom needed, and dear to import

    held = {name: fd for name, fd in (locks or {}).items() if fd >= 0}
    code = _BUILDER.format(ours=_OURS, path=sys.path, names=list(names), nice=nice, held=[*held])
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    command, fds = [sys.executable, "-c", code], [*held.values()]
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=pipe, text=True, errors="replace", pass_fds=fds)
