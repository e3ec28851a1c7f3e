"""How sessions run what is in a graph: soft placement, and settings of TensorFlow's that have one value here."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NoReturn

from sparkflow.session.defaults import settings
from sparkflow_runtime.wire.errors import UnimplementedError


class ClusterDeviceFilters:
    """Which tasks each task of a cluster sees: none that it does not need, whatever is set."""

    def __init__(self) -> None:
        self._filters: dict[str, dict[int, list[str]]] = defaultdict(dict)

    def set_device_filters(self, job_name: str, task_index: int, device_filters: Any) -> None:
        self._filters[job_name][task_index] = list(device_filters)


def _one_value(name: str, value: Any, only: Any, why: str) -> None:
    if value != only:
        raise UnimplementedError(f"tf.config.{name}: {value!r} is not to be had, only {only!r}: {why}")


def get_soft_device_placement() -> bool:
    return bool(settings().allow_soft_placement)


def set_soft_device_placement(enabled: bool) -> None:
    """Whether an op that asks for a GPU that there is not, or that has no kernel there, is placed on the CPU."""
    settings().allow_soft_placement = bool(enabled)


def get_device_policy() -> str:
    """ "silent": what is on another device is copied."""
    return "silent"


def set_device_policy(device_policy: str | None) -> None:
    """Raises UnimplementedError on a policy that refuses copies, or warns of them."""
    if device_policy is not None:
        _one_value("experimental.set_device_policy", device_policy, "silent", "tensors are copied where they are used")


def get_synchronous_execution() -> bool:
    return True


def set_synchronous_execution(enable: bool | None) -> None:
    """Raises UnimplementedError on False: Session.run returns when the step is over."""
    if enable is not None:
        _one_value("experimental.set_synchronous_execution", enable, True, "Session.run waits for its step")


def tensor_float_32_execution_enabled() -> bool:
    """False: products of float32 matrices are float32's."""
    return False


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Raises UnimplementedError on True."""
    _one_value("experimental.enable_tensor_float_32_execution", enabled, False, "float32 is multiplied as float32")


def enable_mlir_bridge() -> NoReturn:
    raise UnimplementedError("tf.config.experimental.enable_mlir_bridge: sparkflow has no MLIR; leave the call out")


def disable_mlir_bridge() -> None:
    """It is off."""


def experimental_connect_to_host(remote_host: Any = None, job_name: str = "worker") -> NoReturn:
    raise UnimplementedError(
        f"tf.config.experimental_connect_to_host({remote_host!r}): that is for eager execution. Start a "
        "tf.train.Server there, and open tf.Session('sparkflow://host:port')"
    )


def experimental_connect_to_cluster(cluster_spec_or_resolver: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise UnimplementedError(
        f"tf.config.experimental_connect_to_cluster({cluster_spec_or_resolver!r}): that is for eager execution. Make a "
        "tf.train.Server of the ClusterSpec in each task, and open tf.Session(server.target)"
    )
