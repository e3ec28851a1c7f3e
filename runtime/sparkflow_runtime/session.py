"""The door: what the front end may ask of the runtime. Names, GraphDefs, arrays and errors cross here, nothing else."""

from __future__ import annotations

from sparkflow_runtime.afterwards import AFTERWARDS
from sparkflow_runtime.local_session import DeviceAttributes, RuntimeSession
from sparkflow_runtime.partial import PartialRun
from sparkflow_runtime.remote_session import RemotePartialRun, RemoteSession, reset_remotely
from sparkflow_runtime.served import server_at
from sparkflow_runtime.threads import obey
from sparkflow_runtime.wire.collector import paused  # for the front end, too
from sparkflow_runtime.wire.protos import ConfigProto

__all__ = [
    "AnyPartialRun",
    "AnySession",
    "DeviceAttributes",
    "RuntimeSession",
    "close_later",
    "open_session",
    "paused",
    "reset",
]

AnySession = RuntimeSession | RemoteSession
AnyPartialRun = PartialRun | RemotePartialRun


def open_session(target: str = "", config: ConfigProto | None = None) -> AnySession:
    """A session of its own for "", else one in the cluster of the Server at `target` (sparkflow:// or grpc://host:port),
    whose task is the master: without a socket where that Server is in this process.

    Raises InvalidArgumentError on a target of another form, UnavailableError where no Server answers in time.
    """
    server = server_at(target) if target else None
    if target:
        AFTERWARDS.begin()
    if target and server is None:
        return RemoteSession(target, config)
    obey(config, "ConfigProto")
    return RuntimeSession(server, config)


def close_later(session: AnySession) -> None:
    """For the finalizer of a session in a cluster: other tasks are told by another thread."""
    AFTERWARDS.later(session.close)


def reset(target: str, containers: list[str], config: ConfigProto | None = None) -> None:
    """Drop these containers (all) and every session in the cluster of `target`; "" is no cluster: nothing changes."""
    filters = list(config.device_filters) if config else []
    if target:
        server = server_at(target)
        if server is None:
            reset_remotely(target, containers, filters, config.operation_timeout_in_ms / 1000 if config else 0)
        else:
            server.reset_cluster(containers, filters)
