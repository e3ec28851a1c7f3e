"""Steps that wait for long say in the log who waits for whom.

A step without a deadline waits as long as it takes, as in TensorFlow; where a worker is gone whose gradients a
synchronous step needs, for ever. What waits only for room in a queue says nothing: that is how a queue holds back who
fills it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import lru_cache

from sparkflow_runtime.wire.errors import InvalidArgumentError

SWITCH = "SPARKFLOW_SLOW_STEP_S"  # after how long the first time; 0: never
_FIRST_S = 60.0

_log = logging.getLogger(__name__)


def first_s() -> float:
    """Raises InvalidArgumentError on a variable that is no number of seconds."""
    return _seconds(os.environ.get(SWITCH, ""))


@lru_cache(4)
def _seconds(text: str) -> float:
    try:
        value = float(text) if text else _FIRST_S
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise InvalidArgumentError(f"{SWITCH} must be a number of seconds, got {text!r}")
    return value or float("inf")


class Patience:
    """Of one wait: tells after so long, and each time again after twice as long."""

    def __init__(self) -> None:
        self._begun, self._next_s = time.monotonic(), first_s()

    def at_most(self, left_s: float | None) -> float | None:
        """How long to wait now, where `left_s` is left until the deadline, if there is one."""
        until_told = max(0.0, self._next_s - (time.monotonic() - self._begun))
        if left_s is None:
            return None if until_told == float("inf") else until_told
        return min(left_s, until_told)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._begun >= self._next_s

    def tell(self, step_id: int, describe: Callable[[], str]) -> None:
        """describe: who waits for whom; nothing where that is as it should be."""
        waited_s, self._next_s = self._next_s, 2 * self._next_s
        if said := describe():
            _log.warning("Step %d has not ended for %g s. %s", step_id, waited_s, said)
