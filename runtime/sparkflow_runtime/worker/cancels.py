"""What is to be called when a step fails: all of it, though Ctrl-C may come in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sparkflow_runtime.wire.errors import OpError


def call_all(
    callbacks: dict[int, Callable[[OpError], None]], lock: AbstractContextManager[Any], error: OpError
) -> None:
    """Each once, the first one first. What Ctrl-C cuts short stays, with all behind it, for who calls this again."""
    while True:
        with lock:
            token = next(iter(callbacks), 0)
            callback = callbacks.pop(token, None)
        if callback is None:
            return
        try:
            callback(error)
        except BaseException:
            callbacks[token] = callback
            raise
