"""Device names: /job:worker/replica:0/task:1/device:CPU:0, parsed, merged and printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache

from sparkflow_runtime.wire.errors import InvalidArgumentError

_PART = re.compile(
    r"job:([A-Za-z_][\w.-]*)|(replica|task):(\d+|\*)|device:([A-Za-z]\w*):(\d+|\*)|(?i:(cpu|gpu))(?::(\d+|\*))?"
)  # between strokes, any number of which may stand, as in TensorFlow: "cpu:0" and "/job:ps//GPU" are device names too

LOCAL_TASK = "/job:localhost/replica:0/task:0"  # of a session that runs in its own process, without a server


@dataclass(frozen=True)
class DeviceSpec:
    """A device name with any of its parts missing (None)."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @staticmethod
    def from_string(name: str) -> DeviceSpec:
        """Raises InvalidArgumentError where `name` is no device name; '' has no part set."""
        return _parsed(name)

    def to_string(self) -> str:
        parts = [
            f"/{unit}:{value}" for unit in ("job", "replica", "task") if (value := getattr(self, unit)) is not None
        ]
        if self.device_type is not None:
            parts.append(f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}")
        return "".join(parts)

    def merged_over(self, base: DeviceSpec) -> DeviceSpec:
        """This spec with its missing parts taken from `base`; a device type given here takes its index with it."""
        typed = self if self.device_type is not None or self.device_index is not None else base
        return DeviceSpec(
            base.job if self.job is None else self.job,
            base.replica if self.replica is None else self.replica,
            base.task if self.task is None else self.task,
            base.device_type if self.device_type is None else self.device_type,
            typed.device_index,
        )

    def fits(self, full: DeviceSpec) -> bool:
        return all(
            v is None or v == getattr(full, f.name) for f in fields(self) if (v := getattr(self, f.name)) or True
        )

    def fits_task(self, name: str) -> bool:
        """Whether devices of the task of that full name may be meant."""
        task = DeviceSpec.from_string(name)
        pairs = (self.job, task.job), (self.replica, task.replica), (self.task, task.task)
        return all(own in (None, other) for own, other in pairs)

    @property
    def task_name(self) -> str:
        return f"/job:{self.job or 'localhost'}/replica:{self.replica or 0}/task:{self.task or 0}"


@lru_cache(4096)
def _parsed(name: str) -> DeviceSpec:
    spec: dict[str, str | int | None] = {}
    for part in filter(None, name.split("/")):
        found = _PART.fullmatch(part)
        if found is None:
            raise InvalidArgumentError(
                f"Device name {name!r}: cannot read {part!r}. Expected parts such as /job:ps/task:0/device:CPU:0"
            )
        job, unit, number, kind, kind_index, short_kind, short_index = found.groups()
        if job:
            spec["job"] = job
        elif unit:
            spec[unit] = _number(number)
        else:
            spec["device_type"] = (kind or short_kind).upper()
            spec["device_index"] = _number(kind_index or short_index or "*")
    return DeviceSpec(**spec)  # type: ignore[arg-type]


def _number(text: str) -> int | None:
    return None if text == "*" else int(text)


@lru_cache(4096)
def canonical(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"A device is a name such as '/job:ps/task:0', a DeviceSpec or a function of an operation, "
                        f"got {name!r}")  # fmt: skip
    return DeviceSpec.from_string(name).to_string()


@lru_cache(4096)
def merge(name: str, base: str) -> str:
    return DeviceSpec.from_string(name).merged_over(DeviceSpec.from_string(base)).to_string()


@lru_cache(4096)
def task_of(device: str) -> str:
    """'/job:ps/replica:0/task:1' of any device of that task."""
    return DeviceSpec.from_string(device).task_name


def on_cpu(device: str) -> bool:
    """Whether it is a CPU, or of no type yet."""
    return DeviceSpec.from_string(device).device_type in (None, "", "CPU")


def task_name(job: str, index: int) -> str:
    return DeviceSpec(job=job, task=index).task_name
