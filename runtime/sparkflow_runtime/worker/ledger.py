"""What the tensors of a traced step hold: an entry when a kernel puts out memory of its own, one when that is freed.

Frees are seen as they happen, by weak references to the arrays, so what stands here is what the process did and not
what the plan meant to do. Memory that was there before the step (variables, feeds, constants) is known by being read
before any kernel has put it out, and is not counted. The host's memory and each GPU's are summed apart. While
`tracemalloc` is on, what a kernel holds only during its call is measured too.
"""

from __future__ import annotations

import tracemalloc
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.memories import gpu_of, memory_of


class Memory(NamedTuple):
    """Of one kernel call. new_bytes: of its outputs that are no memory of an input; scratch_bytes: at most held beside
    them during the call, 0 where that was not measured; in_use_bytes: what the step's tensors hold at its end of the
    memory where the node computes."""

    new_bytes: tuple[int, ...] = ()
    scratch_bytes: int = 0
    in_use_bytes: int = 0


def owner(array: Any) -> Any:
    """The array whose memory this one is a view of, or itself."""
    while type(array.base) is type(array):
        array = array.base
    return array


def is_array(value: Any) -> bool:
    """numpy's, or a GPU's."""
    return type(value) is np.ndarray or hasattr(value, "__cuda_array_interface__")


class Ledger:
    """Not for two steps at once. Entries are appended from any thread, in which an array may be freed."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # (place, bytes); list.append is atomic
        self._known: dict[int, weakref.ref[np.ndarray]] = {}
        self._summed, self._in_use = 0, Counter[int]()

    def before(self, inputs: Iterable[Any]) -> int:
        """Inputs that no kernel of the step has put out lie outside. Returns what `after` wants back."""
        for value in inputs:
            if is_array(value):
                self._keep(owner(value), 0)
        if not tracemalloc.is_tracing():
            return -1
        tracemalloc.reset_peak()
        return tracemalloc.get_traced_memory()[0]

    def after(self, outputs: Iterable[Any], traced_bytes: int, device: str = "") -> Memory:
        """The call there that began with `before` has put these out."""
        peak = tracemalloc.get_traced_memory()[1] - traced_bytes if traced_bytes >= 0 else 0
        new = []
        for value in outputs:
            held = owner(value) if is_array(value) else None
            new.append(self._keep(held, held.nbytes) if held is not None else 0)
        return Memory(tuple(new), max(0, peak - sum(new)), self._total(gpu_of(device)))

    def _keep(self, array: Any, num_bytes: int) -> int:
        """The bytes counted: none of an array that is known."""
        key, known, entries = id(array), self._known, self._entries
        if key in known:
            return 0
        place = memory_of(array)

        def freed(reference: weakref.ref[np.ndarray]) -> None:
            entries.append((place, -num_bytes))
            if known.get(key) is reference:
                del known[key]

        known[key] = weakref.ref(array, freed)
        entries.append((place, num_bytes))
        return num_bytes

    def _total(self, place: int) -> int:
        end = len(self._entries)
        for where, num_bytes in self._entries[self._summed : end]:
            self._in_use[where] += num_bytes
        self._summed = end
        return self._in_use[place]
