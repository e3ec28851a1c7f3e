"""What a session needs of the Server that is its master's task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sparkflow_runtime.wire.cluster import ClusterSpec, numbered
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import ConfigProto
from sparkflow_runtime.worker.worker import Worker

if TYPE_CHECKING:
    from sparkflow_runtime.master.compiled import Task


class Host(Protocol):
    name: str  # of its task
    worker: Worker
    process: str  # tells it from another one of its name, before or after it
    config: ConfigProto  # what its sessions have unless theirs says otherwise

    @property
    def cluster(self) -> ClusterSpec: ...

    def tasks(self, filters: Sequence[str] = (), patience_s: float = ...) -> Mapping[str, Task]: ...


def check_cluster(host: Host, config: ConfigProto) -> None:
    """Raises UnimplementedError where a session's config asks for another cluster than its master is of."""
    own, asked = (
        {name: numbered(address) for name, address in cluster.addresses().items()}
        for cluster in (host.cluster, ClusterSpec(config.cluster_def))
    )
    if asked and asked != own:
        raise UnimplementedError(
            f"ConfigProto.cluster_def gives this session the cluster {asked}, and its master {host.name} is of {own}. "
            "A session's cluster is that of its Servers: begin each task by tf.train.Server with the whole cluster"
        )
