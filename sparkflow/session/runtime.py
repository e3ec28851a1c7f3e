"""The runtime, half of all modules: the first session or server imports it, and who only builds graphs never does."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sparkflow_runtime.wire.collector import paused


@cache
def runtime(module: str) -> Any:
    """sparkflow_runtime.<module>, imported at the first call."""
    with paused(for_good=True):
        return import_module(f"sparkflow_runtime.{module}")
