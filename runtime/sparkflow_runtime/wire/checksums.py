"""crc32c of a run of bytes. Its package reads the metadata of all that is installed, 15 ms: not with every import."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def crc32c(data: Any, start: int = 0) -> int:
    """start: the crc of what stands before."""
    return _package()(data, start)


@cache
def _package() -> Callable[[Any, int], int]:
    # It imports importlib.resources.abc, by way of importlib.metadata. A thread that is within the import of
    # importlib.resources just then (llvmlite's, which loads machine code) would wait for this one, and this one for it.
    import importlib.resources  # noqa: F401

    from crc32c import crc32c as compute

    found: Callable[[Any, int], int] = compute
    return found
