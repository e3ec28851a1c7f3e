"""What a person or a scheduler asks of the chief by a signal: a checkpoint now, and perhaps the end."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SAVE, END = signal.SIGUSR1, signal.SIGTERM


class Asked:
    """Takes both signals between `take` and `give_back`; the training looks at it after each step.

    Only a main thread may take signals: elsewhere nothing is asked, and `take` says so.
    """

    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def take(self) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in (SAVE, END):
            self._before[number] = signal.signal(number, self._note)
        return True

    def give_back(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def answered(self) -> signal.Signals | None:
        """What was asked since the last call."""
        came, self.came = self.came, None
        return came

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came is not END:
            self.came = signal.Signals(number)
