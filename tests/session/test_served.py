"""Servers whose cluster has them at addresses that their own host knows otherwise, or not at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.session.server import Server
from sparkflow_runtime import served, threads
from sparkflow_runtime.dialling import near_url
from sparkflow_runtime.served import Place, place_of
from sparkflow_runtime.server import Server as RuntimeServer
from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire.cluster import ClusterSpec

OWN = "127.0.0.9"  # of the interface that leads to the others
NAMES = {"own.test": OWN, "debian.test": "127.0.1.1", "service.test": "192.0.2.7", "other.test": "198.51.100.3"}
NAMES["both.test"] = f"127.0.1.1 {OWN}"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = socket.getaddrinfo

    def answer(host: str, *args: Any, **kwargs: Any) -> Any:
        if host.endswith(".unknown"):
            raise socket.gaierror(-2, "Name or service not known")
        numbers = NAMES.get(host, host).split()
        return [found for number in numbers for found in asked(number, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(served, "towards", lambda host: OWN)


@pytest.fixture
def started() -> Iterator[list[Any]]:
    servers: list[Any] = []
    yield servers
    for server in servers:
        server.stop()


@pytest.mark.parametrize(
    "address, others, place",
    [
        ("127.0.0.1:7", ["other.test:7"], Place("127.0.0.1:7")),
        ("localhost:7", ["other.test:7"], Place("127.0.0.1:7")),
        ("own.test:7", ["debian.test:8"], Place("own.test:7")),
        ("debian.test:7", ["debian.test:8", "localhost:9"], Place("debian.test:7")),  # all are on this host
        ("debian.test:7", ["debian.test:8", "other.test:7"], Place(f"{OWN}:7", ("127.0.1.1",))),
        ("both.test:7", ["other.test:7"], Place(f"{OWN}:7", ("127.0.1.1",))),  # bound once, not twice
        ("service.test:0", ["x.unknown:1", "other.test:7"], Place(f"{OWN}:0", ("192.0.2.7",))),
        ("192.0.2.7:7", ["other.test:7"], Place(f"{OWN}:7", ("192.0.2.7",))),
        ("192.0.2.7:7", ["localhost:7"], Place("192.0.2.7:7")),  # which cannot be bound
        ("not.yet.unknown:7", ["other.test:7"], Place(f"{OWN}:7")),
        ("0.0.0.0:7", ["other.test:7"], Place("0.0.0.0:7", (OWN, "127.0.0.1"))),
        ("0.0.0.0:7", [], Place("0.0.0.0:7")),
    ],
)
def test_where_a_task_listens(address: str, others: list[str], place: Place) -> None:
    assert place_of(address, others) == place


@pytest.mark.parametrize("name", ["debian.test", "service.test"])
def test_a_task_is_found_by_what_the_cluster_calls_it(started: list[Any], name: str, caplog: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    cluster = {"ps": [f"{name}:{port}"], "worker": ["other.test:1", "localhost:0"]}
    started += [Server(cluster, job, index, secret=b"s") for job, index in (("ps", 0), ("worker", 1))]
    assert started[0].target == f"sparkflow://{OWN}:{port}"
    assert f"the server listens at {OWN}:{port}, by which this host reaches the others" in caplog.text
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        one = tf.constant(1.0) + 1.0
        filters = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:1"])
        with tf.Session(started[1].target, config=filters) as sess:
            assert sess.run(one) == 2.0
        with tf.Session(f"grpc://{name}:{port}") as here:
            assert isinstance(here._runtime, RuntimeSession)
    again = {"ps": [f"{name}:{port}"], "worker": ["other.test:1", "localhost:0"]}
    assert Server.of_task(again, "ps", 0) is started[0]


def test_other_hosts_are_not_served_without_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host calls it by a loopback address, and nobody elsewhere ever found it there."""
    monkeypatch.setattr(served, "towards", lambda host: "0.0.0.0")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"0\.0\.0\.0:0 without a job secret"):
        Server({"ps": ["debian.test:0"], "worker": ["other.test:1"]}, "ps", 0)


def test_an_alias_that_another_process_has_is_left_out(started: list[Any]) -> None:
    with socket.create_server((OWN, 0)) as probe:
        port = probe.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(near_url(f"192.0.2.7:{port}").replace("unix://@", "\0"))
        started.append(RuntimeServer("ps", 0, f"192.0.2.7:{port}", b"s", others=["other.test:1"]))
    assert started[0].address == f"{OWN}:{port}"


def test_tasks_of_a_host_that_is_named_share_its_processors(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr("sparkflow_runtime.server.limit", lambda count, why: told.append(count))
    monkeypatch.setattr(threads, "processors", lambda: 8)
    started.append(RuntimeServer("worker", 0, "own.test:0", b"s"))
    port = started[0].address.rpartition(":")[2]
    started[0].join_cluster(ClusterSpec({"worker": [f"own.test:{port}", "own.test:1"], "ps": ["other.test:1"]}))
    assert told == [4]
