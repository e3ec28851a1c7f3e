"""One call over a channel, at both ends: who waits for the answer, and who owes it."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sparkflow_runtime.wire.errors import DataLossError, InternalError, OpError, from_dict, to_dict

log = logging.getLogger(__name__)
_MAX_MESSAGE_CHARS = 1 << 20


class Answers(Protocol):
    """What a reply needs of its channel."""

    def answer(
        self, call_id: int, method: int, meta: bytes, tensors: Sequence[Any], error: BaseException | None
    ) -> None: ...


class Waiter:
    """A `done` that a thread waits for."""

    __slots__ = ("_ready", "error", "meta", "tensors")

    def __init__(self) -> None:
        self._ready = threading.Lock()
        self._ready.acquire()

    def __call__(self, error: OpError | None, meta: bytes, tensors: list[np.ndarray]) -> None:
        self.error, self.meta, self.tensors = error, meta, tensors
        self._ready.release()

    def wait(self, deadline: float | None) -> bool:
        return self._ready.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic()))


class Reply:
    """Answers one call, once."""

    __slots__ = ("_call_id", "_channel", "_method", "_open")

    def __init__(self, channel: Answers, call_id: int, method: int):
        self._channel, self._call_id, self._method = channel, call_id, method
        self._open = [True]

    def __call__(self, meta: bytes = b"", tensors: Sequence[Any] = (), error: BaseException | None = None) -> None:
        try:
            self._open.pop()
        except IndexError:
            raise InternalError(f"Method {self._method} from {self._channel}: replied twice") from None
        self._channel.answer(self._call_id, self._method, meta, tensors, error)

    def fail(self, error: BaseException) -> None:
        if self._open:
            self(error=error)
        else:
            log.error("Method %d from %s failed after its reply", self._method, self._channel, exc_info=error)


def error_meta(error: BaseException) -> bytes:
    fields = to_dict(error)
    return json.dumps({**fields, "message": fields["message"][:_MAX_MESSAGE_CHARS]}).encode()


def read_error(meta: bytes, method: int) -> OpError:
    try:
        return from_dict(json.loads(meta))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        return DataLossError(f"Method {method} failed, and its error cannot be read ({e}): {meta[:200]!r}")
