"""How a role tells its driver what ended it: what the cluster broke may be tried again, what the user wrote may not."""

from __future__ import annotations

import dataclasses
import os
import queue
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_connectors import control, roles
from sparkflow_connectors.control import DriverControl, TaskControl, reported
from sparkflow_connectors.job import Announcement
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnavailableError

MINE = Announcement("run", 0, "here:1", None)


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError("gone"), ValueError("bad literal"), RuntimeError()])
def test_a_broken_line_is_a_lost_task(error: Exception) -> None:
    """A barrier collective of Spark raises EOFError, and others, when its stage has failed."""
    said = _ended_by(lambda text: _raise(error))
    assert isinstance(said, UnavailableError) and "a task was lost" in said.message


def test_an_error_of_the_user_stays_itself() -> None:
    said = _ended_by(lambda text: _raise(InvalidArgumentError("worker 1 has no rows")))
    assert isinstance(said, InvalidArgumentError) and said.message == "worker 1 has no rows"


@pytest.mark.parametrize("error", [ConnectionRefusedError("their database"), EOFError("their file")])
def test_a_broken_line_of_the_users_own_is_no_lost_task(error: Exception) -> None:
    """It was tried again three times, and what it was told as was a line of the cluster."""
    said = _heard(lambda: _raise(error))
    assert isinstance(said, tf.errors.InternalError) and said.message == f"{type(error).__name__}: {error}"


def test_an_error_that_cannot_be_printed_is_told() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    said = _heard(lambda: _raise(Odd("made of")))
    assert said.message == "Odd: ('made of',) (its __str__ raised RuntimeError)"


def test_a_model_may_empty_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with roles._told_the_environment({"worker": ["a:1"]}, 0):
        os.environ.pop("TF_CONFIG")
    assert "TF_CONFIG" not in os.environ


def _raise(error: Exception) -> Any:
    raise error


def _ended_by(gather: Any) -> Any:
    """What the driver hears of a role whose all-gather is this one."""
    return _heard(lambda: roles._gathered(gather, MINE))


def _heard(act: Any) -> Any:
    """What the driver hears of a role that does this."""
    driver = DriverControl("127.0.0.1", b"secret", 1)
    job: Any = SimpleNamespace(driver_url=driver.url, secret=b"secret", keepalive_s=10.0)
    try:
        with pytest.raises(Exception), roles._line_to_driver(job, 0):  # noqa: B017
            act()
        events = [driver.events.get(timeout=10) for _ in range(2)]
        (error,) = [e for e in events if e.kind == "error"]
        return reported(error.fields)
    finally:
        driver.close()


def test_a_role_hears_whether_the_driver_ended_its_attempt() -> None:
    """What is logged then is read by whoever looks for what went wrong: a driver that begins again is not gone."""
    driver, heard = DriverControl("127.0.0.1", b"secret", 1), queue.Queue[Any]()
    TaskControl(driver.url, b"secret", 0, heard.put)
    driver.events.get(timeout=10)
    driver.close()
    assert "the driver has ended this attempt" in heard.get(timeout=10).message


def test_roles_gather_through_the_driver() -> None:
    driver, found = DriverControl("127.0.0.1", b"secret", 3), dict[int, list[str]]()
    lines = [TaskControl(driver.url, b"secret", rank, lambda error: None) for rank in range(3)]

    def gather(rank: int) -> None:
        found[rank] = lines[rank].gather(f"of {rank}")

    threads = [threading.Thread(target=gather, args=(rank,)) for rank in (2, 0)]
    for thread in threads:
        thread.start()
    threads[0].join(0.1)
    assert not found, "not before all have come"
    gather(1)
    for thread in threads:
        thread.join(20)
    assert [found[rank] for rank in range(3)] == [["of 0", "of 1", "of 2"]] * 3
    driver.close()


def test_a_role_that_waits_for_the_others_is_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, gone = DriverControl("127.0.0.1", b"secret", 2), queue.Queue[Any]()
    line = TaskControl(driver.url, b"secret", 0, gone.put)
    monkeypatch.setattr(control, "_START_S", 0.1)
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"not all workers announced themselves in 0\.1 s"):
        line.gather("of 0")
    monkeypatch.setattr(control, "_START_S", 20.0)
    threading.Timer(0.1, driver.close).start()
    with pytest.raises(tf.errors.UnavailableError):
        line.gather("of 0")
    assert "the driver has ended this attempt" in gone.get(timeout=10).message


def test_a_driver_that_listens_elsewhere_than_its_roles_dial() -> None:
    """Its host calls it otherwise: by a loopback address, as Debian does, or it stands behind a router."""
    driver = DriverControl(("localhost", "127.0.0.9"), b"secret", 1)
    assert driver.url.startswith("tcp://localhost:")
    port = driver.url.rpartition(":")[2]
    TaskControl(f"tcp://127.0.0.9:{port}", b"secret", 0, print).error(ValueError("no"))
    assert [driver.events.get(timeout=10).kind for _ in range(2)] == ["hello", "error"]
    driver.close()


def test_announcements_survive_their_journey() -> None:
    assert dataclasses.asdict(Announcement.decode_all([MINE.encode()], "run")[0]) == dataclasses.asdict(MINE)


def test_a_role_finds_itself_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"]}
    for before in (None, '{"cluster": {}}'):
        monkeypatch.delenv("TF_CONFIG", raising=False)
        if before is not None:
            monkeypatch.setenv("TF_CONFIG", before)
        with roles._told_the_environment(cluster, 1):
            config = tf.estimator.RunConfig()
            assert (config.task_type, config.task_id, config.cluster_spec.as_dict()) == ("worker", 1, cluster)
        assert os.environ.get("TF_CONFIG") == before
