"""Python's cyclic garbage collector, kept from looking at what is being made and will live.

Importing this library, building a graph and compiling it make tens of thousands of small objects that stay, and each
few of them start a collection that looks at all of them again: a tenth of the time of an import, an eighth of compiling
a graph of 9,000 nodes, half of the nodes' way to the runtime.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 10_000  # objects: a collection of fewer is a matter of a millisecond
_found: list[bool] = []  # of each pause that lasts, in any thread: whether the collector was on


@contextmanager
def paused() -> Iterator[None]:
    """The last pause to end turns it on again, if it was on. Who ends first may take away what another has found;
    only one of them has found it on.

    Where a pause has made many objects, they count as old from then on: the next collection would have looked at all of
    them, for nothing (16 of an import's 210 ms).
    """
    _found.append(gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        if _found.pop():
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # what somebody froze is to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
