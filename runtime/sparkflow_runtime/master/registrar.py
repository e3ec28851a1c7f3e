"""Registrar: has the tasks compile their parts of the graph, each part of a session once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from threading import Event
from typing import Any

from sparkflow_runtime.master.compiled import OwnTask, Part, Registered, Task
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.serialized import serialized


class Registrar:
    """Of one session. Parts of other tasks are shared by all signatures that need the same there: what a graph that
    grows costs is what is new in it. `register` is for one thread at a time. meanwhile(until): called before a wait for
    another task, which is over as soon as `until()` holds."""

    def __init__(
        self,
        session: str,
        own: OwnTask,
        tasks: Mapping[str, Task],
        session_open: Event,
        meanwhile: Callable[[Callable[[], bool]], None],
    ):
        self._session, self._own, self._tasks, self._open = session, own, tasks, session_open
        self._meanwhile = meanwhile
        self.asked: set[str] = set()  # other tasks, that have or may have parts of the session
        self._registered: weakref.WeakValueDictionary[Any, Registered] = weakref.WeakValueDictionary()

    def register(
        self,
        task: str,
        graph: GraphDef,
        feeds: Sequence[str],
        fetches: Sequence[str],
        feed_at: list[int],
        fetch_at: list[int],
        trace: bool,
    ) -> Callable[[], Part]:
        """Begin to register a part; the function that comes back waits for it, in any thread. feed_at, fetch_at:
        positions of those feeds and fetches that are its own. trace: it records, so it is not shared."""
        names = [feeds[i] for i in feed_at], [fetches[i] for i in fetch_at]
        if task == self._own.name:
            own, session = self._own, self._session
            return lambda: Part(None, task, own.register(session, graph, *names, trace), feed_at, fetch_at)
        key = None if trace else _key(task, graph, *names)
        found = self._registered.get(key)
        if found is None:
            other = self._tasks[task]
            self.asked.add(task)
            found = Registered(other, other.register(self._session, graph, *names, trace), self._open)
            if key is not None:
                self._registered[key] = found
        return lambda: self._finish(task, found, key, feed_at, fetch_at)

    def _finish(self, task: str, found: Registered, key: Any, feed_at: list[int], fetch_at: list[int]) -> Part:
        try:
            self._meanwhile(found.is_there)
            return Part(self._tasks[task], task, found.handle, feed_at, fetch_at, found)
        except BaseException:
            if found.is_there():
                self._registered.pop(key, None)
            raise


def _key(task: str, graph: GraphDef, feeds: Sequence[str], fetches: Sequence[str]) -> tuple[str, bytes]:
    """By which a part is known again."""
    body = serialized(graph, deterministic=True)
    return task, blake2b(b"\0".join([body, *(name.encode() for name in (*feeds, "", *fetches))])).digest()
