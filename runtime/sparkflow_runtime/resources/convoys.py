"""Locks of many short holds, between threads that hold Python's GIL.

Who waits in a lock's line is given it while another thread has the GIL. That one soon comes for the lock again, finds
it taken by a thread that cannot go on, and waits in its turn: from then on the threads change places at every hold (a
convoy). It begins when a thread loses the GIL within a hold, and nothing ends it: the threads that moved rows through
one shuffling queue, each with a processor of its own, took 220 us a batch so, and 110 without.
"""

from __future__ import annotations

import time
from typing import Protocol

_PAUSE_S, _PAUSES = 2e-5, 50


class _Lock(Protocol):
    def locked(self) -> bool: ...


def stand_back(lock: _Lock) -> None:
    """For `if lock.locked()` before `with lock`: who has it lost the GIL within its hold, gets it now, and is done in
    no time. One that holds it longer is waited for in the line."""
    for _ in range(_PAUSES):
        time.sleep(_PAUSE_S)
        if not lock.locked():
            return
