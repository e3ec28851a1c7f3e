"""Python's cyclic garbage collector, kept from looking at what is being made and will live.

Importing this library, building a graph and compiling it make tens of thousands of small objects that stay, and each
few of them start a collection that looks at all of them again: a tenth of the time of an import, an eighth of compiling
a graph of 9,000 nodes, half of the nodes' way to the runtime.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Pauses are of all threads, and there is no lock in this room. Who turns the collector off owes that it is turned on;
# who forgets what is owed turns it on afterwards. So whatever comes between, it is on when the last pause is over.
_lasting: list[None] = []
_owed: list[None] = []


@contextmanager
def paused(for_good: bool = False) -> Iterator[None]:
    """The last pause to end turns it on again, if it was on.

    for_good: what is made lives as long as the process, as an import does, and counts as old from then on: the next
    collection would have looked at all of it, for nothing (16 of an import's 210 ms). Graphs come and go: of what is
    made old this way, nothing brings the next full collection nearer.
    """
    _lasting.append(None)
    if gc.isenabled():
        gc.disable()
        _owed.append(None)
    try:
        yield
    finally:
        _lasting.pop()
        if not _lasting and _owed:
            _owed.clear()
            if for_good and not gc.get_freeze_count():  # what somebody froze is to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
