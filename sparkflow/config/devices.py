"""The devices of this machine, and which of them sessions use."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow.session.defaults import settings
from sparkflow.session.device_lib import list_local_devices
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import ConfigProto


class PhysicalDevice(NamedTuple):
    """name, such as /physical_device:CPU:0, and device_type."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """name, as tf.device takes it, and device_type."""

    name: str
    device_type: str


class LogicalDeviceConfiguration(NamedTuple):
    """Of a part of a device. memory_limit: in MB, of a GPU; experimental_...: as TensorFlow has them."""

    memory_limit: float | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The CPU and the GPUs of this machine; only those of one type, "CPU" or "GPU"."""
    found = [(d.name.rpartition("device:")[2], d.device_type) for d in list_local_devices(ConfigProto())]
    return [PhysicalDevice(f"/physical_device:{name}", kind) for name, kind in found if device_type in (None, kind)]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """What sessions place ops on, by the names that tf.device takes."""
    return [LogicalDevice(d.name, d.device_type) for d in list_local_devices() if device_type in (None, d.device_type)]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Those of the machine that sessions use."""
    config = settings()
    shown = config.gpu_options.visible_device_list
    numbers = [int(n) for n in shown.split(",")] if shown else None
    found = []
    for device in list_physical_devices(device_type):
        hidden = numbers is not None and int(device.name.rpartition(":")[2]) not in numbers
        if device.device_type != "GPU" or not (hidden or config.device_count.get("GPU") == 0):
            found.append(device)
    return found


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Have sessions use these alone. Raises ValueError on a device that there is not, or where the CPU is not in it."""
    wanted = [devices] if isinstance(devices, PhysicalDevice) else list(devices or ())
    known = list_physical_devices(device_type)
    for device in wanted:
        if device not in known:
            raise ValueError(f"tf.config.set_visible_devices: there is no {device!r} among {known}")
    if device_type in (None, "CPU") and not any(d.device_type == "CPU" for d in wanted):
        raise ValueError("tf.config.set_visible_devices: a session needs the CPU; name it, or device_type='GPU'")
    if device_type == "CPU":
        return
    config, numbers = settings(), [d.name.rpartition(":")[2] for d in wanted if d.device_type == "GPU"]
    config.gpu_options.visible_device_list = ",".join(numbers)
    config.device_count.pop("GPU", None)
    if not numbers:
        config.device_count["GPU"] = 0


def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration] | None:
    """What set_logical_device_configuration was told of it."""
    count = settings().device_count.get("CPU", 0)
    return [LogicalDeviceConfiguration()] * count if device.device_type == "CPU" and count else None


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration] | None
) -> None:
    """The CPU as several devices. Raises UnimplementedError for a GPU, which is not divided."""
    if device.device_type != "CPU":
        raise UnimplementedError(
            f"tf.config.set_logical_device_configuration: {device.name} is one device, whose memory is taken as it is "
            "needed. Leave the call out"
        )
    if any(one.memory_limit is not None for one in logical_devices or ()):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    settings().device_count["CPU"] = len(logical_devices or ()) or 1


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Raises UnimplementedError for False: memory is always taken as it is needed."""
    if not enable:
        raise UnimplementedError("tf.config: memory is taken as it is needed, never all at once; leave the call out")


def get_memory_growth(device: PhysicalDevice) -> bool:
    return True


def get_memory_info(device: str) -> dict[str, int]:
    """Bytes of this process, "current" and "peak": of the CPU all of its memory, of a GPU what its kernels took."""
    kind, _, number = device.rpartition("/")[2].removeprefix("device:").partition(":")
    if kind == "CPU":
        return {"current": _resident_bytes(), "peak": _peak_bytes()}
    names = [d.name.rpartition("device:")[2] for d in list_physical_devices()]
    if f"{kind}:{number or 0}" not in names:
        raise ValueError(f"tf.config.experimental.get_memory_info: there is no device {device!r} among {names}")
    import cupy  # there is a GPU

    with cupy.cuda.Device(int(number or 0)):
        pool = cupy.get_default_memory_pool()
        return {"current": int(pool.used_bytes()), "peak": int(pool.total_bytes())}


def get_memory_usage(device: str) -> int:
    """The "current" of get_memory_info."""
    return get_memory_info(device)["current"]


def reset_memory_stats(device: str) -> None:
    """Raises UnimplementedError: the operating system keeps a process's peak."""
    raise UnimplementedError("tf.config.experimental.reset_memory_stats: the peak is the operating system's, and stays")


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:  # not Linux
        return _peak_bytes()


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Of a GPU its name and compute capability; nothing of a CPU. Raises ValueError on what is no PhysicalDevice."""
    if not isinstance(device, PhysicalDevice):
        raise ValueError(f"device must be a tf.config.PhysicalDevice, but got: {device!r}")
    if device.device_type == "CPU":
        return {}
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(int(device.name.rpartition(":")[2]))
    return {"device_name": found["name"].decode(), "compute_capability": (found["major"], found["minor"])}
