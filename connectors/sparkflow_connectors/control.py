"""The live line between a job's roles and its driver: hellos, where each serves, progress, the first error, the end.

The driver listens; each worker role dials it with the job's secret. A role whose line breaks before it said it was
done is lost, which the driver so learns within the keepalive however the cluster reports it. A role whose driver is
gone ends itself.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

from sparkflow_connectors.processes import START_TIMEOUT_S
from sparkflow_connectors.waiting import CLAIM_TIMEOUT_S
from sparkflow_runtime.transport import Channel, Options, dial, listen
from sparkflow_runtime.wire.errors import DeadlineExceededError, OpError, UnimplementedError, from_dict, to_dict

HELLO, PROGRESS, ERROR, DONE, LOG, EPOCH, GATHER = range(1, 8)
_NAMES = {HELLO: "hello", PROGRESS: "progress", ERROR: "error", DONE: "done", LOG: "log", EPOCH: "epoch"}
_PROGRESS_EVERY_S = 0.2
_START_S = CLAIM_TIMEOUT_S + START_TIMEOUT_S

_log = logging.getLogger(__name__)


class Event(NamedTuple):
    """What a role said: kind is 'hello', 'progress', 'error', 'done', 'log', 'epoch' or 'lost'."""

    kind: str
    rank: int
    fields: dict[str, Any]


class DriverControl:
    """The driver's end; `events` fills as roles speak. host: by which they reach it, or (that, what to listen at)."""

    def __init__(self, host: str | tuple[str, str], secret: bytes, workers: int, keepalive_s: float = 10.0):
        self._workers, self._lock = workers, Lock()
        self._done: list[Callable[..., None]] = []  # how to answer each role that is done
        self._gathered: dict[int, tuple[str, Callable[..., None]]] = {}  # by rank: what it said, how to answer it
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._said_bye: set[str] = set()
        told, at = (host, host) if isinstance(host, str) else host
        self._listener = listen(f"tcp://{at}:0", self, secret, "/job:driver", Options(keepalive_s=keepalive_s))
        port = self._listener.url.rpartition(":")[2]
        self.url = self._listener.url if told == at else f"tcp://{told}:{port}"

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[Any], reply: Any) -> None:
        if method == GATHER:
            self._gather(_rank(channel), json.loads(meta)["text"], reply)
            return
        if method not in _NAMES:
            raise UnimplementedError(f"The driver takes no method {method} (from {channel})")
        if method in (DONE, ERROR):
            self._said_bye.add(channel.peer)
        self.events.put(Event(_NAMES[method], _rank(channel), json.loads(meta)))
        if method == DONE:
            self._answer_when_all_are_done(reply)
        elif reply is not None:
            reply()

    def _answer_when_all_are_done(self, reply: Callable[..., None]) -> None:
        """No role ends before all are done: another may still need the parameter server beside it."""
        with self._lock:
            self._done.append(reply)
            answers = list(self._done) if len(self._done) == self._workers else []
        for answer in answers:
            answer()

    def _gather(self, rank: int, text: str, reply: Callable[..., None]) -> None:
        """Everybody's text to all of them, once the last has come. Where one is lost, the attempt ends, and so does its
        line."""
        with self._lock:
            self._gathered[rank] = text, reply
            answers = sorted(self._gathered.items()) if len(self._gathered) == self._workers else []
        texts = json.dumps([said for _, (said, _) in answers]).encode()
        for _, (_, answer) in answers:
            answer(texts)

    def on_close(self, channel: Channel, error: OpError) -> None:
        if channel.peer not in self._said_bye:
            self.events.put(Event("lost", _rank(channel), {"message": error.message}))

    def close(self) -> None:
        """Whoever still speaks ends itself."""
        for channel in self._listener.channels():
            channel.close("the driver has ended this attempt")
        self._listener.close()


def _rank(channel: Channel) -> int:
    return int(channel.peer.rpartition(":")[2])


class TaskControl:
    """A role's end. `driver_gone(error)` is called once if the line ends, by the driver's will or without."""

    def __init__(
        self, url: str, secret: bytes, rank: int, driver_gone: Callable[[OpError], None], keepalive_s: float = 10.0
    ):
        self._driver_gone, self._closing, self._last_s = driver_gone, False, 0.0
        self._channel = dial(url, self, secret, f"/job:role/task:{rank}", 10.0, Options(keepalive_s=keepalive_s))
        self._tell(HELLO, {"pid": os.getpid(), "host": socket.gethostname()})

    def _tell(self, method: int, fields: dict[str, Any]) -> None:
        self._channel.push(method, json.dumps(fields).encode())

    def gather(self, text: str) -> list[str]:
        """An all-gather among the roles, in rank order. Raises DeadlineExceededError where not all begin."""
        asked = json.dumps({"text": text}).encode()
        try:
            return list(json.loads(self._channel.call(GATHER, asked, timeout_s=_START_S)[0]))
        except DeadlineExceededError as error:
            raise DeadlineExceededError(
                f"Start: not all workers announced themselves in {_START_S:g} s; the driver's log tells which began"
            ) from error

    def progress(self, fields: dict[str, Any], force: bool = False) -> None:
        """Report figures, a few times a second at the most unless `force`."""
        now = time.monotonic()
        if force or now - self._last_s >= _PROGRESS_EVERY_S:
            self._last_s = now
            self._tell(PROGRESS, fields)

    def log(self, text: str) -> None:
        self._tell(LOG, {"text": text})

    def epoch(self, fields: dict[str, Any]) -> None:
        """One is over: for the history, which outlives the attempt."""
        self._tell(EPOCH, fields)

    def error(self, error: BaseException) -> None:
        """The root cause, before the cluster reports that a task failed. Returns when the driver has it."""
        self._bye(ERROR, {**to_dict(error), "type": type(error).__name__})

    def done(self, fields: dict[str, Any], timeout_s: float) -> None:
        """The figures. Returns when all roles are done; raises nothing where they are not within `timeout_s`."""
        self._bye(DONE, fields, timeout_s)

    def _bye(self, method: int, fields: dict[str, Any], timeout_s: float = 10.0) -> None:
        self._closing = True
        try:
            self._channel.call(method, json.dumps(fields).encode(), timeout_s=timeout_s)
        except OpError as error:
            _log.warning("The driver did not hear our last word: %s", error)
        self._channel.close("the role ended")

    def on_message(self, channel: Channel, method: int, meta: bytes, tensors: list[Any], reply: Any) -> None:
        raise UnimplementedError(f"A role takes no method {method}")

    def on_close(self, channel: Channel, error: OpError) -> None:
        if not self._closing:
            self._driver_gone(error)


def reported(fields: dict[str, Any]) -> OpError:
    """The error that a role reported, as itself."""
    return from_dict(fields)
