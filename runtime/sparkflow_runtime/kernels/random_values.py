"""Numbers that are drawn again until they are accepted, each from a stream of its own."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.kernels.philox_loops import turned
from sparkflow_runtime.kernels.wide_numbers import even_of, radius_squared, turn

_NEXT = np.uint64(1)


class Values:
    """float64 that so many values draw, each by itself: a block of words makes two, the second of which goes first."""

    def __init__(self, stream: np.ndarray, first: np.ndarray):
        """stream: as Stream.parts has it. first: the counter at which each value begins, its lower half."""
        self._stream, self._next = stream, first.copy()
        self._kept = {kind: (np.zeros(len(first), np.int8), np.empty((len(first), 2))) for kind in ("even", "normal")}

    def even(self, which: np.ndarray) -> np.ndarray:
        """In [0, 1), of the values with these numbers."""
        return self._taken("even", which)

    def normal(self, which: np.ndarray) -> np.ndarray:
        return self._taken("normal", which)

    def _taken(self, kind: str, which: np.ndarray) -> np.ndarray:
        left, pairs = self._kept[kind]
        empty = which[left[which] == 0]
        if len(empty):
            w = [x.astype(np.uint32).view(np.int32) for x in turned(self._next[empty], *self._stream[[1, 2, 0]])]
            first, second = even_of(w[0], w[1]), even_of(w[2], w[3])
            if kind == "normal":
                radius, (sine, cosine) = np.sqrt(radius_squared(first)), turn(second)
                first, second = sine * radius, cosine * radius
            pairs[empty, 0], pairs[empty, 1] = first, second
            left[empty] = 2
            self._next[empty] += _NEXT
        left[which] -= 1
        return np.asarray(pairs[which, left[which]])
