"""Equal numbers brought together: what sums by segment and `Unique` begin with."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.text_distinct import distinct_texts

_HALF = 31  # both a number and its position take this many bits of one word


def grouped(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """(sorted, order, starts) of a vector: sorted is x[order], equal numbers in their order, and runs begin at starts.

    Small integers are sorted together with their positions as one word: numpy sorts words with vector instructions,
    which it does not when it has to carry positions along. That is several times faster.
    """
    if x.dtype.kind in "iu" and x.size and x.size < 1 << _HALF and x.min() >= 0 and x.max() < 1 << _HALF:
        words = xp.sort((x.astype(xp.int64) << _HALF) | xp.arange(x.size, dtype=xp.int64))
        ordered, order = (words >> _HALF).astype(x.dtype), words & ((1 << _HALF) - 1)
    else:
        order = xp.argsort(x, kind="stable")
        ordered = x[order]
    is_first = xp.ones(x.size, bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered, order, xp.flatnonzero(is_first)


def reduced_runs(xp: Any, name: str, rows: Any, ordered: Any, starts: Any) -> Any:
    """Rows, in the order of their numbers, reduced by a function of two: those of equal numbers are one.

    numpy goes through run after run. cupy has no `reduceat`: each row takes in the one before it, then that two rows
    before, then four, so that the last of each run has them all.
    """
    combine = getattr(xp, name)
    if xp is np:
        return combine.reduceat(rows, starts, axis=0)
    lengths, step = xp.diff(starts, append=ordered.size), 1
    while step < int(lengths.max()):
        same = (ordered[step:] == ordered[:-step]).reshape(-1, *[1] * (rows.ndim - 1))
        more = xp.where(same, combine(rows[:-step], rows[step:]), rows[step:])
        rows, step = xp.concatenate([rows[:step], more]), 2 * step
    return rows[starts + lengths - 1]


def unique_parts(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """(values, positions, counts) in order of first appearance: the first of each run of equals is its first in x."""
    if x.dtype == object and x.ndim == 1:  # strings, which a dictionary tells apart faster than sorting does
        quick = distinct_texts(x)
        if quick is not None:
            return *quick, np.bincount(quick[1], minlength=len(quick[0]))
        numbers: dict[Any, int] = {}
        which = np.fromiter((numbers.setdefault(text, len(numbers)) for text in x.tolist()), np.int64, x.size)
        return np.fromiter(numbers, object, len(numbers)), which, np.bincount(which, minlength=len(numbers))
    _, order, starts = grouped(xp, x)
    first = order[starts]
    appears = xp.zeros(x.size, bool)
    appears[first] = True
    rank = (xp.cumsum(appears) - 1)[first]  # of each run's value among the values
    lengths = xp.diff(starts, append=x.size)
    positions, counts = xp.empty(x.size, xp.int64), xp.empty(starts.size, xp.int64)
    positions[order] = xp.repeat(rank, lengths)
    counts[rank] = lengths
    return x[appears], positions, counts
