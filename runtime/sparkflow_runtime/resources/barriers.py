"""Barrier: elements whose components come one by one, each under the element's key, and are taken when complete.

Complete elements wait in a queue, in the order of the insertions that began them; taking is a dequeue of that queue.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.resources.queue_elements import QueueSpec
from sparkflow_runtime.resources.queues import Done, Queue
from sparkflow_runtime.wire.dtypes import DType, int64, string
from sparkflow_runtime.wire.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError

_FIRST = -(2**63)  # the index of the first insertion


class Barrier:
    """Keeps what is incomplete; thread-safe. types, shapes: of an element's components."""

    def __init__(self, name: str, types: tuple[DType, ...], shapes: tuple[tuple[int, ...], ...]):
        self.name, self.types, self.shapes = name, types, shapes
        self._ready = _Ready(self)
        self._lock = Lock()
        self._incomplete: dict[bytes, list[Any]] = {}  # key -> the insertion that began it, and its components
        self._next = _FIRST
        self._passing = 0  # complete ones on their way to the queue
        self._closed = self._cancelled = False

    def __str__(self) -> str:
        return f"Barrier '{self.name}'"

    @property
    def ready_size(self) -> int:
        return self._ready.size

    @property
    def incomplete_size(self) -> int:
        return len(self._incomplete)

    def missing(self) -> str:
        """For errors: of what is incomplete, how much there is and what one lacks."""
        with self._lock:
            for key, (_, *components) in self._incomplete.items():
                lacks = [i for i, component in enumerate(components) if component is None]
                return f"{self} has {len(self._incomplete)} incomplete keys, of which {key!r} lacks components {lacks}"
        return f"{self} has no incomplete key"

    # ------------------------------------------------------------------ operations

    def insert_many(self, keys: Any, values: Any, component: int) -> None:
        """Give each key's element a component. keys: [n] of bytes; values: [n, ...].

        Raises InvalidArgumentError on another dtype or shape, and where a key has the component already: keys before
        it have got theirs. CancelledError for a new key once it is closed, for any where that cancelled.
        """
        keys, values = np.asarray(keys), np.asarray(values)
        self._check(keys, values, component)
        complete, error = self._inserted(keys, values, component)
        for index, key, *components in complete:  # without the lock: whoever waits goes on in this thread
            self._ready.try_enqueue([np.array(index, np.int64), np.array(key, object), *components])
        with self._lock:
            self._passing -= len(complete)
            over = self._is_over()
        if over:
            self._ready.close()
        if error is not None:
            raise error

    def _inserted(self, keys: np.ndarray, values: np.ndarray, component: int) -> tuple[list[list[Any]], OpError | None]:
        """The elements that are complete with it, and what is wrong with the first key that is not taken: those before
        it are, as in TensorFlow."""
        complete: list[list[Any]] = []
        with self._lock:
            if self._closed and (self._cancelled or (len(keys) and not self._incomplete)):
                return [], CancelledError(
                    f"{self} is closed. Pending enqueues cancelled: {int(self._cancelled)}. Number of new insertions: "
                    f"{len(keys)}. Number of incomplete keys: {len(self._incomplete)}"
                )
            before, error = len(self._incomplete), None
            for key, value in zip(keys, values):
                if (error := self._insert(key, value, component, complete)) is not None:
                    break
            self._next += len(self._incomplete) + len(complete) > before
            self._passing += len(complete)
        return complete, error

    def _insert(self, key: bytes, value: Any, component: int, complete: list[list[Any]]) -> OpError | None:
        element = self._incomplete.get(key)
        if element is None:
            if self._closed:
                return CancelledError(
                    f"{self} is closed, but attempted to insert a brand new key: {key!r}. "
                    f"Number of incomplete keys: {len(self._incomplete)}"
                )
            element = self._incomplete[key] = [self._next, *[None] * len(self.types)]
        if element[1 + component] is not None:
            return InvalidArgumentError(f"Key {key!r} already has a value for component {component} in {self}")
        element[1 + component] = np.array(value, self.types[component].np)  # the caller's memory may change
        if all(part is not None for part in element):
            index, *components = self._incomplete.pop(key)
            complete.append([index, key, *components])
        return None

    def _is_over(self) -> bool:
        """Whether the queue is to be closed: nothing will come any more, or is on its way."""
        return self._closed and not (self._incomplete or self._passing or self._ready.closed)

    def take_many(self, n: int, small: bool, done: Done, step: Any = None) -> None:
        """done(None, [indices, keys, *components]) with n complete elements, as soon as there are so many.

        small: with less where it is closed and has less. OutOfRangeError where that is none, or too few.
        """
        if n < 0:
            raise InvalidArgumentError(f"{self}: cannot take {n} elements, num_elements must be 0 or more")
        with self._lock:
            if self._closed:
                found = self.ready_size + self._passing
                n = min(n, found) if small else n
                found += 0 if small else len(self._incomplete)
                if found < max(n, 1):
                    raise OutOfRangeError(
                        f"{self} is closed and has insufficient elements (requested {n}, total size {found})"
                    )
        self._ready.dequeue_many(n, done, step)

    def end(self, cancel: bool) -> None:
        """No new keys; with cancel, nothing any more. Raises CancelledError where it is closed so already."""
        with self._lock:
            if self._closed and (self._cancelled or not cancel):
                raise CancelledError(f"{self} is already closed.")
            self._closed, self._cancelled = True, cancel
            if cancel:
                self._incomplete.clear()
            over = self._is_over() or (cancel and not self._ready.closed)
        if over:
            self._ready.close(cancel)

    def close(self, cancel_pending: bool = True) -> None:
        """Its container is dropped."""
        if not self._cancelled:
            self.end(True)

    def _check(self, keys: np.ndarray, values: np.ndarray, component: int) -> None:
        if not 0 <= component < len(self.types):
            raise InvalidArgumentError(f"{self} has {len(self.types)} components, and none of number {component}")
        want, shape = self.types[component], self.shapes[component]
        if keys.ndim != 1 or values.shape[:1] != keys.shape:
            raise InvalidArgumentError(
                f"{self}: keys must be [n] and values [n, ...], got shapes {keys.shape} and {values.shape}"
            )
        if values.dtype != want.np or values.shape[1:] != shape:
            raise InvalidArgumentError(
                f"{self}: component {component} is {want.name} of shape {shape}, got {values.dtype} of shape "
                f"{values.shape[1:]}"
            )


class _Ready(Queue):
    """The complete elements: index, key, components. What waits here says what is missing in the barrier."""

    def __init__(self, barrier: Barrier):
        types, shapes = (int64, string, *barrier.types), ((), (), *barrier.shapes)
        super().__init__(f"{barrier.name}_queue", QueueSpec("PriorityQueue", types, shapes, -1))
        self._barrier = barrier

    def describe(self) -> str:
        return f"{super().describe()}. {self._barrier.missing()}"
