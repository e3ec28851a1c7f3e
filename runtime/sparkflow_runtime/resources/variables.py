"""Variables: memory that outlives a step, handed to kernels by reference."""

from __future__ import annotations

from threading import Lock
from typing import Any

from sparkflow_runtime.wire.errors import FailedPreconditionError


class Variable:
    """A named array. `read()` returns the memory itself: whoever keeps it past the step copies it first."""

    __slots__ = ("__weakref__", "dtype", "homes", "lock", "name", "shape", "value")

    def __init__(self, name: str, dtype: Any = None, shape: tuple[int | None, ...] | None = None):
        self.name, self.dtype, self.shape = name, dtype, shape
        self.value: Any = None
        self.lock = Lock()
        self.homes: dict[str, str] = {}  # open session -> the device where its graph has it

    def elsewhere(self, session: str, device: str) -> str:
        """Another device where another open session has it; "" where none has."""
        return next((at for who, at in self.homes.items() if who != session and at != device), "")

    def read(self) -> Any:
        """Raises FailedPreconditionError before the first assignment."""
        if self.value is None:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {self.name}. Run its initializer or restore a checkpoint first"
            )
        return self.value

    @property
    def initialized(self) -> bool:
        return self.value is not None
