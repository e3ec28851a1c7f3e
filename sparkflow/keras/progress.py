"""Progbar: how far something is, with numbers, in one line of a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any


def shown(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"


class Progbar:
    """target: how many there are, None where nobody knows. verbose: 0 nothing, 1 a bar, 2 a line at the end.
    stateful_metrics: numbers that are shown as they are last; of others the mean is."""

    def __init__(
        self,
        target: int | None,
        width: int = 30,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Sequence[str] | None = None,
        unit_name: str = "step",
    ):
        self.target, self.width, self.verbose, self.interval = target, width, verbose, interval
        self.stateful_metrics, self.unit_name = set(stateful_metrics or ()), unit_name
        self._values: dict[str, tuple[float, float]] = {}
        self._begun_s, self._shown_s, self._seen, self._length = time.monotonic(), 0.0, 0, 0

    def add(self, n: int, values: Any = None) -> None:
        self.update(self._seen + n, values)

    def update(self, current: int, values: Any = None, stateful: bool = False) -> None:
        """values: [(name, number)]."""
        for name, value in values or ():
            if stateful or name in self.stateful_metrics:
                self._values[name] = (value, 1)
            else:
                total, count = self._values.get(name, (0.0, 0.0))
                step = max(current - self._seen, 1)
                self._values[name] = (total + value * step, count + step)
        self._seen = current
        now, at_end = time.monotonic(), self.target is not None and current >= self.target
        if self.verbose == 1 and (at_end or now - self._shown_s >= self.interval):
            self._shown_s = now
            self._say(now - self._begun_s, "\n" if at_end else "")
        elif self.verbose == 2 and at_end:
            self._say(now - self._begun_s, "\n")

    def finish(self, current: int, values: Any) -> None:
        """The last line."""
        self._seen, self._values = current, {name: (value, 1) for name, value in values}
        self._say(time.monotonic() - self._begun_s, "\n")

    def _say(self, took_s: float, end: str) -> None:
        numbers = "".join(f" - {name}: {shown(a / max(b, 1))}" for name, (a, b) in self._values.items())
        if self.target is None:
            head = f"{self._seen}/Unknown"
        else:
            full = int(self.width * min(self._seen / max(self.target, 1), 1.0))
            bar = f" [{'=' * full}{'.' * (self.width - full)}]" if self.verbose == 1 else ""
            head = f"{self._seen}/{self.target}{bar}"
        each = took_s / max(self._seen, 1)
        pace = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 else f"{each * 1e6:.0f}us"
        line = f"{head} - {took_s:.0f}s {pace}/{self.unit_name}{numbers}"
        begin = "\r" if self.verbose == 1 and self._length else ""
        sys.stdout.write(begin + line.ljust(self._length) + end)
        sys.stdout.flush()
        self._length = 0 if end else len(line)
