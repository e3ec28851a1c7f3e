"""What this process has exchanged with each peer: the counters of the channels that stand, and of those that ended."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from weakref import WeakSet

from sparkflow_runtime.transport.base import Channel

_lock = Lock()
_standing: WeakSet[Channel] = WeakSet()
_ended: dict[str, Counter[str]] = {}
_MAX_PEERS = 4096  # strangers have names too: the oldest are forgotten


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


def _name(channel: Channel) -> str:
    return channel.peer or channel.address
