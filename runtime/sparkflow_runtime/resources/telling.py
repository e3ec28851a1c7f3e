"""How collectives speak to other tasks: small messages, of a kind and fields."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.resources.chunk_messages import Push
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

_log = logging.getLogger(__name__)


class Telling:
    """name: of this task. push: see Collectives. hear: what comes from this task itself."""

    def __init__(self, name: str, push: Push | None, hear: Callable[[str, bytes, list[np.ndarray]], None]):
        self._name, self._push, self._hear = name, push, hear

    def tell(self, task: str, kind: int, fields: dict[str, Any]) -> None:
        message = bytes([kind]) + json.dumps(fields).encode()
        if task == self._name:
            self._hear(task, message, [])
        elif self._push is None:
            here = f"{self._name} has no way to reach {task}"
            raise InvalidArgumentError(f"{here}: this session is not part of a cluster")
        else:
            self._push(task, message, ())

    def quietly(self, task: str, kind: int, fields: dict[str, Any]) -> None:
        """To a task that may be gone: whoever waits for it is told by the end of its connection."""
        try:
            self.tell(task, kind, fields)
        except OpError as error:
            _log.debug("%s: not told to %s: %s", self._name, task, error)
