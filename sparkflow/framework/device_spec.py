"""tf.DeviceSpec: a device's name in parts that a program may change, as device functions of its own do."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.wire import devices


class DeviceSpec:
    """A device name with any of its parts missing (None). Raises ValueError on a task, replica or index that is no
    number."""

    def __init__(self, job: str | None = None, replica: int | None = None, task: int | None = None,
                 device_type: str | None = None, device_index: int | None = None):  # fmt: skip
        self.job, self.replica, self.task = job, replica, task
        self.device_type, self.device_index = device_type, device_index

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PARTS:
            raise AttributeError(f"DeviceSpec has no part {name!r}; it has {', '.join(_PARTS)}")
        object.__setattr__(self, name, None if value is None else _PARTS[name](value))

    @staticmethod
    def from_string(spec: str) -> DeviceSpec:
        """Raises InvalidArgumentError where `spec` is no device name; '' has no part set."""
        return DeviceSpec().parse_from_string(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Have the parts of that name and no others; itself."""
        read = devices.DeviceSpec.from_string(spec)
        for part in _PARTS:
            setattr(self, part, getattr(read, part))
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Take the parts that `dev` has, in place of its own."""
        for part in _PARTS:
            if getattr(dev, part) is not None:
                setattr(self, part, getattr(dev, part))

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Another one that has the parts of `dev`, and for the missing ones its own."""
        made = self.replace()
        made.merge_from(dev)
        return made

    def replace(self, **parts: Any) -> DeviceSpec:
        """Another one with these parts in place of its own."""
        return DeviceSpec(**{**self._parts(), **parts})

    def to_string(self) -> str:
        return devices.DeviceSpec(**self._parts()).to_string()

    def _parts(self) -> dict[str, Any]:
        return {part: getattr(self, part) for part in _PARTS}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSpec) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __repr__(self) -> str:
        return f"DeviceSpec({', '.join(f'{k}={v!r}' for k, v in self._parts().items() if v is not None)})"


_PARTS: dict[str, Any] = {"job": str, "replica": int, "task": int, "device_type": lambda kind: str(kind).upper(),
                          "device_index": int}  # fmt: skip


def device_name(device: Any) -> str:
    """What a device function returns: a name, a spec, or None."""
    return device.to_string() if hasattr(device, "to_string") else device or ""
