"""Notices peers that stopped without closing: one thread for all channels of the process.

It sends a heartbeat four times in the shorter keepalive of the two ends, and looks twice as often at what arrived.
It never waits for a channel: a heartbeat that cannot go at once is left out, since bytes are then on their way
already.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Protocol

log = logging.getLogger(__name__)
_BEATS, _LOOKS = 4, 8  # per keepalive


class Watched(Protocol):
    """What the monitor needs of a channel."""

    keepalive_s: float
    beat_s: float  # how often to send a heartbeat: the peer's keepalive counts too

    def activity(self) -> tuple[int, int, bool, bool]:
        """(bytes received, bytes sent, a send is in progress, the reader waits for the peer)."""

    def heartbeat(self) -> None: ...

    def silent(self, silent_s: float) -> None:
        """The peer is dead."""


class Pulse:
    """Decides, from what one channel showed at each look, how long its peer has been silent. No clock, no socket.

    look_s: how often it wants to be looked at; now (of every method): time.monotonic, first when the channel began.
    """

    def __init__(self, channel: Watched, now: float):
        self.channel = channel
        self.look_s = min(channel.beat_s * _BEATS, channel.keepalive_s) / _LOOKS
        self.silent_s = 0.0
        self._looked, self._beat, self._seen = now, now, channel.activity()

    def dead(self, now: float) -> bool:
        """A look that came late counts as two at most: it was this process that stood still then."""
        elapsed_s = min(now - self._looked, 2 * self.look_s)
        received, sent, sending, reading = seen = self.channel.activity()
        alive = received != self._seen[0] or not reading or (sending and self._seen[2] and sent != self._seen[1])
        self.silent_s = 0.0 if alive else self.silent_s + elapsed_s
        self._looked, self._seen = now, seen
        return self.silent_s >= self.channel.keepalive_s

    def beat_due(self, now: float) -> bool:
        due = now - self._beat + self.look_s / 2 >= self.channel.beat_s
        if due:
            self._beat = now
        return due


def beat_s(keepalive_s: float, peer_keepalive_s: float) -> float:
    return min(keepalive_s, peer_keepalive_s) / _BEATS


def _attend(pulse: Pulse, now: float) -> None:
    if pulse.dead(now):
        pulse.channel.silent(pulse.silent_s)
    elif pulse.beat_due(now):
        pulse.channel.heartbeat()


class Monitor:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new. A forked child has no monitor thread, and the channels it inherited are its parent's."""
        self._pulses: dict[int, Pulse] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # of which `with` may be interrupted and leave the lock taken
        self._thread: threading.Thread | None = None

    def watch(self, channel: Watched) -> None:
        with self._lock:
            self._pulses[id(channel)] = Pulse(channel, time.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sparkflow-keepalive", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, channel: Watched) -> None:
        with self._lock:
            self._pulses.pop(id(channel), None)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._changed.wait(min((p.look_s for p in self._pulses.values()), default=None))
                pulses = list(self._pulses.values())
            now = time.monotonic()
            for pulse in pulses:
                try:
                    _attend(pulse, now)
                except Exception:
                    log.exception("Keepalive of %s failed", pulse.channel)


MONITOR = Monitor()
os.register_at_fork(after_in_child=MONITOR.reset)
