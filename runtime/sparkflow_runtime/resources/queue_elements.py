"""What a queue holds: how it is declared, and the checks and forms of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.resources.queue_stores import Block, FifoStore, PaddingStore, PriorityStore, ShuffleStore, Store
from sparkflow_runtime.resources.row_copies import copied
from sparkflow_runtime.resources.shuffle_rows import ShuffleLoops
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError


@dataclass(frozen=True)
class QueueSpec:
    """What two ops must agree on to share a queue.

    kind: "FIFOQueue", "PaddingFIFOQueue", "PriorityQueue" or "RandomShuffleQueue". types: of a priority queue's
    elements, the priority first. shapes: of one element's components, None where elements may differ; sizes may be None
    in a padding queue.
    capacity: in elements, negative for no limit. min_after_dequeue: elements a dequeue leaves while the queue is open.
    """

    kind: str
    types: tuple[DType, ...]
    shapes: tuple[tuple[int | None, ...], ...] | None
    capacity: int
    min_after_dequeue: int = 0
    seeds: tuple[int, int] = (0, 0)

    def empty_block(self) -> Block:
        """No rows; of components of any shape, as objects."""
        if self.shapes is None:
            return [np.empty(0, object) for _ in self.types]
        return [np.empty((0, *(d or 0 for d in s)), t.np) for t, s in zip(self.types, self.shapes, strict=True)]

    def store(self, loops: ShuffleLoops | None = None) -> Store:
        if self.kind == "RandomShuffleQueue":
            empty = self.empty_block()
            return ShuffleStore([c.dtype for c in empty], [c.shape[1:] for c in empty], self.seeds, loops)
        if self.kind == "PriorityQueue":
            return PriorityStore()
        return PaddingStore() if self.kind == "PaddingFIFOQueue" else FifoStore()


class Elements:
    """What a queue accepts, as blocks of rows, and what it gives for one row. queue: its name, for errors."""

    def __init__(self, queue: str, spec: QueueSpec, copies: bool):
        self._queue, self._types, self._shapes, self._copies = queue, spec.types, spec.shapes, copies
        self.none = spec.empty_block()
        wanted = zip(spec.types, spec.shapes or ())
        self._declared = [(t.np, shape) for t, shape in wanted]

    def one(self, components: Sequence[Any]) -> Block:
        """One element as a block of one row. Raises InvalidArgumentError where its dtypes or shapes are not the
        queue's."""
        return self._checked_shapes([array[None] for array in self._arrays(components)])

    def rows(self, components: Sequence[Any]) -> Block:
        """As `one`, of arrays of elements, which must have the same first size."""
        if self._as_declared(components):
            return [*components]
        arrays = self._arrays(components)
        for i, array in enumerate(arrays):
            if array.ndim == 0 or len(array) != len(arrays[0]):
                raise InvalidArgumentError(
                    f"{self._queue}: enqueue_many slices its components along their first size, which must be the "
                    f"same: component 0 has shape {arrays[0].shape}, component {i} has shape {array.shape}"
                )
        return self._checked_shapes(arrays)

    def _as_declared(self, components: Sequence[Any]) -> bool:
        """Whether all are arrays just as declared, which is looked at in a third of the time."""
        if not self._declared or len(components) != len(self._declared):
            return False
        rows: tuple[int, ...] = ()
        for component, (dtype, shape) in zip(components, self._declared):
            if type(component) is not np.ndarray or component.dtype != dtype:
                return False
            found = component.shape
            rows = rows or found[:1]
            if found[1:] != shape or found[:1] != rows:
                return False
        return rows != ()

    def kept(self, rows: Block) -> Block:
        """The rows as the store takes them. What it keeps is copied: the caller's memory may change, as it is a feed
        or a buffer of the network."""
        if self._shapes is None:
            return [_boxed(c) for c in rows]
        return [copied(c) for c in rows] if self._copies else rows

    def single(self, block: Block) -> list[Any]:
        """The components of a block of one row."""
        if self._shapes is None:
            return [np.asarray(c[0], t.np) for c, t in zip(block, self._types)]
        return [c[0, ...] for c in block]

    def _arrays(self, components: Sequence[Any]) -> Block:
        if len(components) != len(self._types):
            wanted = len(self._types)
            raise InvalidArgumentError(f"{self._queue} holds {wanted} components an element, got {len(components)}")
        return [self._checked(i, c) for i, c in enumerate(components)]

    def _checked(self, i: int, component: Any) -> np.ndarray:
        want = self._types[i]
        array = component
        if type(array) is not np.ndarray:
            array = np.asarray(component, want.np if want.np.kind == "O" else None)
        if array.dtype != want.np:
            got = f"{array.dtype} of shape {array.shape}"
            raise InvalidArgumentError(f"{self._queue}: component {i} must be {want.name}, got {got}")
        return array

    def _checked_shapes(self, rows: Block) -> Block:
        for i, (array, shape) in enumerate(zip(rows, self._shapes or ())):
            if array.shape[1:] != shape and not _fits(array.shape[1:], shape):
                raise InvalidArgumentError(
                    f"{self._queue}: component {i} of an element has shape {shape}, "
                    f"but the one to enqueue has shape {array.shape[1:]}"
                )
        return rows


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(want is None or size == want for size, want in zip(shape, wanted))


def _boxed(column: np.ndarray) -> np.ndarray:
    """Rows of any shape as one column of objects, each a copy."""
    out = np.empty(len(column), object)
    for i in range(len(column)):
        out[i] = column[i, ...].copy()
    return out
