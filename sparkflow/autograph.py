"""tf.autograph: Python's own control flow is never converted, so functions stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """The function itself; as a decorator with or without arguments."""
    return func if callable(func) else do_not_convert


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Nothing is converted, and nothing said about it."""


experimental = SimpleNamespace(do_not_convert=do_not_convert)
