"""KeptValues: values that a step left for later steps, by handle."""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import Any

from sparkflow_runtime.wire.errors import InvalidArgumentError


class KeptValues:
    """handle -> value, of one task. A handle says who made it and on which device: 'node;number;device'."""

    def __init__(self) -> None:
        self._lock, self._numbers = Lock(), count(1)
        self._values: dict[str, Any] = {}

    def keep(self, node: str, device: str, value: Any) -> str:
        with self._lock:
            handle = f"{node};{next(self._numbers)};{device}"
            self._values[handle] = value
            return handle

    def find(self, handle: str) -> Any:
        """Raises InvalidArgumentError where nothing is kept by that handle, as when it was deleted."""
        with self._lock:
            if handle not in self._values:
                raise InvalidArgumentError(self._missing(handle))
            return self._values[handle]

    def drop(self, handle: str) -> None:
        with self._lock:
            if self._values.pop(handle, None) is None:
                raise InvalidArgumentError(self._missing(handle))

    @staticmethod
    def _missing(handle: str) -> str:
        return (
            f"The tensor with handle {handle!r} is not in the session store: it was deleted, or is of another session"
        )
