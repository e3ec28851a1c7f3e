"""tf.train.Server: a task of a cluster in this process."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.dialling import secret_of_environment
from sparkflow_runtime.server import Server as RuntimeServer
from sparkflow_runtime.threads import limit
from sparkflow_runtime.wire.cluster import ClusterSpec
from sparkflow_runtime.wire.errors import InvalidArgumentError


class Server:
    """Serves the devices, variables and queues of one task, and gives sessions of this process their `target`.

    server_or_cluster_def: a ClusterSpec, dict or ClusterDef. job_name, task_index: which task this is.
    config: a ConfigProto; its intra_op_parallelism_threads is how many threads BLAS may use in this process (by default
    the host's processors are divided among its tasks of the cluster: see sparkflow_runtime.threads).
    secret: shared by all tasks of the job (default: the environment variable SPARKFLOW_SECRET); without one only
    loopback addresses are served, to processes of this host.
    Raises InvalidArgumentError on a task the cluster lacks, UnavailableError where its address cannot be bound.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
        secret: bytes | None = None,
    ):
        if config is not None and config.intra_op_parallelism_threads > 0:
            limit(config.intra_op_parallelism_threads, "the Server's ConfigProto", asked=True)
        cluster = ClusterSpec(server_or_cluster_def)
        job_name = job_name or _only(cluster.jobs, "job_name")
        index = _only(cluster.task_indices(job_name), "task_index") if task_index is None else task_index
        self._runtime = RuntimeServer(
            job_name, index, cluster.task_address(job_name, index), secret or secret_of_environment()
        )
        self._runtime.join_cluster(cluster)
        self._cluster = cluster

    @classmethod
    def bound(
        cls, job_name: str, task_index: int, host: str, secret: bytes | None, keepalive_s: float = 10.0
    ) -> Server:
        """A server on a free port of `host`, before the cluster is known; `join_cluster` tells it."""
        server = cls.__new__(cls)
        server._runtime = RuntimeServer(job_name, task_index, f"{host}:0", secret, keepalive_s)
        server._cluster = ClusterSpec({})
        return server

    def join_cluster(self, cluster: Any) -> None:
        self._cluster = ClusterSpec(cluster)
        self._runtime.join_cluster(self._cluster)

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        server = Server.bound("localhost", 0, "127.0.0.1", None)
        server.join_cluster({"localhost": [server.address]})
        return server

    @property
    def target(self) -> str:
        return self._runtime.target

    @property
    def address(self) -> str:
        """host:port, with the port that was bound."""
        return self._runtime.address

    @property
    def server_def(self) -> ClusterSpec:
        return self._cluster

    def start(self) -> None:
        """A server serves from the moment it is made."""

    def join(self) -> None:
        """Serve until the process ends."""
        self._runtime.join()

    def stop(self) -> None:
        """Close every connection; steps that wait for this task fail with UnavailableError."""
        self._runtime.stop()


def _only(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise InvalidArgumentError(f"Server: {what} must be given; the cluster has {found}")
    return found[0]
