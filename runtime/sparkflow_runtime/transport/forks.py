"""What a fork does with the connections that it inherits: they go on in its parent and end here.

Two processes at one socket would read each other's answers, and one that closes it, as a session does that is collected
when the fork ends, would close it for both. Where the parent dies, nobody else may hold its ports or keep its peers
waiting for it.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    def leave(self) -> None:
        """Called in the fork, where the locks of other threads may be held for ever: it is the parent's from now on."""


_inherited: WeakSet[Inherited] = WeakSet()
own = _inherited.add  # own(it): a fork of this process is to leave it alone


def _leave_all() -> None:
    for one in list(_inherited):
        one.leave()
    _inherited.clear()


os.register_at_fork(after_in_child=_leave_all)
