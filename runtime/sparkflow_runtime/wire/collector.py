"""Python's cyclic garbage collector, kept from looking at what is being made and will live.

Importing this library, building a graph and compiling it make tens of thousands of small objects that stay, and each
few of them start a collection that looks at all of them again: a tenth of the time of an import, an eighth of compiling
a graph of 9,000 nodes, half of the nodes' way to the runtime.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Pauses are of all threads, and there is no lock in this room. Who turns the collector off owes that it is turned on;
# who turns it on forgets what was owed until then. So whatever comes between, another pause or Ctrl-C, the collector is
# on when the last pause is over, or when the next one is.
_lasting: list[object] = []
_owed: list[object] = []


@contextmanager
def paused(for_good: bool = False) -> Iterator[None]:
    """The last pause to end turns it on again, if it was on.

    for_good: what is made lives as long as the process, as an import does, and counts as old from then on: the next
    collection would have looked at all of it, for nothing (16 of an import's 210 ms). Graphs come and go: of what is
    made old this way, nothing brings the next full collection nearer.
    """
    mine = object()
    try:
        _lasting.append(mine)
        if gc.isenabled():
            _owed.append(mine)
            gc.disable()
        yield
    finally:
        try:  # noqa: SIM105  (a function called here could be interrupted as it begins)
            _lasting.remove(mine)
        except ValueError:  # it was interrupted before it was there
            pass
        owed = tuple(_owed)
        if not _lasting and owed:
            if for_good and not gc.get_freeze_count():  # what somebody froze is to stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
            for one in owed:
                with suppress(ValueError):  # another thread has forgotten it
                    _owed.remove(one)
