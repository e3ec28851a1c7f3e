"""What a graph's builders leave for each other by name: variables, losses, summaries, queue runners."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


class Collections:
    """Lists of values by name, in the order they were added; the part of Graph that holds them."""

    def __init__(self) -> None:
        self._collections: dict[str, list[Any]] = {}

    def add_to_collection(self, name: str, value: Any) -> None:
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: str | Iterable[str], value: Any) -> None:
        for name in {names} if isinstance(names, str) else set(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: str) -> list[Any]:
        return self._collections.setdefault(name, [])

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """The values added under `name`; with `scope`, those whose .name the regular expression matches at its
        start."""
        values = self._collections.get(name, [])
        if scope is None:
            return list(values)
        match = re.compile(scope).match
        return [v for v in values if hasattr(v, "name") and match(v.name)]

    def get_all_collection_keys(self) -> list[str]:
        return list(self._collections)

    def clear_collection(self, name: str) -> None:
        self._collections.pop(name, None)
