"""tf.train.Server: a task of a cluster in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkflow.session.runtime import runtime
from sparkflow_runtime.wire import server_def as server_defs
from sparkflow_runtime.wire.cluster import SCHEMES, ClusterSpec, numbered
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.wire.protos import ConfigProto

if TYPE_CHECKING:
    from sparkflow_runtime.server import Server as RuntimeServer


_started: dict[str, Server] = {}  # by address


class Server:
    """Serves the devices, variables and queues of one task, and is the master of sessions that have its `target`.

    server_or_cluster_def: a ServerDef, ClusterSpec, dict or ClusterDef. job_name, task_index: which task this is; a
    ServerDef may say it, and a cluster of one task needs nobody to. protocol: 'grpc' is accepted as a name for ours.
    config: a ConfigProto. Sessions at this target have what it says unless theirs says otherwise, and its
    intra_op_parallelism_threads is how many threads BLAS may use in this process (by default the host's processors are
    divided among its tasks of the cluster: see sparkflow_runtime.threads).
    start: False leaves the address free until `start()`.
    secret: shared by all tasks of the job (default: the environment variable SPARKFLOW_SECRET); without one only
    loopback addresses are served, to processes of this host. A task whose host does not have its address, or gives its
    name a loopback one, listens at the interface that leads to the other tasks.
    Raises InvalidArgumentError on a task the cluster lacks, another protocol or a job that no device name can say,
    TypeError on an index that is no whole number, UnavailableError where its address cannot be bound.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: ConfigProto | None = None,
        start: bool = True,
        secret: bytes | None = None,
    ):
        told = server_defs.read(server_or_cluster_def) if server_defs.is_server_def(server_or_cluster_def) else None
        if told is not None:
            job_name, protocol = job_name or told.job_name or None, protocol or told.protocol or None
            task_index = told.task_index if task_index is None else task_index
            config = config or (told.default_session_config if told.HasField("default_session_config") else None)
        self._cluster = ClusterSpec(server_or_cluster_def if told is None else told.cluster)
        for job in self._cluster.jobs:
            _check_job_name(job)
        self._job: str = job_name or _only(self._cluster.jobs, "job_name")
        indices = self._cluster.task_indices(self._job)
        self._index: int = _only(indices, "task_index") if task_index is None else task_index
        self._bind_at = self._cluster.task_address(self._job, self._index)
        self._protocol, self._config, self._secret = _checked(protocol), config, secret or secret_of_environment()
        self._runtime: RuntimeServer | None = None
        if start:
            self.start()

    @classmethod
    def bound(
        cls, job_name: str, task_index: int, host: str, secret: bytes | None, keepalive_s: float = 10.0
    ) -> Server:
        """A server on a free port of `host`, before the cluster is known; `join_cluster` tells it."""
        server = cls.__new__(cls)
        server._job, server._index, server._protocol, server._config = job_name, task_index, SCHEMES[0], None
        server._runtime = runtime("server").Server(job_name, task_index, f"{host}:0", secret, keepalive_s)
        server._cluster = ClusterSpec({})
        return server

    def join_cluster(self, cluster: Any) -> None:
        self._cluster = ClusterSpec(cluster)
        self._running.join_cluster(self._cluster)

    @staticmethod
    def create_local_server(config: ConfigProto | None = None, start: bool = True) -> Server:
        """A cluster of one task, on a free port of this host."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def target(self) -> str:
        """For tf.Session, in this process or another. Raises FailedPreconditionError where a free port is to be found
        and the server is not started."""
        if self._runtime is None:
            return f"{SCHEMES[0]}://{self.address}"
        return self._runtime.target

    @property
    def address(self) -> str:
        """host:port, with the port that was bound."""
        if self._runtime is not None:
            return self._runtime.address
        if self._bind_at.endswith(":0"):
            raise FailedPreconditionError(f"{self._bind_at} takes a free port: which one is known after start()")
        return numbered(self._bind_at)

    @property
    def server_def(self) -> Any:
        """The ServerDef, from which another Server can be made."""
        return server_defs.make(self._cluster, self._job, self._index, self._protocol, self._config)

    def start(self) -> None:
        """Serve from now on; nothing happens if it does."""
        if self._runtime is not None:
            return
        runtime("threads").obey(self._config, "the Server's ConfigProto")
        self._runtime = runtime("server").Server(
            self._job, self._index, self._bind_at, self._secret, config=self._config, others=self._others()
        )
        if self._bind_at.endswith(":0"):
            self._cluster = self._cluster.with_address(self._job, self._index, self._runtime.address)
        self._runtime.join_cluster(self._cluster)
        _started[self._runtime.address] = self
        if self._job != runtime("threads").HOLDS_VARIABLES:
            runtime("session")  # while other tasks start, not when this one is waited for

    def join(self) -> None:
        """Serve until the process ends, or `stop()`."""
        self._running.join()

    def stop(self) -> None:
        """Close every connection; steps that wait for this task fail with UnavailableError."""
        if self._runtime is not None:
            _started.pop(self._runtime.address, None)
            self._runtime.stop()

    def tell_end(self, why: str) -> None:
        """The tasks that train with this one: its program ends by an error. Where they cannot go on without it, they
        raise FailedPreconditionError with these words, unless it is started again within a minute."""
        self._running.tell_end(why)

    @staticmethod
    def of_task(cluster: Any, job_name: str, task_index: int, **settings: Any) -> Server:
        """The server of that task of that cluster: the one that this process has started, else a new one."""
        spec = ClusterSpec(cluster)
        spec.task_address(job_name, task_index)  # which there must be
        for found in list(_started.values()):
            if (found._job, found._index, found._cluster) == (job_name, task_index, spec):
                return found
        return Server(spec, job_name, task_index, **settings)

    def _others(self) -> list[str]:
        return [a for a in self._cluster.addresses().values() if a != self._bind_at]

    @property
    def _running(self) -> RuntimeServer:
        if self._runtime is None:
            raise FailedPreconditionError(f"The server at {self._bind_at} is not started: call start()")
        return self._runtime


def traffic_of(address: str) -> dict[str, dict[str, int]]:
    """Peer -> its counters (frames and bytes sent and received, bytes through shared memory), as the process of the
    server at 'host:port' has counted them. The job's secret is that of the environment.

    Raises UnavailableError where no server is there, UnauthenticatedError where the secret is wrong.
    """
    found: dict[str, dict[str, int]] = runtime("dialling").traffic_of(address, secret_of_environment())
    return found


def secret_of_environment() -> bytes | None:
    """What SPARKFLOW_SECRET says, which all tasks of a job share."""
    found: bytes | None = runtime("dialling").secret_of_environment()
    return found


def _check_job_name(job: str) -> None:
    """Now, since no graph could place a node on its tasks."""
    try:
        if DeviceSpec.from_string(f"/job:{job}").job == job:
            return
    except InvalidArgumentError:
        pass
    raise InvalidArgumentError(
        f"Server: the cluster's job {job!r} cannot be part of a device's name: a letter or _ first, then letters, "
        "digits, '_', '.' and '-'"
    )


def _only(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise InvalidArgumentError(f"Server: {what} must be given; the cluster has {found}")
    return found[0]


def _checked(protocol: str | None) -> str:
    if protocol not in (None, *SCHEMES):
        raise InvalidArgumentError(f"Server: protocol {protocol!r} is not known; {' and '.join(SCHEMES)} mean the same")
    return protocol or SCHEMES[0]
