"""Bags of rows as look-ups of one row each (master/passes/bag_rows.py): what feature columns sum, without the sums.

Most columns have one value an example: what their bags sum is one of the rows that came. Where a bag has none, that is
a row of zeros beside them; where it has several, each sum is a row of its own. So what takes a column's sums can take
rows by places instead, which spread_products.py multiplies once each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.distinct_loops import number_ids
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.segments import gradients_of_picked, sums_of_picked
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_CPU = ("CPU",)
_CAME, _ZEROS, _SUMS = range(3)  # what the rows of a column are: those that came, with one of zeros, its bags' sums
_NONE = np.empty(0, np.int64)


@bound("_BagRows", multi=True, aliases=True, stateful=False, devices=_CPU)
def _bag_rows(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs, each for N columns: the rows of the distinct ids, and places, rows and which are empty as _BagIds gives
    them. Outputs: all columns' rows, a vector, in the order in which their bags name them; how many each has; for all
    bags of all columns which row is its sum; how many bags each column has; the same places column by column; and for
    `_BagsBack` what the rows of each column are, and, where they are not as they came, which row that is."""
    n, kind = node.attrs["N"], node.attrs["kind"]
    number_ids.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        rows, places, ids, empty = (inputs[i : i + n] for i in range(0, 4 * n, n))
        tall, forms = [len(e) for e in empty], np.zeros(n, np.int64)
        if all(len(p) == h for p, h in zip(places, tall)) and not np.concatenate(empty).any():
            counts, at, which = np.array([len(r) for r in rows], np.int64), np.concatenate(places), _NONE
            named: Sequence[Array] = rows
        else:
            told, given = _told_apart(rows, places, ids, empty, kind, forms)
            counts, at, which = _numbered(given, tall)
            named = _chosen(told, forms, counts, which)
        at, ends = at.astype(np.int64, copy=False), [*accumulate(tall, initial=0)]
        own = [at[a:b] for a, b in pairwise(ends)]
        return [_vector(named), counts, at, np.array(tall, np.int64), *own, forms, which]

    return run


def _told_apart(
    rows: Sequence[Array],
    places: Sequence[Array],
    ids: Sequence[Array],
    empty: Sequence[Array],
    kind: str,
    forms: Array,
) -> tuple[list[Array], Array]:
    """The rows of each column, and for all bags which of these is its sum, -1 for zeros. forms: told what they are."""
    found, at = list[Array](), list[Array]()
    for k, (own, where, of, none) in enumerate(zip(rows, places, ids, empty)):
        if len(where) != len(none):
            forms[k], sums = _SUMS, sums_of_picked(np, kind, own, where, of, hidden=none)
            if len(sums) != len(none):
                text = f"Select: {len(none)} rows that may be empty do not fit {len(sums)} segments"
                raise InvalidArgumentError(text)
            own, where = sums, np.arange(len(none))
        elif none.any():
            forms[k], where = _ZEROS, np.where(none, -1, where)
        found.append(own)
        at.append(where)
    return found, np.concatenate(at).astype(np.int64, copy=False)


def _numbered(given: Array, tall: Sequence[int]) -> tuple[Array, Array, Array]:
    """Of each column's numbers: how many different ones there are, which of them each is, and these."""
    ends = np.array([*accumulate(tall, initial=0)], np.uint64)
    distinct, counts, at = (
        np.empty(given.size, np.uint64),
        np.empty(len(tall), np.int64),
        np.empty(given.size, np.int64),
    )
    heads = np.empty(max(16, 4 * max(tall)), np.uint64)
    told = given.view(np.uint64), ends[:-1], ends[1:], distinct, counts.view(np.uint64), at.view(np.uint64), heads
    number_ids(*told)
    return counts, at, distinct[: int(counts.sum())].view(np.int64)


def _chosen(rows: Sequence[Array], forms: Array, counts: Array, which: Array) -> list[Array]:
    """Of each column the rows that its bags name; those of one that are as they came, or its sums, are all of them."""
    found = list(rows)
    ends = [*accumulate(counts.tolist(), initial=0)]
    for k in np.flatnonzero(forms == _ZEROS).tolist():
        mine = which[ends[k] : ends[k + 1]]
        found[k] = (
            rows[k][np.maximum(mine, 0)] if len(rows[k]) else np.zeros((len(mine), *rows[k].shape[1:]), np.float32)
        )
        found[k][mine < 0] = 0
    return found


def _vector(rows: Sequence[Array]) -> Array:
    """All of them one after the other: as they are, where they lie so."""
    first, size = rows[0], rows[0].itemsize
    whole = first.base if isinstance(first.base, np.ndarray) else None
    if whole is None or whole.ndim != 1 or whole.dtype != first.dtype or not whole.flags.c_contiguous:
        return np.concatenate([r.reshape(-1) for r in rows])
    begin = address(whole)
    start = end = (address(first) - begin) // size
    for one in rows:
        if one.base is not whole or not one.flags.c_contiguous or address(one) != begin + end * size:
            return np.concatenate([r.reshape(-1) for r in rows])
        end += one.size
    return whole[start:end]


@bound("_BagsBack", aliases=True, stateful=False, devices=_CPU)
def _bags_back(node: Node) -> Callable[..., Array]:
    """Inputs: the sums of the gradients of the rows that `_BagRows` gave, a vector; how many rows there were of each
    column, what they are, and which; then what that was given. The sums of each distinct id's: a vector."""
    n, kind, widths = node.attrs["N"], node.attrs["kind"], node.attrs["widths"]

    def run(sums: Array, counts: Array, forms: Array, which: Array, *inputs: Array) -> Array:
        if not forms.any():
            return sums
        rows, places, ids, empty = (inputs[i : i + n] for i in range(0, 4 * n, n))
        parts, begin, first = [], 0, 0
        for k, (form, count) in enumerate(zip(forms.tolist(), counts.tolist())):
            part = sums[begin : begin + count * widths[k]].reshape(count, widths[k])
            if form == _ZEROS:
                mine, told = which[first : first + count], part
                part = np.zeros((len(rows[k]), widths[k]), sums.dtype)
                part[mine[mine >= 0]] = told[mine >= 0]
            elif form == _SUMS:
                part = gradients_of_picked(np, kind, part, places[k], ids[k], len(rows[k]), empty[k])
            begin, first = begin + count * widths[k], first + count
            parts.append(part.reshape(-1))
        return np.concatenate(parts)

    return run
