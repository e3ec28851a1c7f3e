"""Processes forked by a server that has their imports already."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from sparkflow_connectors import fork_server
from sparkflow_connectors.processes import Child, DiedError, fork
from sparkflow_runtime.wire.errors import CancelledError

ROLE = """
import os, random, sys, threading, time
from pathlib import Path

import numpy as np
from sparkflow_connectors.processes import ForkedChild, Parent, may_fork

IMPORTED = os.getpid()


def main():
    parent = Parent()
    fields, block = parent.receive()
    if "silent" in fields:
        sys.stderr = None
    if "raises" in fields:
        raise ValueError("no room")
    if "imports" in fields:
        fields["found"] = __import__(fields["imports"]).VALUE
    if "reads" in fields:
        with os.fdopen(fields["reads"]) as file:
            fields["read"] = file.read()
    with open("/proc/self/status") as file:
        masked = next(line.split()[1] for line in file if line.startswith("SigBlk"))
    parent.send({
        **fields, "block": block.decode(), "imported": IMPORTED, "server": os.getppid(), "argv": sys.argv,
        "folder": os.getcwd(), "line": Path("/proc/self/cmdline").read_bytes().decode(), "masked": masked,
        "values": {name: os.environ.get(name) for name in ("SIZE", "TF_CONFIG", "PYTEST_CURRENT_TEST")},
        "drawn": [random.random(), np.random.rand()], "may_fork": may_fork(), "umask": os.umask(0),
        "files": len(os.listdir("/proc/self/fd")), "threads": os.environ["OMP_NUM_THREADS"],
        "said_to": os.readlink("/proc/self/fd/2"),
    })
    print("a word")
    parent.receive()
    os._exit(7)
"""
NAME = "a_module_as_long_as_those_of_our_roles"


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Child]]:
    (tmp_path / f"{NAME}.py").write_text(ROLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    children: list[Child] = []

    def child(threads: int = 1, fds: tuple[int, ...] = ()) -> Child:
        children.append(fork_server.child(NAME, f"worker {len(children)}", threads, fds))
        return children[-1]

    yield child
    for each in children:
        each.stop()


def test_a_fork_is_as_a_process_of_its_own(
    begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("TF_CONFIG", "one")
    first = begun()
    first.send({"a": 1}, b"rows")
    told = first.receive(30)
    assert told["imported"] == told["server"] != os.getpid()
    assert (told["a"], told["block"], told["folder"]) == (1, "rows", os.getcwd())
    assert told["argv"] == [str(tmp_path / f"{NAME}.py")]
    assert told["line"].count(NAME) == 1, "in the place of the server's own name"
    assert told["may_fork"] and int(told["masked"], 16) == 0
    assert told["files"] == 5, "its three, the line to its parent, and the listing: none of the server's"
    monkeypatch.setenv("TF_CONFIG", "other")
    second = begun()
    second.send({})
    after = second.receive(30)
    assert after["server"] == told["server"]
    assert (told["values"]["TF_CONFIG"], after["values"]["TF_CONFIG"]) == ("one", "other")
    assert after["values"]["PYTEST_CURRENT_TEST"] == os.environ["PYTEST_CURRENT_TEST"]
    assert all(a != b for a, b in zip(told["drawn"], after["drawn"])), "numbers of their own"
    first.send({})
    with pytest.raises(DiedError, match=rf"worker 0 \(pid {first.pid}\) ended with code 7"):
        first.receive(30)
    os.kill(second.pid, signal.SIGTERM)
    with pytest.raises(DiedError, match=r"worker 1 .* was killed by SIGTERM"):
        second.receive(30)


def test_files_are_handed_on(begun: Any) -> None:
    reading, writing = os.pipe()
    child = begun(fds=(reading,))
    os.close(reading)
    os.write(writing, b"from here")
    os.close(writing)
    child.send({"reads": child.fds[0]})
    assert child.receive(30)["read"] == "from here"


def test_what_a_process_would_inherit_makes_another_server(
    begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(**asked: Any) -> Any:
        child = begun(**asked)
        child.send({})
        return child.receive(30)

    first = begun()
    first.send({})
    found = [first.receive(30)]
    monkeypatch.setenv("SIZE", "3")
    found.append(told())
    monkeypatch.chdir(tmp_path)
    found += [told(), told(threads=2)]
    mask = os.umask(0o27)
    try:
        found.append(told(threads=2))
    finally:
        os.umask(mask)
    assert len({one["server"] for one in found}) == len(found)
    assert [one["values"]["SIZE"] for one in found] == [None, "3", "3", "3", "3"]
    assert [one["threads"] for one in found] == ["1", "1", "1", "2", "2"]
    assert (found[2]["folder"], found[4]["umask"]) == (str(tmp_path), 0o27)
    assert first.alive(), "and those before it go on"


def test_the_end_of_a_server_is_that_of_its_forks_and_is_told(begun: Any) -> None:
    child = begun()
    child.send({})
    server, fork = child.receive(30)["server"], psutil.Process(child.pid)
    os.kill(server, signal.SIGTERM)
    os.kill(server, signal.SIGINT)
    other = begun()
    other.send({})
    assert other.receive(30)["server"] == server, "what is sent to all of a group does not end it"
    os.kill(server, signal.SIGKILL)
    with pytest.raises(DiedError, match="was killed by SIGKILL"):
        child.receive(30)
    until = time.monotonic() + 20
    while not _has_ended(fork) and time.monotonic() < until:
        time.sleep(0.01)
    assert _has_ended(fork)
    third = begun()
    third.send({})
    assert third.receive(30)["server"] != server


def _has_ended(process: psutil.Process) -> bool:
    """Whether or not its next parent has waited for it."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_server_ends_when_nobody_asks_any_more(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_IDLE_S", 0.2)
    monkeypatch.setenv("SIZE", "of a server of its own")
    child = begun()
    child.send({})
    server = psutil.Process(child.receive(30)["server"])
    time.sleep(0.5)
    assert child.alive(), "not while it has a fork"
    child.stop()
    server.wait(20)
    child = begun()
    child.send({})
    assert child.receive(30)["server"] != server.pid


def test_a_fork_that_fails_says_why(begun: Any, capfd: Any) -> None:
    child = begun()
    child.send({"raises": True})
    with pytest.raises(DiedError, match="ended with code 1"):
        child.receive(30)
    said = capfd.readouterr().err
    assert "ValueError: no room" in said and f"{NAME}.py" in said


def test_a_module_that_cannot_be_imported_says_why(tmp_path: Path, begun: Any, capfd: Any) -> None:
    (tmp_path / f"{NAME}.py").write_text("raise ImportError('no such library')")
    child = begun()
    with pytest.raises(DiedError, match="ended with code 1"):
        child.receive(30)
    assert "ImportError: no such library" in capfd.readouterr().err


def test_who_has_threads_does_not_fork(tmp_path: Path, begun: Any) -> None:
    """As a sitecustomize module may have begun some. Then each is a process of its own."""
    more = "\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    more += "if __name__ == '__main__':\n    main()\n"
    (tmp_path / f"{NAME}.py").write_text(ROLE + more)
    for _ in range(2):
        child = begun()
        child.send({})
        told = child.receive(30)
        assert told["imported"] == child.pid and told["server"] == os.getpid()


def test_a_fork_of_this_process_has_a_server_of_its_own(begun: Any) -> None:
    child = begun()
    child.send({})
    server, (reading, writing) = child.receive(30)["server"], os.pipe()
    pid = os.fork()
    if pid == 0:
        found = b"none"
        try:
            child = begun()
            child.send({})
            found = b"same" if child.receive(30)["server"] == server else b"other"
            child.stop()
        finally:
            os.write(writing, found)
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 16) == b"other"
    os.close(reading)
    os.waitpid(pid, 0)
    again = begun()
    again.send({})
    assert again.receive(30)["server"] == server


def test_children_that_threads_begin_at_once_have_one_server(begun: Any) -> None:
    found: list[int] = []

    def one() -> None:
        child = begun()
        child.send({})
        found.append(child.receive(30)["server"])

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4 and len(set(found)) == 1


def _told(child: Child, **fields: Any) -> Any:
    child.send(fields)
    return child.receive(30)


def test_trainings_of_two_kinds_at_once_have_a_server_each(begun: Any) -> None:
    found = [_told(begun(threads=threads))["server"] for threads in (1, 2, 1, 2)]
    assert found[:2] == found[2:] and found[0] != found[1]


def test_forks_that_have_ended_are_forgotten(begun: Any) -> None:
    for _ in range(3):
        begun().stop()
    assert len(fork_server._SERVERS._all[-1]._forks) == 1


def test_what_the_system_cannot_start_says_so(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it begins in a thread, which nobody would hear of."""
    monkeypatch.setattr("sys.path", [*sys.path, "no\0path"])
    with pytest.raises(ValueError, match="null byte"):
        begun()


def test_no_more_threads(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "of no server so far")
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "fork server":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(DiedError):  # a process of its own, where the module has no main part
        begun().receive(30)


def test_no_more_files_in_between(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun()
    before, pipe, made = len(os.listdir("/proc/self/fd")), os.pipe, list[int]()

    def limited() -> tuple[int, int]:
        made.append(1)
        if len(made) == 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return pipe()

    monkeypatch.setattr(os, "pipe", limited)
    begun().stop()
    assert len(made) > 3 and len(os.listdir("/proc/self/fd")) == before


def test_a_fork_of_a_server_that_is_stopped_can_be_killed(begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_TOLD_S", 0.1)
    monkeypatch.setenv("SIZE", "of one that is stopped")
    child = begun()
    server = _told(child)["server"]
    os.kill(server, signal.SIGSTOP)
    try:
        child.kill()
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    finally:
        os.kill(server, signal.SIGKILL)


def test_a_server_that_hangs_is_waited_for_once(begun: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = f"\nif __name__ == '__main__':\n    main()\nwhile not os.path.exists({str(tmp_path / 'over')!r}):\n"
    (tmp_path / f"{NAME}.py").write_text(ROLE + late + "    time.sleep(0.05)\n")
    monkeypatch.setattr(fork_server, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(subprocess, "Popen", _Popen)
    _Popen.modules.clear()
    threads = [threading.Thread(target=begun) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    (tmp_path / "over").touch()
    assert sorted(_Popen.modules) == [NAME] * 3 + [fork_server._PROCESS]


def test_a_child_that_is_given_up_while_its_server_imports(begun: Any, tmp_path: Path) -> None:
    hung = f"while not os.path.exists({str(tmp_path / 'over')!r}):\n    time.sleep(0.05)\n"
    (tmp_path / f"{NAME}.py").write_text(f"{ROLE}\n{hung}")
    over, said = threading.Event(), list[str]()

    def one() -> None:
        with pytest.raises(CancelledError) as told:
            fork_server.child(NAME, "worker 3", 1, over=over.is_set)
        said.append(told.value.message)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    over.set()
    for thread in threads:
        thread.join(20)
    assert said == ["worker 3 was given up before it began"] * 2, "though the server imports on"
    (tmp_path / "over").touch()
    assert "server" in _told(begun())


class _Popen(subprocess.Popen[bytes]):
    modules: ClassVar[list[str]] = []

    def __init__(self, command: list[str], **options: Any):
        self.modules.append(command[2])
        super().__init__(command, **options)


def test_a_file_that_took_the_number_of_the_standard_error_is_no_forks(begun: Any, capfd: Any) -> None:
    """As where it was closed when this process began: the next file has its number."""
    os.set_inheritable(2, False)
    try:
        assert _told(begun())["said_to"] == os.devnull
    finally:
        os.set_inheritable(2, True)
    assert _told(begun())["said_to"] == os.readlink("/proc/self/fd/2")


def test_a_fork_that_cannot_say_why_it_failed(begun: Any, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text(f"{ROLE}\nimport atexit\natexit.register(Path(r'{tmp_path}/end').touch)\n")
    child = begun()
    child.send({"raises": True, "silent": True})
    with pytest.raises(DiedError, match="ended with code 1"):
        child.receive(30)
    assert not (tmp_path / "end").exists(), "the end of its server's"


def test_a_module_that_is_newer_than_the_server(begun: Any, tmp_path: Path) -> None:
    """Though the folder's time does not tell, as on a file system of whole seconds."""
    time_ns = tmp_path.stat().st_mtime_ns
    begun()
    (tmp_path / "a_new_module.py").write_text("VALUE = 3")
    os.utime(tmp_path, ns=(time_ns, time_ns))
    assert _told(begun(), imports="a_new_module")["found"] == 3


@pytest.mark.filterwarnings("error")
def test_a_fork_does_not_warn_of_threads_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 does, whatever they are, and shows it where the main module forks."""
    monkeypatch.setattr(os, "fork", lambda: warnings.warn("threads", DeprecationWarning, stacklevel=2) or 5)
    assert fork() == 5
