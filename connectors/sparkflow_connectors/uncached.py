"""Dataclasses that go to other processes as they were made."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Uncached:
    """A dataclass that is pickled without its cached properties: a thread may work one out while another pickles it,
    and a dictionary that grows meanwhile cannot be gone through."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
