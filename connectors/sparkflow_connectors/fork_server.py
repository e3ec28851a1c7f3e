"""A process that has imported what roles need and forks them: each begins in the time of a fork, not of its imports.

The first role that this process wants begins it. It ends a few seconds after the last of its forks, and with this
process. A fork has what a new process would inherit; where that is no longer the same, another server takes the place
of this one, or stands beside it while it has forks. Nothing of the user's is in it: a fork reads its job as a process
of its own does.
"""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from sparkflow_connectors.processes import START_TIMEOUT_S, Child, Forked, child_environment, interrupts_held, stderr
from sparkflow_runtime.wire.errors import CancelledError

_PROCESS = "sparkflow_connectors.fork_server_process"
_IDLE_S = 5.0  # after its last fork
_LOOK_EVERY_S = 0.1
_TOLD_S = 5.0  # in which the end of a fork that was killed is told
_FREE = ("PYTEST_CURRENT_TEST", "TF_CONFIG", "COLUMNS", "LINES")  # change often, and no import looks at them


def child(
    module: str, name: str, threads: int, pass_fds: Sequence[int] = (), over: Callable[[], bool] = lambda: False
) -> Child:
    """`Child` of these arguments, forked where that can be; `fds` are its numbers of those files. Raises CancelledError
    once `over()`: a server may take its time to import."""

    def look() -> None:
        if over():
            raise CancelledError(f"{name} was given up before it began")

    if sys.platform == "linux":  # macOS's own libraries end in a fork
        found = _SERVERS.child(module, name, child_environment(threads), pass_fds, look)
        if found is not None:
            return found
    return Child(module, name, threads, pass_fds)  # where that fails too, its error says why


class _Servers:
    """Those of this process: one, or one of each kind while trainings of several kinds run at once."""

    def __init__(self) -> None:
        self._all: list[_Server] = []
        self._lock = threading.Lock()

    def forget(self) -> None:
        for server in self._all:
            server.close()
        self.__init__()  # type: ignore[misc]

    def child(
        self, module: str, name: str, environment: Mapping[str, str], fds: Sequence[int], look: Callable[[], None]
    ) -> Child | None:
        """None where none can be forked."""
        with suppress(OSError):
            kind = _kind(environment)
            try:
                return self._of(kind, environment).child(module, name, environment, fds, look)
            except ConnectionError:  # it has just ended
                look()
                return self._of(kind, environment).child(module, name, environment, fds, look)
        return None

    def _of(self, kind: tuple[Any, ...], environment: Mapping[str, str]) -> _Server:
        """Raises OSError where it cannot be started."""
        with self._lock:
            for server in [*self._all]:
                if server.closed() or (server.kind != kind and not server.is_busy()):
                    server.close()
                    self._all.remove(server)
                elif server.kind == kind:
                    return server
            self._all.append(_Server(environment, kind))
            return self._all[-1]


def _kind(environment: Mapping[str, str]) -> tuple[Any, ...]:
    """What a new process would have of this one, but for open files, and a fork is not given."""
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN]
    limits = [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith("RLIMIT_")]
    mask = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask")]
    who = os.getresuid(), os.getresgid(), os.getgroups()
    where = os.getcwd(), os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    return {n: v for n, v in environment.items() if n not in _FREE}, ignored, limits, mask, who, where


class _Server:
    """A server, seen from here."""

    def __init__(self, environment: Mapping[str, str], kind: tuple[Any, ...]):
        """Raises OSError where it cannot be started."""
        self.kind = kind
        self._lock, self._hangs, self._forks = threading.Lock(), False, list[_Served]()
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_LOOK_EVERY_S)
        begun: SimpleQueue[Exception | None] = SimpleQueue()
        work = partial(self._host, [sys.executable, "-m", _PROCESS, str(_IDLE_S)], theirs, environment, begun)
        try:
            threading.Thread(target=work, name="fork server", daemon=True).start()
        except RuntimeError:
            theirs.close()
            begun.put(OSError(errno.EAGAIN, "No more threads"))
        if (error := begun.get()) is not None:
            self.close()
            raise error

    @staticmethod
    def _host(
        command: list[str], theirs: socket.socket, environment: Mapping[str, str], begun: SimpleQueue[Exception | None]
    ) -> None:
        """A thread that lives as long as the server does, which would end with it."""
        try:
            with theirs, interrupts_held():
                process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=stderr(), env=environment
                )
        except Exception as error:  # such as of a path that the system cannot spell
            begun.put(error)
            return
        begun.put(None)
        process.wait()

    def child(
        self, module: str, name: str, environment: Mapping[str, str], fds: Sequence[int], look: Callable[[], None]
    ) -> Child | None:
        """Waits until the server has imported the module, or `look()` raises. None where it cannot, or has threads and
        may not fork. Raises ConnectionError where it has ended, another OSError where it hangs, or there may be no
        more processes or files.
        """
        with ExitStack() as theirs, ExitStack() as ours:
            pipes = []
            for number in range(3):
                reading, writing = os.pipe()
                theirs.callback(os.close, writing if number else reading)
                ours.callback(os.close, reading if number else writing)
                pipes.append((reading, writing))
            (stdin, to_write), (out, stdout), (status, to_tell) = pipes
            told_on = 2
            if stderr() is not None:
                theirs.callback(os.close, told_on := os.open(os.devnull, os.O_RDWR))
            free = {n: environment.get(n) for n in _FREE}
            files = [stdin, stdout, to_tell, told_on, *fds]
            told = self._ask({"module": module, "environment": free, "files": len(files)}, files, look)
            if "refused" in told:
                return None
            if "errno" in told:
                raise OSError(told["errno"], os.strerror(told["errno"]))
            ours.pop_all()
            served = _Served(told["pid"], to_write, out, status)
            self._forks = [*self._living(), served]
            return _ServedChild(name, served, told["files"])

    def _ask(self, asked: dict[str, Any], files: Sequence[int], look: Callable[[], None]) -> dict[str, Any]:
        while not self._lock.acquire(timeout=_LOOK_EVERY_S):
            look()
        try:
            if self.closed():  # as another thread waited with us
                raise TimeoutError("The fork server hangs") if self._hangs else BrokenPipeError("It has ended")
            socket.send_fds(self._line, [json.dumps(asked).encode()], files)
            return dict(json.loads(self._answer(look)))
        except BaseException as error:  # who asks next must not get this one's answer
            self._hangs = self._hangs or isinstance(error, TimeoutError)
            self.close()
            raise
        finally:
            self._lock.release()

    def _answer(self, look: Callable[[], None]) -> bytes:
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if answer := self._line.recv(1 << 16):
                    return answer
                raise BrokenPipeError("The fork server has ended")
            except TimeoutError:
                look()
                if time.monotonic() > until:
                    raise

    def is_busy(self) -> bool:
        """Whether it has forks, or is about to have one."""
        return bool(self._living()) or self._lock.locked()

    def _living(self) -> list[_Served]:
        return [fork for fork in self._forks if fork.poll() is None]

    def closed(self) -> bool:
        return self._line.fileno() < 0

    def close(self) -> None:
        """It ends after the last of its forks."""
        self._line.close()


class _Served(Forked):
    """A fork of the server's."""

    def __init__(self, pid: int, stdin: int, stdout: int, status: int):
        """status: where the server writes its exit code."""
        super().__init__(pid, stdin, stdout)
        self._status, self._killed_s = status, math.inf
        os.set_blocking(status, False)

    def kill(self) -> None:
        self._killed_s = min(self._killed_s, time.monotonic())
        super().kill()

    def _look(self) -> int | None:
        try:
            told = os.read(self._status, 16)
        except BlockingIOError:
            if time.monotonic() - self._killed_s < _TOLD_S:
                return None
            told = b""  # the server is stopped; nothing outlives SIGKILL
        os.close(self._status)
        if told:
            return int(told)
        with suppress(ProcessLookupError):  # the server has ended, and the system ends its forks in a moment
            os.kill(self.pid, signal.SIGKILL)
        return -signal.SIGKILL


class _ServedChild(Child):
    def __init__(self, name: str, process: _Served, fds: Sequence[int]):
        self.name, self.fds = name, tuple(fds)
        self._hold(process)


_SERVERS = _Servers()
os.register_at_fork(after_in_child=_SERVERS.forget)
