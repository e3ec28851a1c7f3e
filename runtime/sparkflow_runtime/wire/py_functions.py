"""Python functions that PyFunc nodes call: a token in the node names one, and the process that made it.

Tokens of two processes never are the same: a task that runs another one's node would call a function of its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from sparkflow_runtime.wire.errors import InvalidArgumentError

ELSEWHERE = "_PyFuncElsewhere"  # the op of a node whose function is in the client's process
STATE = "_state"  # an attribute: the function's first argument is its session's state of that name
SHARED = "shared:"  # begins the names of states that all sessions of a task have in common


class Held:
    """A function, kept by the graph whose node calls it."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function


_NUMBERS = count()
_OWN = [secrets.token_hex(4)]  # the part of a token that is this process's
_HELD: WeakValueDictionary[str, Held] = WeakValueDictionary()


def register(function: Callable[..., Any]) -> tuple[str, Held]:
    """(token, what must be kept alive as long as the function may be called)."""
    held = Held(function)
    token = f"pyfunc_{next(_NUMBERS)}_{_OWN[0]}"
    _HELD[token] = held
    return token, held


def knows(token: str) -> bool:
    """Whether this process can call it."""
    return token in _HELD


def find(token: str) -> Callable[..., Any]:
    """Raises InvalidArgumentError where this process does not know the token: functions do not travel."""
    held = _HELD.get(token)
    if held is None:
        raise InvalidArgumentError(
            f"PyFunc: no function {token!r} in this process: it was made by another one, or its graph is gone. "
            "Functions of tf.py_func and iterators of tf.data do not travel: run the node in a session of the process "
            "that made them"
        )
    return held.function


def _begin_anew() -> None:
    """In a forked child, which has the functions so far, and whose later ones are its own."""
    _OWN[0] = secrets.token_hex(4)


os.register_at_fork(after_in_child=_begin_anew)
