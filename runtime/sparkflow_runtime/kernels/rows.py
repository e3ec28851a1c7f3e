"""Rows of a variable picked by indices: what scatter and sparse training kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.sorting import grouped


def has_repeats(xp: Any, indices: Any) -> bool:
    ordered = xp.sort(indices, axis=None)
    return bool((ordered[1:] == ordered[:-1]).any())


def rounds(xp: Any, indices: Any) -> Iterator[Any]:
    """Parts of `indices` (1-D) in none of which one repeats, and each index meets its repeats in order: arrays of
    positions, or one None, for all of it, where no index repeats.

    Rows do not depend on each other: a kernel that takes part after part computes what one row after the other does.
    """
    if not has_repeats(xp, indices):
        yield None
    else:
        yield from map(xp.asarray, _rounds(host(indices)))


def _rounds(indices: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(is_first)
    nth = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    by_round = np.argsort(nth, kind="stable")
    return np.split(order[by_round], np.cumsum(np.bincount(nth))[:-1])


def put_rows(xp: Any, held: Any, ids: Any, rows: Any) -> None:
    """held[ids] = rows, in place, of a repeated number the last one: a GPU writes in any order."""
    if xp is not np and has_repeats(xp, ids):
        _, order, starts = grouped(xp, ids)
        last = order[xp.append(starts[1:], ids.size) - 1]
        ids, rows = ids[last], rows[last]
    held[ids] = rows


def combine_in_rounds(xp: Any, combine: Any, held: Any, ids: Any, rows: Any) -> None:
    """held[ids[i]] = combine(held[ids[i]], rows[i]), in place and one after the other: numpy's `at`, which cupy has for
    few functions and types, and with float64 rounded to float32 by `maximum` and `minimum`."""
    for part in rounds(xp, ids):
        held[ids[part]] = combine(held[ids[part]], rows[part])
