"""tf.config: the devices of this machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

from sparkflow.functions import functions_run_eagerly, run_functions_eagerly
from sparkflow.session.device_lib import list_local_devices


class PhysicalDevice(NamedTuple):
    """name, such as /physical_device:CPU:0, and device_type."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """name, as Session.list_devices has it, and device_type."""

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The CPU and the GPUs of this machine; only those of one type, "CPU" or "GPU"."""
    found = [(d.name.rpartition("device:")[2], d.device_type) for d in list_local_devices()]
    return [PhysicalDevice(f"/physical_device:{name}", kind) for name, kind in found if device_type in (None, kind)]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """As list_physical_devices, by the names that tf.device takes."""
    return [LogicalDevice(d.name, d.device_type) for d in list_local_devices() if device_type in (None, d.device_type)]


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Nothing to set: memory is taken as it is needed."""


def get_memory_growth(device: PhysicalDevice) -> bool:
    return True


experimental = SimpleNamespace(
    list_physical_devices=list_physical_devices,
    list_logical_devices=list_logical_devices,
    set_memory_growth=set_memory_growth,
    get_memory_growth=get_memory_growth,
)
experimental_run_functions_eagerly, experimental_functions_run_eagerly = run_functions_eagerly, functions_run_eagerly
