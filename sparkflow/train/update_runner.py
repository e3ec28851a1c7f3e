"""UpdateRunner: the thread in which the chief of synchronous replicas makes their updates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sparkflow.train.coordinator import Coordinator
from sparkflow.train.queue_runner import QueueRunner

_PATIENCE_S, _POLL_S = 1.0, 0.02


class UpdateRunner(QueueRunner):
    """When the coordinator stops, an update that waits for gradients is given up after a moment: replicas that have
    ended send none, and whoever joins the threads would wait for it."""

    def __init__(self, queue: Any, update: Any):
        super().__init__(queue, [update])
        self._cancels: WeakKeyDictionary[Any, Callable[[], None]] = WeakKeyDictionary()  # session -> gives its run up

    def _prepared(self, sess: Any, enqueue_op: Any) -> Callable[[], Any]:
        if not hasattr(sess, "_cancellable"):
            return super()._prepared(sess, enqueue_op)
        run, self._cancels[sess] = sess._cancellable(enqueue_op)
        return run

    def _cancel_on_stop(self, sess: Any, coord: Coordinator) -> None:
        super()._cancel_on_stop(sess, coord)
        until = time.monotonic() + _PATIENCE_S
        while sess in self._running and time.monotonic() < until:
            time.sleep(_POLL_S)
        cancel = self._cancels.pop(sess, None)
        if cancel is not None and sess in self._running:
            cancel()
