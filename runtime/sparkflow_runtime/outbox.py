"""What is to go to tasks that there is no channel to: a step does not wait for one to be dialled, which takes long
where the task is stopped. And what went over a channel of late, which may be lost where that ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Lock
from typing import Any
from weakref import WeakKeyDictionary

from sparkflow_runtime.transport.base import Channel
from sparkflow_runtime.wire.bundles import copies
from sparkflow_runtime.wire.errors import InternalError, OpError

Send = Callable[[Channel], None]
Failed = Callable[[OpError], None]


class Outbox:
    """channel(task): the channel to a task, dialled if it has to be. aside(work): has work done in another thread."""

    def __init__(self, channel: Callable[[str], Channel], aside: Callable[[Callable[[], None]], None]):
        self._channel, self._aside = channel, aside
        self._lock = Lock()
        self._all_gone = Condition(self._lock)
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
            try:
                self._aside(lambda: self._empty(task, self._dialled(task)))
            except OpError as error:  # no thread to be had
                self._empty(task, error)

    def push(
        self,
        task: str,
        channel: Channel | None,
        method: int,
        meta: bytes,
        tensors: Sequence[Any],
        failed: Failed,
        waits: bool | float = True,
    ) -> None:
        """Over a channel that there is (waits: see Channel.push), else when there is one: of copies, since who waits
        may go on before. Raises OpError where the channel has ended."""
        if channel is not None and task not in self:
            channel.push(method, meta, tensors, waits)
            return
        kept = copies(tensors)
        self.put(task, lambda channel: channel.push(method, meta, kept), failed)

    def wait(self, timeout_s: float) -> None:
        """Until nothing is kept, or so long."""
        with self._lock:
            self._all_gone.wait_for(lambda: not self._kept, timeout_s)

    def _dialled(self, task: str) -> Channel | OpError:
        try:
            return self._channel(task)
        except OpError as error:
            return error
        except Exception as error:
            return InternalError(f"{task}: {type(error).__name__}: {error}")

    def _empty(self, task: str, found: Channel | OpError) -> None:
        while (one := self._next(task)) is not None:
            send, failed = one
            if isinstance(found, OpError):
                failed(found)
                continue
            try:
                send(found)
            except OpError as error:
                failed(error)
            except Exception as error:
                failed(InternalError(f"{task}: {type(error).__name__}: {error}"))

    def _next(self, task: str) -> tuple[Send, Failed] | None:
        with self._lock:
            kept = self._kept[task]
            if not kept:
                del self._kept[task]
                self._all_gone.notify_all()
            return kept.popleft() if kept else None


class Sent:
    """The steps that have sent something over each channel in the last `window_s`, within which its end is noticed.

    What the peer has not read by then is lost, and who sent it may be done with the step."""

    def __init__(self, window_s: float):
        self._window_s, self._lock = window_s, Lock()
        self._steps: WeakKeyDictionary[Channel, deque[tuple[float, int]]] = WeakKeyDictionary()

    def note(self, channel: Channel, step_id: int) -> None:
        """Before it is sent."""
        now = time.monotonic()
        with self._lock:
            steps = self._steps.setdefault(channel, deque())
            if steps and steps[-1][1] == step_id:
                steps.pop()
            steps.append((now, step_id))
            while steps[0][0] < now - self._window_s:
                steps.popleft()

    def lost(self, channel: Channel) -> list[int]:
        """Those whose data may be lost with a channel that has ended; once."""
        since = time.monotonic() - self._window_s
        with self._lock:
            return [step_id for at, step_id in self._steps.pop(channel, ()) if at >= since]
