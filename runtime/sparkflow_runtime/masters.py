"""The masters of other tasks, as the task knows them that holds parts of their sessions' graphs."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from sparkflow_runtime.transport.base import Channel
from sparkflow_runtime.wire.errors import AbortedError, AlreadyExistsError


class _Master(NamedTuple):
    """process: tells it from another one of the task's name. channel: by which it last registered a part."""

    process: str
    channel: Channel
    sessions: set[str]


class Masters:
    """One process a task: the latest to come. Those before it are over, whether they died without a word, stood still
    for so long that they were replaced, or are a second copy of the task that somebody started by mistake."""

    def __init__(self, holder: str) -> None:
        """holder: the name of the task that holds the parts."""
        self._holder = holder
        self._lock = Lock()
        self._known: dict[str, _Master] = {}  # by the name of its task
        self._replaced: set[str] = set()  # processes

    def note(self, channel: Channel, process: str, session: str) -> set[str]:
        """Note a session of the peer's. Gives those of the process before it, if there was one, which is told.

        Raises AlreadyExistsError where another process has come in this one's place."""
        task = channel.peer
        with self._lock:
            if process in self._replaced:
                raise AlreadyExistsError(self._told(task))
            before = self._known.get(task)
            is_new = before is None or before.process != process
            sessions = set() if is_new or before is None else before.sessions
            self._known[task] = _Master(process, channel, sessions | {session})
            if before is None or not is_new:
                return set()
            self._replaced.add(before.process)
        before.channel.close(self._told(task))
        return before.sessions

    def check(self, channel: Channel) -> None:
        """Raises AbortedError where another process seems to have the peer's name: by another channel, which stands,
        parts were registered last. What the peer registers next tells for certain."""
        known = self._known.get(channel.peer)
        if known is not None and known.channel is not channel and known.channel.error is None:
            raise AbortedError(self._told(channel.peer))

    def forget(self, session: str) -> None:
        """It is over."""
        with self._lock:
            for master in self._known.values():
                master.sessions.discard(session)

    def _told(self, task: str) -> str:
        return (
            f"{self._holder}: another process has come as {task}, and this one's sessions are over. Where it did not "
            "replace one that stood still, the task was started twice: each process needs a task_index of its own"
        )
