"""What is to go to tasks that there is no channel to: a step does not wait for one to be dialled, which takes long
where the task is stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from sparkflow_runtime.transport.base import Channel
from sparkflow_runtime.wire.errors import OpError

Send = Callable[[Channel], None]
Failed = Callable[[OpError], None]


class Outbox:
    """channel(task): the channel to a task, dialled if it has to be. aside(work): has work done in another thread."""

    def __init__(self, channel: Callable[[str], Channel], aside: Callable[[Callable[[], None]], None]):
        self._channel, self._aside = channel, aside
        self._lock = Lock()
        self._kept: dict[str, deque[tuple[Send, Failed]]] = {}

    def __contains__(self, task: str) -> bool:
        """Whether something waits to go there: what comes later goes behind it."""
        return task in self._kept

    def put(self, task: str, send: Send, failed: Failed) -> None:
        """send(channel) when there is one, in the order of these calls; failed(error) where there is none."""
        with self._lock:
            first = task not in self._kept
            self._kept.setdefault(task, deque()).append((send, failed))
        if first:
            self._aside(lambda: self._empty(task))

    def _empty(self, task: str) -> None:
        channel, error = None, None
        try:
            channel = self._channel(task)
        except OpError as raised:
            error = raised
        while (found := self._next(task)) is not None:
            send, failed = found
            try:
                if channel is not None:
                    send(channel)
            except OpError as raised:
                channel, error = None, raised
            if error is not None:
                failed(error)

    def _next(self, task: str) -> tuple[Send, Failed] | None:
        with self._lock:
            kept = self._kept[task]
            if not kept:
                del self._kept[task]
            return kept.popleft() if kept else None
