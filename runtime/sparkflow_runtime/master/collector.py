"""Python's cyclic garbage collector, kept from looking at a graph while it is being compiled.

Compiling makes tens of thousands of small objects that live, and each few of them start a collection that looks at all
of them again: an eighth of the time for a graph of 9,000 nodes, half of it for the nodes' way to the runtime.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """How many there are, in all threads, and whether the last one to end turns the collector on again."""

    def __init__(self) -> None:
        self.lock, self.count, self.resume = Lock(), 0, False

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self.lock:
            if self.count == 0:
                self.resume = gc.isenabled()
                gc.disable()
            self.count += 1
        try:
            yield
        finally:
            with self.lock:
                self.count -= 1
                if self.count == 0 and self.resume:
                    gc.enable()


paused = _Pauses().paused
