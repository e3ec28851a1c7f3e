"""Clusters whose tasks all live in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkflow.session.server import Server


@pytest.fixture(name="cluster")
def cluster_fixture() -> Iterator[Callable[..., dict[str, Server]]]:
    made: list[Server] = []

    def make(**counts: int) -> dict[str, Server]:
        servers = {
            f"{job}{i}": Server.bound(job, i, "127.0.0.1", b"secret") for job, n in counts.items() for i in range(n)
        }
        addresses = {job: [servers[f"{job}{i}"].address for i in range(n)] for job, n in counts.items()}
        for server in servers.values():
            server.join_cluster(addresses)
        made.extend(servers.values())
        return servers

    yield make
    for server in made:
        server.stop()
