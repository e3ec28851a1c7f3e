"""The compiled signatures of a session, the least recently used ones given up when there are too many.

A program that makes ever new fetches (one for each batch, say) would otherwise keep every part that it ever ran.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST_NODES = 500_000  # about 1 GB of GraphDefs and plans
_LEAST_NODES = 100  # what a signature costs beside its nodes, counted in nodes


class Signatures(Generic[T]):
    """Signature -> what it was compiled to. The caller locks; reading one that is there needs no lock."""

    def __init__(self, most_nodes: int = _MOST_NODES):
        self._most, self._nodes = most_nodes, 0
        self._held: OrderedDict[object, tuple[T, int]] = OrderedDict()

    def get(self, key: object) -> T | None:
        found = self._held.get(key)
        if found is None:
            return None
        try:
            self._held.move_to_end(key)
        except KeyError:  # another thread has just given it up
            return None
        return found[0]

    def put(self, key: object, value: T, nodes: int) -> list[T]:
        """Keep it; returns those given up for it, for the caller to drop once it holds no lock."""
        self._held[key] = value, nodes + _LEAST_NODES
        self._nodes += nodes + _LEAST_NODES
        dropped = []
        while self._nodes > self._most and len(self._held) > 1:
            _, (old, weight) = self._held.popitem(last=False)
            self._nodes -= weight
            dropped.append(old)
        return dropped

    def values(self) -> list[T]:
        return [value for value, _ in list(self._held.values())]

    def clear(self) -> None:
        self._held.clear()
        self._nodes = 0

    def __len__(self) -> int:
        return len(self._held)
