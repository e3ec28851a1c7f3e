"""Bundles of a step by the general executor: what leaves is gathered, what comes for iterations of loops is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparkflow_runtime.wire.control_flow import DEAD

At = tuple[int, tuple[int, ...]]  # a bundle's unit, and the iteration of each loop that it is in, outermost first
NOT_YET = object()


@dataclass
class _Parcel:
    values: list[Any]
    missing: int
    kept_back: bool = False


class Outbox:
    """Bundles of which some members are not there yet."""

    def __init__(self) -> None:
        self._parcels: dict[At, _Parcel] = {}

    def add(self, at: At, member: int, value: Any, count: int, kept_back: bool) -> list[Any] | None:
        """The values of a bundle with its last member, unless it is kept back: all members have the same tick."""
        parcel = self._parcels.get(at)
        if parcel is None:
            parcel = self._parcels[at] = _Parcel([DEAD] * count, count)
        parcel.values[member] = value
        parcel.missing -= 1
        parcel.kept_back |= kept_back
        if parcel.missing:
            return None
        del self._parcels[at]
        return None if parcel.kept_back else parcel.values


@dataclass
class Inbox:
    """What came for iterations and was not taken yet, and who waits for what. The step's lock is held around all."""

    values: dict[At, list[Any]] = field(default_factory=dict)
    waiting: dict[At, list[Any]] = field(default_factory=dict)

    def take(self, at: At, member: int, token: Any) -> Any:
        """The value of a member; NOT_YET where it has not come, and `token` waits for it."""
        values = self.values.get(at)
        if values is None:
            self.waiting.setdefault(at, []).append(token)
            return NOT_YET
        value, values[member] = values[member], NOT_YET
        if all(v is NOT_YET for v in values):
            del self.values[at]
        return value

    def put(self, at: At, values: list[Any]) -> list[Any] | None:
        """Who waited for it; None where it came before."""
        if at in self.values:
            return None
        self.values[at] = values
        return self.waiting.pop(at, [])
