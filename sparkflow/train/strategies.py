"""tf.distribute's strategies, as far as one process trains on one device: what differs is what becomes of gradients.

A process is one replica. Several are processes of a cluster, which TF_CONFIG describes: with parameter servers
(ParameterServerStrategy: every worker applies its own gradients there) or without (MultiWorkerMirroredStrategy: every
worker has all variables, and applies the mean of all workers' gradients). An Estimator takes them in its RunConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

from sparkflow.framework.graph import get_default_graph
from sparkflow.train.cluster_resolver import CHIEFS, TFConfigClusterResolver
from sparkflow.train.strategy import Strategy
from sparkflow_runtime.wire.errors import UnimplementedError


class CrossDeviceOps:
    """How gradients of several devices of a process are added up; there are none to be added up here."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.arguments = args, kwargs


class HierarchicalCopyAllReduce(CrossDeviceOps):
    pass


class NcclAllReduce(CrossDeviceOps):
    pass


class ReductionToOneDevice(CrossDeviceOps):
    pass


class CollectiveCommunication(Enum):
    """By which means collectives travel: a ring over the cluster's transport, whichever is asked for."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class CommunicationOptions:
    """timeout_seconds: after which a step that misses a worker fails with DeadlineExceededError naming it; None
    waits."""

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: CollectiveCommunication = CollectiveCommunication.AUTO,
    ):
        self.bytes_per_pack, self.timeout_seconds, self.implementation = bytes_per_pack, timeout_seconds, implementation


class DistributeConfig(NamedTuple):
    """Of RunConfig's experimental_distribute: the strategies of training and of evaluating."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


class OneDeviceStrategy(Strategy):
    """Variables and operations on that device."""

    def __init__(self, device: str):
        self._device = device

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        with super().scope(), get_default_graph().device(self._device):
            yield self


class MirroredStrategy(Strategy):
    """One replica, where TensorFlow has one for each GPU of a process.

    Raises UnimplementedError where several devices are asked for.
    """

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None):
        _check_one(type(self).__name__, len(devices or ()), f"devices {list(devices or ())}")


class CentralStorageStrategy(Strategy):
    """One replica."""

    def __init__(self, compute_devices: Sequence[str] | None = None, parameter_device: str | None = None):
        _check_one(type(self).__name__, len(compute_devices or ()), f"compute_devices {list(compute_devices or ())}")


class ParameterServerStrategy(Strategy):
    """Every worker applies its gradients to the parameter servers' variables without waiting for the others: what an
    Estimator does without a strategy too, in a cluster that has servers."""

    def __init__(self, cluster_resolver: Any = None, variable_partitioner: Any = None):
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()


class MultiWorkerMirroredStrategy(Strategy):
    """Every worker has all variables, and an optimizer applies the mean of all workers' gradients. The moving averages
    of batch normalization follow the means of all workers' moments, where `training` is no tensor.

    The workers (the chief is one) are those of cluster_resolver, of TF_CONFIG by default; without a cluster there is
    one. In an Estimator the chief initializes, restores and saves, and its variables become the others' when a session
    begins. A program of its own does that with BroadcastGlobalVariablesHook, as beside a DistributedOptimizer.
    Every worker must make as many steps: let the data repeat, and give max_steps.
    """

    def __init__(self, communication: Any = None, cluster_resolver: Any = None, communication_options: Any = None):
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()
        self._timeout_s = float(getattr(communication_options, "timeout_seconds", None) or 0.0)

    @property
    def num_replicas_in_sync(self) -> int:  # type: ignore[override]
        spec = self.cluster_resolver.cluster_spec()
        return sum(spec.num_tasks(job) for job in ("worker", *CHIEFS) if job in spec.jobs) or 1

    def reduced(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The pairs with the means of all workers' gradients."""
        from sparkflow.train.distributed_optimizer import Group, Means

        group = Group(self.num_replicas_in_sync, timeout_s=self._timeout_s)
        with get_default_graph().name_scope("replicas_all_reduce"):
            return Means(group)(list(grads_and_vars), distinct=True)

    def statistics(self, values: Sequence[Any]) -> list[Any]:
        """The means of all workers' values; as they are in a loop or a branch, where others may be elsewhere."""
        from sparkflow.train.distributed_optimizer import Group, means_of_active

        group, graph = Group(self.num_replicas_in_sync, timeout_s=self._timeout_s), get_default_graph()
        if group.size == 1 or graph._get_control_flow_context() is not None:
            return list(values)
        with graph.name_scope("statistics_all_reduce"):
            return means_of_active(group, values)


def _check_one(who: str, count: int, given: str) -> None:
    if count > 1:
        raise UnimplementedError(
            f"{who}: got {given}, and a process trains on one device here. Start a process for each, with "
            "tf.distribute.experimental.MultiWorkerMirroredStrategy or tf.distribute.DistributedOptimizer"
        )


experimental = SimpleNamespace(
    CentralStorageStrategy=CentralStorageStrategy,
    CollectiveCommunication=CollectiveCommunication,
    CommunicationImplementation=CollectiveCommunication,
    CommunicationOptions=CommunicationOptions,
    MultiWorkerMirroredStrategy=MultiWorkerMirroredStrategy,
    ParameterServerStrategy=ParameterServerStrategy,
)
