"""Child processes that die with their parent.

A child ends when its standard input closes (the parent holds the other end until it dies), and on Linux the kernel
backs that up with PR_SET_PDEATHSIG, which fires when the *thread* that made the child ends: start children from a
thread that lives as long as they should. Lines of JSON go both ways; what a child prints besides goes to standard
error. A child is a Python module, run, or a fork of a process that has nothing but its imports yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparkflow_runtime.wire.errors import DeadlineExceededError, UnavailableError

_PR_SET_PDEATHSIG = 1
START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 0.5
_WAIT_S = 0.005


class DiedError(UnavailableError):
    """A child ended that had more to say."""


class Child:
    """A Python module run as a child (`python -m module`), spoken to in lines of JSON and blocks of bytes."""

    def __init__(self, module: str, name: str, threads: int, pass_fds: Sequence[int] = (), gpus: bool = True):
        """pass_fds: open files of this process, in the child `fds`. gpus: whether it sees those that this one sees."""
        self.name, self.fds = name, tuple(pass_fds)
        command, pipe = [sys.executable, "-m", module], subprocess.PIPE
        environment = child_environment(threads) | ({} if gpus else {"CUDA_VISIBLE_DEVICES": ""})
        with interrupts_held():
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=stderr(), env=environment, pass_fds=pass_fds
            )
        self._hold(process)

    def _hold(self, process: subprocess.Popen[bytes] | Forked) -> None:
        self._process, self.pid = process, process.pid
        self._heard = bytearray()  # of lines to come

    def send(self, fields: dict[str, Any], block: bytes = b"") -> None:
        """One line, and after it the block whose length the line tells."""
        try:
            self._stdin.write(json.dumps({**fields, "block": len(block)}).encode() + b"\n" + block)
            self._stdin.flush()
        except (BrokenPipeError, ValueError):
            raise DiedError(self._death()) from None

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next line. Raises UnavailableError when the child is gone, DeadlineExceededError when it says nothing."""
        timer, expired = None, threading.Event()

        def end() -> None:
            expired.set()  # before the process's end can be seen
            self._process.kill()

        if timeout_s is not None:
            timer = threading.Timer(timeout_s, end)
            timer.daemon = True
            timer.start()
        try:
            line = self._line()
        finally:
            if timer is not None:
                timer.cancel()
        if line:
            return dict(json.loads(line))
        if expired.is_set():
            with contextlib.suppress(subprocess.TimeoutExpired):  # its files are closed a moment before it is gone
                self._process.wait(_STOP_TIMEOUT_S)
            raise DeadlineExceededError(f"{self.name} (pid {self.pid}) said nothing in {timeout_s:g} s and was ended")
        raise DiedError(self._death())

    def _line(self) -> bytes:
        """The next line; nothing where the child has ended, though what it forked may hold the pipe."""
        while b"\n" not in self._heard:
            if not (more := self._more()):
                return b""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return bytes(line)

    def _more(self) -> bytes:
        out = self._process.stdout.fileno()  # type: ignore[union-attr]
        readable = select.poll()
        readable.register(out, select.POLLIN)
        ended = False
        while not readable.poll(0 if ended else 1000 * _LOOK_EVERY_S):
            if ended:
                return b""
            ended = not self.alive()  # what it said before is in the pipe then
        return os.read(out, 1 << 16)

    def stop(self) -> None:
        """Close its input, wait a little, kill it if need be. It is gone when this returns."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _death(self) -> str:
        try:
            code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"{self.name} (pid {self.pid}) closed its standard output, by which it is heard, and was ended"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{self.name} (pid {self.pid}) {how}"


class ForkedChild(Child):
    """A fork of this process that goes on in `main()`, and does not import a second time what it needs. Only for a
    process with no thread but its first, see `may_fork`."""

    def __init__(self, main: Callable[[], None], name: str):
        self.name, self.fds = name, ()
        self._hold(_Fork(main))


def may_fork() -> bool:
    """Only on Linux: macOS's own libraries end in a fork. OpenBLAS and jemalloc see to the threads that they have."""
    return sys.platform == "linux" and threading.active_count() == 1


class Forked:
    """What `Child` needs of a Popen, of a process that is no child of subprocess's."""

    def __init__(self, pid: int, stdin: int, stdout: int):
        """stdin, stdout: this side's ends of its pipes."""
        self.pid = pid
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.returncode: int | None = None
        self._lock = threading.Lock()  # a timer may kill it while another thread looks

    def _look(self) -> int | None:
        """Its exit code, as Popen has it; None while it lives. Not called again after that."""
        raise NotImplementedError

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                self.returncode = self._look()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            time.sleep(_WAIT_S)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class _Fork(Forked):
    """A fork of this process."""

    def __init__(self, main: Callable[[], None]):
        gc.freeze()  # a collection would write into, and so copy, all pages with objects
        sys.stdout.flush()
        sys.stderr.flush()
        (to_read, to_write), (out_read, out_write) = os.pipe(), os.pipe()
        pid = fork()
        if pid == 0:
            run_fork(main, to_read, out_write, (to_write, out_read))
        os.close(to_read)
        os.close(out_write)
        super().__init__(pid, to_write, out_read)

    def _look(self) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # a model's code has waited for it, or ignores SIGCHLD
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None


def fork() -> int:
    """`os.fork()`, which warns of libraries' threads (from Python 3.12 on): those see to that themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def run_fork(main: Callable[[], None], stdin: int, stdout: int, theirs: Sequence[int]) -> None:
    """The forked side, to its end: nothing of what its parent would do at its own end is done here."""
    code = 1
    try:
        for own, fd in ((0, stdin), (1, stdout)):
            os.dup2(fd, own)
            os.close(fd)
        for fd in theirs:
            os.close(fd)
        try:
            main()
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
    finally:  # though the standard error takes nothing
        os._exit(code)


def stderr() -> int | None:
    """What a child's standard error is to be, as Popen has it. Where this process was started with none, that number
    is the next file's that it opens."""
    try:
        return None if os.get_inheritable(2) else subprocess.DEVNULL
    except OSError:
        return subprocess.DEVNULL


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """A child begins without hearing Ctrl-C, which reaches the whole group: while it imports, it would print where."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def child_environment(threads: int) -> dict[str, str]:
    """The child's environment: it finds what this process can import, and its BLAS threads are set, not inherited."""
    count = str(threads)
    path = os.pathsep.join(p for p in (*sys.path, os.environ.get("PYTHONPATH", "")) if p)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, "PYTHONPATH": path, **dict.fromkeys(names, count)}


class Parent:
    """The child's end of the same conversation. Made first thing in the child's main thread."""

    def __init__(self) -> None:
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # for what it starts itself, see interrupts_held
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._in = open(0, "rb", closefd=False)  # noqa: SIM115 - of a fork's own, with nothing read ahead by its parent

    def leave(self) -> None:
        """In a fork: what is said and heard here is its parent's."""
        self._out.close()

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next line and its block; the process ends where the parent has gone."""
        line = self._in.readline()
        if not line:
            os._exit(1)
        fields = dict(json.loads(line))
        return fields, self._in.read(fields.pop("block"))

    def send(self, fields: dict[str, Any]) -> None:
        """A line; the process ends where the parent has gone."""
        try:
            self._out.write(json.dumps(fields).encode() + b"\n")
        except BrokenPipeError:
            os._exit(1)

    def watch(self, gone: Callable[[], None] = lambda: os._exit(0)) -> None:
        """From now on nothing more is expected: `gone()` is called when the input closes."""

        def wait() -> None:
            while os.read(self._in.fileno(), 1):  # not by `sys.stdin`: a fork would inherit its lock taken for ever
                pass
            gone()

        threading.Thread(target=wait, name="parent-watch", daemon=True).start()


def call_itself(module: str, instead_of: str) -> None:
    """What a list of processes shows of a fork (Linux): the module that it runs, and not its parent's."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return
    begin, end = int(fields[45]), int(fields[46])  # of the arguments, in this process's memory
    line, old = ctypes.string_at(begin, end - begin) if begin else b"", instead_of.encode()
    if old in line:
        ctypes.memmove(begin, line.replace(old, module.encode().ljust(len(old), b"\0")[: len(old)]), len(line))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent's thread ends (Linux; elsewhere standard input alone tells)."""
    if Path("/proc/self").exists():
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(1)
