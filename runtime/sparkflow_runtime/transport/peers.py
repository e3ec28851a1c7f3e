"""The channels of this process: what it has exchanged with each peer, and what it owes them when its program ends."""

from __future__ import annotations

import atexit
import os
import time
from collections import Counter
from threading import Lock
from weakref import WeakSet

from sparkflow_runtime.transport.base import Channel

_lock = Lock()
_standing: WeakSet[Channel] = WeakSet()
_ended: dict[str, Counter[str]] = {}
_MAX_PEERS = 4096  # strangers have names too: the oldest are forgotten
_PARTING_S, _LOOK_S = 0.5, 0.002


def begin(channel: Channel) -> None:
    with _lock:
        _standing.add(channel)


def end(channel: Channel) -> None:
    with _lock:
        _standing.discard(channel)
        _ended.setdefault(_name(channel), Counter()).update(channel.counters)
        while len(_ended) > _MAX_PEERS:
            del _ended[next(iter(_ended))]


def traffic() -> dict[str, dict[str, int]]:
    """Peer -> `channels` that stand, and Channel.counters summed over all that ever stood. A peer without a name is
    called by its address."""
    with _lock:
        found = {peer: Counter({**counts, "channels": 0}) for peer, counts in _ended.items()}
        for channel in _standing:
            counts = found.setdefault(_name(channel), Counter())
            counts.update(channel.counters)
            counts["channels"] += 1
    return {peer: dict(counts) for peer, counts in sorted(found.items())}


@atexit.register
def answer_all(within_s: float = _PARTING_S) -> None:
    """Wait until every call that peers have made is answered, within that time: what a program waits for before it ends
    (a token that the last worker puts into a queue) may come by a call, and its answer is sent by another thread."""
    until = time.monotonic() + within_s
    while time.monotonic() < until and any(channel.owes for channel in _channels()):
        time.sleep(_LOOK_S)


def _channels() -> list[Channel]:
    with _lock:
        return list(_standing)


os.register_at_fork(after_in_child=_standing.clear)  # a fork has none of its parent's channels


def _name(channel: Channel) -> str:
    return channel.peer or channel.address
