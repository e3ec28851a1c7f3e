"""tensorflow.python.client.device_lib: the devices of this machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow.framework.graph import Graph
from sparkflow.session.session import Session


class Device(NamedTuple):
    """One of them: "/device:GPU:0", "GPU", its bytes of memory, and what it is in words."""

    name: str
    device_type: str
    memory_limit: int
    physical_device_desc: str
    incarnation: int


def list_local_devices(session_config: Any = None) -> list[Device]:
    """Those that a session without a target may place ops on."""
    with Session(graph=Graph(), config=session_config) as session:
        found = session.list_devices()
    return [
        Device(f"/device:{d.name.rpartition('device:')[2]}", d.device_type, d.memory_limit_bytes, d.name, d.incarnation)
        for d in found
    ]  # fmt: skip
