"""Python functions that PyFunc nodes call: a token in the node names one, in the process that made it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from sparkflow_runtime.wire.errors import InvalidArgumentError

STATE = "_state"  # an attribute: the function's first argument is its session's state of that name
SHARED = "shared:"  # begins the names of states that all sessions of a task have in common


class Held:
    """A function, kept by the graph whose node calls it."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function


_NUMBERS = count()
_HELD: WeakValueDictionary[str, Held] = WeakValueDictionary()


def register(function: Callable[..., Any]) -> tuple[str, Held]:
    """(token, what must be kept alive as long as the function may be called)."""
    held = Held(function)
    token = f"pyfunc_{next(_NUMBERS)}"
    _HELD[token] = held
    return token, held


def find(token: str) -> Callable[..., Any]:
    """Raises InvalidArgumentError where this process does not know the token: functions do not travel."""
    held = _HELD.get(token)
    if held is None:
        raise InvalidArgumentError(
            f"PyFunc: no function {token!r} in this process: it was made by another one, or its graph is gone. "
            "Call tf.py_func in the process that runs the node"
        )
    return held.function
