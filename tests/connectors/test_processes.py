"""Child processes: what is heard of them."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkflow_connectors import fork_server
from sparkflow_connectors.job import Job
from sparkflow_connectors.local import LocalRun
from sparkflow_connectors.processes import Child, DiedError
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.worker_process import run_child
from sparkflow_runtime.wire.errors import CancelledError, DeadlineExceededError, FailedPreconditionError


def test_a_silent_child_was_too_slow_even_where_its_end_is_seen_before_the_timers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader sees the end of the process while the thread that ended it has not gone on."""
    child = Child("sparkflow_connectors.worker_process", "worker 0", 1)
    kill, heard = child._process.kill, threading.Event()

    def held_up() -> Any:
        kill()
        heard.wait(20)

    monkeypatch.setattr(child._process, "kill", held_up)
    try:
        with pytest.raises(DeadlineExceededError, match=r"said nothing in 0\.05 s"):
            child.receive(0.05)
    finally:
        heard.set()
        child.stop()


def test_a_child_that_is_to_see_no_gpus() -> None:
    child = Child("sparkflow_connectors.ps_process", "parameter server 0", 1, gpus=False)
    try:
        until, given = time.monotonic() + 10, b""
        while not given and time.monotonic() < until:  # it is empty at the moment when the program is loaded
            given = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"CUDA_VISIBLE_DEVICES=" in given.split(b"\0")
    finally:
        child.stop()


def test_a_child_whose_parent_has_gone_says_no_more(capfd: Any) -> None:
    """At Ctrl-C, while it starts: what it could not say is nobody's trouble."""
    child = Child("sparkflow_connectors.ps_process", "parameter server 0", 1, gpus=False)
    child._process.stdout.close()  # type: ignore[union-attr]
    child.send({"index": 0, "host": "127.0.0.1", "keepalive_s": 10.0}, b"secret")
    assert child._process.wait(30) == 1
    child.stop()
    assert "Traceback" not in capfd.readouterr().err


def test_a_child_does_not_hear_ctrl_c_while_it_begins(capfd: Any) -> None:
    """A notebook interrupts the kernel's whole group: its children said where in their imports they were."""
    child = Child("sparkflow_connectors.ps_process", "parameter server 0", 1, gpus=False)
    try:
        for _ in range(10):
            os.kill(child.pid, signal.SIGINT)
            time.sleep(0.05)
        child.send({"index": 0, "host": "127.0.0.1", "keepalive_s": 10.0}, b"secret")
        assert "address" in child.receive(30)
        os.kill(child.pid, signal.SIGINT)
        assert child.alive()
    finally:
        child.stop()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "this process hears it as before"
    assert "Traceback" not in capfd.readouterr().err


def test_a_module_that_a_worker_does_not_find_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Of a notebook that has changed its working directory: four attempts ended "with code 1"."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "my_net.py").write_text("def model_fn(features, labels, mode):\n    pass\n")
    monkeypatch.syspath_prepend("")
    monkeypatch.chdir(tmp_path / "nets")
    job = Job(importlib.import_module("my_net").model_fn, Columns({}), str(tmp_path / "out"))
    monkeypatch.chdir(tmp_path)
    found = rf"begun in {tmp_path}, has no module 'my_net'.* from .*/nets/my_net\.py\. Put its folder's full path"
    with pytest.raises(FailedPreconditionError, match=found):
        run_child(job, [], 0, "127.0.0.1", lambda text: [text])
    monkeypatch.syspath_prepend(str(tmp_path / "nets"))
    (tmp_path / "nets" / "my_net.py").write_text("")
    with pytest.raises(FailedPreconditionError, match=r"AttributeError: .*'model_fn'.*import it again"):
        run_child(job, [], 0, "127.0.0.1", lambda text: [text])
    assert "Traceback" not in capfd.readouterr().err


def test_a_worker_that_cannot_begin_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Child:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(fork_server, "child", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        run_child(Job(refuse, Columns({}), str(tmp_path)), [], 0, "127.0.0.1", lambda text: [text])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_is_cancelled_while_its_workers_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C came: it waited until their imports were done."""
    ended = list[str]()

    def late(module: str, name: str, threads: int, fds: Any, over: Callable[[], bool]) -> Child:
        while not over():
            time.sleep(0.01)
        ended.append(name)
        raise CancelledError(name)

    monkeypatch.setattr(fork_server, "child", late)
    run = LocalRun(Job(late, Columns({}), str(tmp_path), workers=2), [pa.table({})] * 2)
    run.cancel()
    assert sorted(ended) == ["worker 0", "worker 1"]


FORKS = """
import multiprocessing, os, signal, time
from sparkflow_connectors.processes import Parent

parent = Parent()
parent.watch()
name = __spec__.name
if name == "a_pool":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        parent.send({"lengths": pool.map(len, ["a", "bb"])})
elif name == "a_forker" and os.fork() == 0:
    os.close(2)
    time.sleep(30)
    os._exit(0)
parent.send({"said": 1})
parent.send({"said": 2})
if name == "a_closer":
    os.closerange(3, 64)
    time.sleep(60)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    children = []

    def child(text: str, module: str) -> Child:
        (tmp_path / f"{module}.py").write_text(text)
        children.append(Child(module, "worker 0", 1))
        return children[-1]

    yield child
    for each in children:
        each.stop()


@pytest.fixture
def forking(of_text: Any) -> Any:
    return partial(of_text, FORKS)


@pytest.fixture
def serving(of_text: Any) -> Any:
    return partial(of_text, SERVES)


def test_a_child_may_fork_and_wait(forking: Any) -> None:
    """What it forks closes its standard input first, of which a thread of the child's had taken the lock."""
    assert forking("a_pool").receive(30) == {"lengths": [1, 2]}


def test_the_death_of_a_child_is_seen_though_what_it_forked_lives(forking: Any) -> None:
    """That holds the pipe's end too, by which the parent would have waited for a word until it ended."""
    child, begun = forking("a_forker"), time.monotonic()
    assert [child.receive(30), child.receive(30)] == [{"said": 1}, {"said": 2}]
    with pytest.raises(DiedError, match="was killed by SIGKILL"):
        child.receive()
    assert time.monotonic() - begun < 25


def test_a_child_that_closes_its_line_is_ended(forking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkflow_connectors.processes._STOP_TIMEOUT_S", 0.3)
    child = forking("a_closer")
    assert [child.receive(30), child.receive(30)] == [{"said": 1}, {"said": 2}]
    with pytest.raises(DiedError, match=r"closed its standard output, .* and was ended"):
        child.receive()
    assert not child.alive()


SERVES = """
import os, signal, sys, time
from pathlib import Path
from sparkflow_connectors.processes import ForkedChild, Parent, call_itself, may_fork

parent = Parent()
assert may_fork()
name = __spec__.name


def main():
    parent.leave()
    call_itself("srv", name)
    if name == "of_one_that_fails":
        raise ValueError("no room")
    own = Parent()
    fields, block = own.receive()
    line = Path("/proc/self/cmdline").read_bytes().decode()
    own.send({"heard": fields, "block": block.decode(), "line": line, "files": len(os.listdir("/proc/self/fd"))})
    own.watch()
    time.sleep(60)


child = ForkedChild(main, "server 0")
if name == "of_one_that_fails":
    assert child._process.wait(20) == 1
elif name == "of_who_waits_for_all":
    child.kill()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child = ForkedChild(main, "server 0")
    child.kill()
else:
    child.send({"a": 1}, b"rows")
    parent.send({**child.receive(20), "pid": child.pid, "own": Path("/proc/self/cmdline").read_bytes().decode()})
    if name == "of_one_that_dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "of_one_that_stops":
        child.stop()
    elif name == "of_one_that_kills":
        os.kill(child.pid, signal.SIGKILL)
try:
    child.receive(0.2)
except Exception as error:
    parent.send({"error": f"{type(error).__name__}: {error}"})
parent.send({"alive": child.alive()})
parent.receive()
"""


def test_a_fork_is_spoken_to_as_a_child(serving: Any) -> None:
    found = serving("of_one_that_stops").receive(30)
    assert (found["heard"], found["block"]) == ({"a": 1}, "rows")
    assert "of_one_that_stops" in found["own"], "the parent's own name stays"
    assert found["line"].rstrip("\0").endswith("\0srv") and "of_one" not in found["line"]
    assert found["files"] <= 6, "its three, two more of the conversation, and the listing: none of its parent's"


@pytest.mark.parametrize(
    "module, said, alive",
    [
        ("of_one_that_stops", "", False),
        ("of_one_that_kills", "DiedError: server 0 (pid ", False),
        ("of_one_that_is_silent", "DeadlineExceededError: server 0 (pid ", False),
    ],
)
def test_the_end_of_a_fork_is_told(serving: Any, module: str, said: str, alive: bool) -> None:
    child = serving(module)
    pid = child.receive(30)["pid"]
    told = child.receive(30)
    assert told.get("error", "").startswith(said)
    how = {"of_one_that_kills": "killed by SIGKILL", "of_one_that_is_silent": "said nothing in 0.2 s"}
    assert how.get(module, "") in told["error"]
    assert child.receive(30) == {"alive": alive}
    assert not Path(f"/proc/{pid}").exists(), "it was waited for"


def test_a_fork_that_fails_says_where(serving: Any, capfd: Any) -> None:
    child = serving("of_one_that_fails")
    assert "server 0" in child.receive(30)["error"]
    said = capfd.readouterr().err
    assert "ValueError: no room" in said and "of_one_that_fails.py" in said


def test_a_fork_whose_end_another_has_heard_of_has_ended(serving: Any) -> None:
    """A model's code may wait for all children, or have the system forget them."""
    child = serving("of_who_waits_for_all")
    assert "server 0" in child.receive(30)["error"]
    assert child.receive(30) == {"alive": False}


def test_a_fork_ends_with_its_parent(serving: Any) -> None:
    child = serving("of_one_that_dies")
    pid = child.receive(30)["pid"]
    with pytest.raises(DiedError, match="SIGKILL"):
        child.receive(30)
    until = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    """As more than what its next parent has not waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
