"""What a session needs of the Server that is its master's task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sparkflow_runtime.wire.protos import ConfigProto
from sparkflow_runtime.worker.worker import Worker

if TYPE_CHECKING:
    from sparkflow_runtime.master.compiled import Task


class Host(Protocol):
    worker: Worker
    config: ConfigProto  # what its sessions have unless theirs says otherwise

    def tasks(self, filters: Sequence[str] = (), patience_s: float = ...) -> Mapping[str, Task]: ...
