"""A signal's exception (Ctrl-C), at each point of some work where Python looks for one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any


class Interrupted(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def interrupted(work: Callable[[], Any], event: int) -> None:
    """Have `work()` interrupted when a function begins or one of C ends, at that one of them."""
    events = count()

    def interrupt(frame: Any, kind: str, function: Any) -> None:
        if kind in ("call", "c_return") and next(events) == event:
            raise Interrupted

    collects = gc.isenabled()
    gc.disable()  # it calls functions of its own, that swallow what they raise
    with suppress(Interrupted):
        try:
            sys.setprofile(interrupt)
            work()
        finally:
            sys.setprofile(None)
    if collects:
        gc.enable()
