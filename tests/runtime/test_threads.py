"""Who decides how many threads BLAS uses, and how threads of the runtime compute."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import pytest

from sparkflow_runtime import threads
from sparkflow_runtime.kernels import parallel
from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.server import Server
from sparkflow_runtime.session import open_session
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.protos import ConfigProto


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What BLAS would have been told, in an environment that says nothing."""
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    numbers: list[int] = []
    monkeypatch.setattr(threads, "_set", numbers.append)
    monkeypatch.setattr(threads, "_limits", [])
    monkeypatch.setattr(threads, "processors", lambda: 8)
    yield numbers


def test_the_environment_decides_first(told: list[int], monkeypatch: pytest.MonkeyPatch, caplog: object) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert threads.pinned_by() == "OPENBLAS_NUM_THREADS"
    assert threads.limit(2, "a server") is None
    assert threads.limit(2, "a session", asked=True) is None
    assert told == []


def test_the_first_session_that_asks_decides_next(told: list[int], caplog: pytest.LogCaptureFixture) -> None:
    threads.limit(4, "a server")
    open_session(config=ConfigProto(intra_op_parallelism_threads=2))
    with caplog.at_level(logging.WARNING):
        open_session(config=ConfigProto(intra_op_parallelism_threads=1))
    threads.limit(5, "another server")
    open_session(config=ConfigProto())
    assert told == [4, 2]
    held = threads.in_force()
    assert held is not None and held.threads == 2 and "intra_op_parallelism_threads" in held.reason
    assert "asks for 1 threads" in caplog.text and "had asked for 2" in caplog.text


WORKERS = [("worker", f"a:{port}") for port in range(4)]


@pytest.mark.parametrize(
    ("own", "tasks", "here", "want"),
    [
        ("a:0", WORKERS, 1, 2),
        ("a:0", [*WORKERS, ("ps", "a:9")], 1, 2),  # a parameter server multiplies little
        ("a:9", [*WORKERS, ("ps", "a:9")], 1, 2),
        ("a:0", WORKERS, 4, None),  # all of them in this process
        ("a:0", WORKERS[:1], 1, None),
        ("b:0", [*WORKERS, ("worker", "b:0")], 1, None),
        ("localhost:1", [("worker", "127.0.0.1:2"), ("worker", "localhost:1")], 1, 4),
        ("a:0", [("worker", f"a:{port}") for port in range(20)], 1, 1),
        ("a:0", [("ps", "a:0"), ("ps", "a:1")], 1, 4),
    ],
)
def test_tasks_of_one_host_share_its_processors(
    told: list[int], own: str, tasks: list[tuple[str, str]], here: int, want: int | None
) -> None:
    assert threads.share(own, tasks, here) == want


def test_a_server_that_learns_of_tasks_on_its_host_takes_its_share(told: list[int]) -> None:
    server = Server("worker", 0, "127.0.0.1:0")
    try:
        server.join_cluster(ClusterSpec({"worker": [server.address, "localhost:1"], "ps": ["localhost:2"]}))
        assert told == [4]
        assert "shares its host" in threads.in_force().reason  # type: ignore[union-attr]
    finally:
        server.stop()


def test_threads_of_a_server_change_places_often() -> None:
    before = sys.getswitchinterval()
    try:
        for held, want in ((5e-3, 2e-4), (1e-4, 1e-4)):
            sys.setswitchinterval(held)
            Server("worker", 0, "127.0.0.1:0").stop()
            assert sys.getswitchinterval() == pytest.approx(want, rel=0.1)
    finally:
        sys.setswitchinterval(before)


def test_blas_follows() -> None:
    """The library itself, not only the books; what it had is put back."""
    from threadpoolctl import threadpool_info, threadpool_limits

    with threadpool_limits():
        threads._set(1)
        assert {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"} == {1}


def test_threads_of_kernels_say_nothing_of_what_is_not_finite() -> None:
    """As the thread of the step: whether a block is theirs must not show."""
    found = parallel._pool().submit(np.geterr).result(20)
    assert set(found.values()) == {"ignore"}


def test_sums_of_other_tasks_say_nothing_of_what_is_not_finite() -> None:
    own, found = Collectives("/job:worker/task:0"), Future[dict[str, str]]()
    own._put(lambda: found.set_result(dict(np.geterr())))  # type: ignore[arg-type]
    try:
        assert set(found.result(20).values()) == {"ignore"}
    finally:
        own.close()
