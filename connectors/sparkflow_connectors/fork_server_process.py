"""The fork server: `python -m sparkflow_connectors.fork_server_process IDLE_S`, started by fork_server.py.

Requests come by its standard input, a socket. For each it imports the module that is named there, and forks; the fork
goes on in the module's `main`. It tells the forks' exit codes, as they are no children of who asked. It has one thread.
"""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from types import ModuleType
from typing import Any

from sparkflow_connectors.processes import call_itself, die_with_parent, fork, run_fork

_MOST_FILES = 64
# It ends by its line, or with its parent: what is sent to a whole group is for its forks to hear, which a death of its
# would end.
_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    with socket.socket(fileno=0) as line:
        _Server(line, float(sys.argv[1])).run()


class _Server:
    def __init__(self, line: socket.socket, idle_s: float):
        self._line, self._idle_s = line, idle_s
        self._living = dict[int, int]()  # pid -> where its exit code is awaited
        self._ends = os.pipe()  # a byte each time that a fork ends
        for fd in self._ends:
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ends[1], warn_on_full_buffer=False)

    def run(self) -> None:
        """Until nobody asks any more and all forks have ended."""
        asked: list[Any] = [self._line]
        while asked or self._living:
            readable = select.select([*asked, self._ends[0]], [], [], None if self._living else self._idle_s)[0]
            if not readable:
                return
            if self._ends[0] in readable:
                self._tell_ends()
            if self._line in readable and not self._serve():
                asked = []

    def _tell_ends(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ends[0], 1 << 16)
        for pid in [*self._living]:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                fd = self._living.pop(pid)
                with suppress(BrokenPipeError):
                    os.write(fd, b"%d" % os.waitstatus_to_exitcode(status))
                os.close(fd)

    def _serve(self) -> bool:
        """One request; False where nobody will ask again."""
        try:
            message, files, _, _ = socket.recv_fds(self._line, 1 << 20, _MOST_FILES, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return False
        if not message:
            return False
        told = json.loads(message)
        with suppress(BrokenPipeError):
            self._line.send(json.dumps(self._answer(told, files)).encode())
        return True

    def _answer(self, told: dict[str, Any], files: list[int]) -> dict[str, Any]:
        kept = -1
        try:
            if len(files) < told["files"]:
                return {"errno": errno.EMFILE}
            module = importlib.import_module(told["module"])
            if threading.active_count() > 1:
                return {"refused": "threads"}
            pid = self._forked(module, told["environment"], files)
            kept = files[2]
            self._living[pid] = kept
            return {"pid": pid, "files": files[4:]}
        except OSError as error:
            return {"errno": error.errno}
        except Exception as error:  # a module may raise anything; who runs it by itself is told of it
            return {"refused": repr(error)[:1000]}
        finally:
            for fd in files:
                if fd != kept:
                    os.close(fd)

    def _forked(self, module: ModuleType, environment: dict[str, str | None], files: list[int]) -> int:
        gc.freeze()  # see processes.py
        stdin, stdout, status, stderr = files[:4]
        pid = fork()
        if pid == 0:
            os.dup2(stderr, 2)
            theirs = stderr, status, *self._living.values(), *self._ends
            run_fork(lambda: self._begin(module, environment), stdin, stdout, theirs)
        return pid

    def _begin(self, module: ModuleType, environment: dict[str, str | None]) -> None:
        """In the fork: nothing tells it from a process of its own."""
        self._line.detach()  # its number is the standard input's now
        importlib.invalidate_caches()  # the user's modules may be newer than the imports
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # others than its sisters'
        sys.argv = [str(module.__file__)]
        call_itself(module.__name__, __spec__.name)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(_HELD) - {signal.SIGINT})  # see Parent
        module.main()


if __name__ == "__main__":
    main()
