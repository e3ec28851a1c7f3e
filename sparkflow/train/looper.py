"""LooperThread: a thread that does something again and again until a Coordinator says stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.train.coordinator import Coordinator


class LooperThread(threading.Thread):
    """Calls target(*args, **kwargs), or its run_loop(), at once and then every timer_interval_secs (None: without a
    pause). An exception of it goes to the coordinator."""

    def __init__(
        self, coord: Coordinator, timer_interval_secs: float | None, target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord, self._interval_s = coord, timer_interval_secs
        self._does, self._args, self._kwargs = target, tuple(args or ()), dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator, timer_interval_secs: float | None, target: Callable[..., Any],
        args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:  # fmt: skip
        """Such a thread, started."""
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        thread.start()
        return thread

    def run(self) -> None:
        with self._coord.stop_on_exception():
            self.start_loop()
            due = time.monotonic()
            while not self._coord.wait_for_stop(max(0.0, due - time.monotonic())):
                due += self._interval_s or 0.0
                self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called before the first turn."""

    def stop_loop(self) -> None:
        """Called after the last turn."""

    def run_loop(self) -> None:
        """One turn."""
        if self._does is not None:
            self._does(*self._args, **self._kwargs)
