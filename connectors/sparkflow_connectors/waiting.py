"""How long a driver waits for a cluster's task slots, and when it says so."""

from __future__ import annotations

import logging
import time
from typing import Any

CLAIM_TIMEOUT_S = 600.0  # for others to give back what a training needs
RETURN_TIMEOUT_S = 300.0  # for executors that the application has asked for, or that were lost
_WORD_EVERY_S = 30.0

log = logging.getLogger("sparkflow")


class Patience:
    """How long something has been waited for, and when it is time to say so.

    later: how the words after the first are logged. As warnings, which those see, too, who have not set up logging.
    """

    def __init__(self, first_word_s: float = 2.0, later: int = logging.WARNING) -> None:
        self._since_s: dict[str, float] = {}
        self._next_word_s = time.monotonic() + first_word_s
        self._level, self._later = logging.INFO, later

    def waited_s(self, what: str) -> float:
        """Since the first of an unbroken row of calls for `what`."""
        self._since_s = {what: self._since_s.get(what, time.monotonic())}
        return time.monotonic() - self._since_s[what]

    def say(self, text: str, *values: Any) -> None:
        if time.monotonic() >= self._next_word_s:
            self._next_word_s = time.monotonic() + _WORD_EVERY_S
            log.log(self._level, text, *values)
            self._level = self._later
