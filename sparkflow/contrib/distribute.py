"""tf.contrib.distribute: the strategies by their older names, and with their older arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.train import strategies
from sparkflow.train.strategies import CrossDeviceOps, DistributeConfig, OneDeviceStrategy, ReductionToOneDevice
from sparkflow.train.strategy import Strategy
from sparkflow_runtime.wire.errors import UnimplementedError

__all__ = [
    "AllReduceCrossDeviceOps", "CollectiveAllReduceStrategy", "CrossDeviceOps", "CrossTowerOps", "DistributeConfig",
    "DistributionStrategy", "MirroredStrategy", "OneDeviceStrategy", "ParameterServerStrategy", "ReductionToOneDevice",
]  # fmt: skip

DistributionStrategy, CrossTowerOps = Strategy, CrossDeviceOps


class AllReduceCrossDeviceOps(CrossDeviceOps):
    pass


class MirroredStrategy(strategies.MirroredStrategy):
    """One replica. Raises UnimplementedError where several GPUs or devices are asked for."""

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
        **_: Any,
    ):
        super().__init__(devices, cross_device_ops or cross_tower_ops)
        _check_gpus("MirroredStrategy", num_gpus or num_gpus_per_worker or 0)


class CollectiveAllReduceStrategy(strategies.MultiWorkerMirroredStrategy):
    """MultiWorkerMirroredStrategy, of workers with one GPU at most."""

    def __init__(self, num_gpus_per_worker: int = 0, **settings: Any):
        super().__init__(**settings)
        _check_gpus("CollectiveAllReduceStrategy", num_gpus_per_worker)


class ParameterServerStrategy(strategies.ParameterServerStrategy):
    """As tf.distribute.experimental's, of workers with one GPU at most."""

    def __init__(self, num_gpus_per_worker: int = 0, **settings: Any):
        super().__init__(**settings)
        _check_gpus("ParameterServerStrategy", num_gpus_per_worker)


def _check_gpus(who: str, count: int) -> None:
    if count > 1:
        raise UnimplementedError(
            f"{who}: got {count} GPUs for a process, which trains on one device here. Start a process for each"
        )
