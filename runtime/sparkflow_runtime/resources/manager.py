"""ResourceManager: a task's containers of named resources."""

from __future__ import annotations

import gc
from collections.abc import Callable
from threading import RLock
from typing import Any

from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError

_LARGE_BYTES = 16 << 20  # of variables: worth looking for what still refers to them
_OWN = "session:"  # no name that a graph may give to a container


class ResourceManager:
    """(container, kind, name) -> resource, made at first use and kept until its container is cleared.

    collectives: of this task, where it has others to do them with. callers: session -> how a function is called that is
    in its client's process (meta, inputs, done), of sessions that have one.
    """

    def __init__(self) -> None:
        self.collectives: Collectives | None = None
        self.callers: dict[str, Callable[..., object]] = {}
        self._lock = RLock()
        self._containers: dict[str, dict[tuple[str, str], Any]] = {}

    @staticmethod
    def own_container(session: str) -> str:
        """Of the resources that one session has for itself."""
        return _OWN + session

    def get_or_create(self, container: str, name: str, kind: type, make: Callable[[], Any]) -> Any:
        """The resource of that name; `make()` runs at most once. Raises InvalidArgumentError when it is of
        another kind."""
        with self._lock:
            held = self._containers.setdefault(container or "", {})
            found = held.get((kind.__name__, name))
            if found is None:
                found = held[kind.__name__, name] = make()
            if not isinstance(found, kind):
                raise InvalidArgumentError(f"Resource {name!r} is a {type(found).__name__}, not a {kind.__name__}")
            return found

    def find(self, container: str, name: str, kind: type) -> Any:
        """The resource of that name, None where there is none."""
        with self._lock:
            return self._containers.get(container or "", {}).get((kind.__name__, name))

    def end_session(self, session: str | None = None) -> None:
        """Variables may be on another device from now on, as far as that session (any) goes."""
        with self._lock:
            for resource in (r for held in self._containers.values() for r in held.values()):
                if isinstance(resource, Variable):
                    resource.homes = {s: at for s, at in resource.homes.items() if s != session and session is not None}

    def clear(self, containers: list[str] | None = None) -> None:
        """Drop the resources of these containers, of all when none is named; queues among them are closed."""
        with self._lock:
            names = containers or list(self._containers)
            dropped = [r for name in names for r in self._containers.pop(name, {}).values()]
        for resource in dropped:
            close = getattr(resource, "close", None)
            if close is not None:
                close(cancel_pending=True)
        large = sum(getattr(r.value, "nbytes", 0) for r in dropped if isinstance(r, Variable)) >= _LARGE_BYTES
        dropped = resource = close = None  # type: ignore[assignment]
        if large:
            gc.collect()  # compiled parts refer to themselves, and a server may rest for hours before it is due

    def reset(self, containers: list[str] | None = None) -> None:
        """As `clear`, and drop what sessions have for themselves: they are over."""
        with self._lock:
            own = [name for name in self._containers if name.startswith(_OWN)]
        self.clear([*containers, *own] if containers else None)
