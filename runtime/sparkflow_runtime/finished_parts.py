"""Steps that still run, and the tasks that have done their part of them: what such a task did may go with it.

A replica may have given its gradients to one server and wait for another one's word that they were used. Where the
first is lost, nobody ever says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from weakref import WeakKeyDictionary

from sparkflow_runtime.transport.base import Channel
from sparkflow_runtime.wire.errors import OpError, UnavailableError

Abort = Callable[[OpError], None]


class FinishedParts:
    def __init__(self) -> None:
        self._lock = Lock()
        self._steps: WeakKeyDictionary[Channel, dict[int, Abort]] = WeakKeyDictionary()

    def note(self, channel: Channel, step_id: int, abort: Abort) -> Callable[[], None]:
        """abort: ends the step; called at once where the channel has ended. Returns what to call when it is over."""
        with self._lock:
            self._steps.setdefault(channel, {})[step_id] = abort
        if channel.error is not None:
            self.lost(channel)
        return partial(self._over, channel, step_id)

    def _over(self, channel: Channel, step_id: int) -> None:
        with self._lock:
            self._steps.get(channel, {}).pop(step_id, None)

    def lost(self, channel: Channel) -> None:
        """Ends the steps of which the channel's peer had done its part."""
        with self._lock:
            steps = self._steps.pop(channel, {})
        for step_id, abort in steps.items():
            abort(UnavailableError(f"{channel.peer} was lost, and what it did in step {step_id} may be lost with it"))
