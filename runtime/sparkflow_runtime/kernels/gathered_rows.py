"""Sparse gradients of many tables on their way to all workers of a ring, and what came of all of them.

`_RowsToGather` lays ids and rows of all tables in one array each, with `distinct` after adding up the rows of one id.
A CollectiveGather takes either to everybody, and `_GatheredRows` tells the workers' parts apart: with `distinct` it
adds up what they give of one row, in the workers' order, so that all have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.distinct_loops import merge_rows, number_ids, sum_to_distinct
from sparkflow_runtime.kernels.memory import memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.merging import Givers, merged
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.updates import flat_ids
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_CPU = ("CPU",)


def _widths(node: Node) -> Array:
    return np.array([math.prod(shape.dims) for shape in node.attrs["row_shapes"]], np.int64)


@bound("_RowsToGather", multi=True, stateful=False, devices=_CPU)
def _rows_to_gather(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: ids of N tables and as many rows, float32 or float64. Outputs: how many ids each table has and those ids,
    table by table, as one vector; the rows, a vector. distinct: ids in the order in which they first appear, and sums
    of their rows."""
    n, distinct, widths = node.attrs["N"], node.attrs["distinct"], _widths(node)
    number_ids.prepare()
    sum_to_distinct.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        ids, rows = inputs[:n], inputs[n:]
        _check(node, ids, rows)
        return _summed(ids, rows, widths) if distinct else _laid_out(ids, rows)

    return run


def _check(node: Node, ids: Sequence[Array], rows: Sequence[Array]) -> None:
    for i, (mine, given, shape) in enumerate(zip(ids, rows, node.attrs["row_shapes"])):
        if mine.ndim != 1 or given.shape != (mine.size, *shape.dims):
            raise InvalidArgumentError(
                f"{node.op} {node.name!r}: gradient {i} has indices of shape {mine.shape} and values of shape "
                f"{given.shape}, expected [n] and [n, {', '.join(map(str, shape.dims))}]"
            )


def _laid_out(ids: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
    head = np.concatenate([np.array([i.size for i in ids]), *ids], dtype=np.int64, casting="same_kind")
    return [head, np.concatenate([r.reshape(-1) for r in rows])]


def _summed(ids: Sequence[Array], rows: Sequence[Array], widths: Array) -> list[Array]:
    flat, starts = flat_ids(ids)
    n, most = len(ids), int((starts[1:] - starts[:-1]).max())
    places, head = np.empty(flat.size, np.uint64), np.empty(n + flat.size, np.int64)
    counts, distinct = head[:n], head[n:]
    heads = np.empty(max(16, 4 * most), np.uint64)
    number_ids(flat, starts[:-1], starts[1:], distinct.view(np.uint64), counts.view(np.uint64), places, heads)
    rows = [r if rows_ready(r) else np.ascontiguousarray(r) for r in rows]
    items = counts * widths
    to = items.cumsum()
    sums = np.empty(int(to[-1]), rows[0].dtype)
    to += position(sums) - items
    steps = unsigned([stride(r) for r in rows])
    given = unsigned(widths), places, starts[:-1], starts[1:], positions(rows), steps
    sum_to_distinct(memory(sums.dtype), *given, to.view(np.uint64))
    return [head[: n + int(counts.sum())], sums]


@bound("_HeadOfRows", stateful=False, devices=_CPU)
def _head_of_rows(node: Node) -> Callable[..., Array]:
    """The first output of `_RowsToGather`, of distinct ids and counts as `_DistinctIds` (distinct_rows.py) gives them;
    of: which of the counts each table's is."""
    of = node.attrs["of"]

    def run(distinct: Array, counts: Array) -> Array:
        mine = counts[of]
        if len(mine) == len(counts) and of == [*range(len(of))]:
            return np.concatenate([mine, distinct], dtype=np.int64)
        ends = counts.cumsum()
        spans = zip((ends - counts)[of].tolist(), ends[of].tolist())
        return np.concatenate([mine, *(distinct[a:b] for a, b in spans)], dtype=np.int64)

    return run


@bound("_GatheredRows", multi=True, stateful=False, devices=_CPU)
def _gathered_rows(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: what `_RowsToGather` gave on all workers, one's after the other's; a worker may have given nothing.
    Outputs: the rows of the first table, then those of the next, as one vector, times `share`; their ids; how many each
    table has. distinct: each id once, its row the sum of what the workers gave; else the workers' in their order."""
    n, distinct, share, widths = node.attrs["N"], node.attrs["distinct"], node.attrs["share"], _widths(node)
    merge_rows.prepare()

    def run(head: Array, flat: Array) -> Sequence[Array]:
        head, flat = np.ascontiguousarray(head), np.ascontiguousarray(flat)
        counts = _counts(node, head, flat, n, widths)
        if not len(counts):
            return [flat, head, np.zeros(n, np.int64)]
        taken = np.cumsum(counts.reshape(-1)).reshape(counts.shape)
        ends = taken + n * np.arange(1, len(counts) + 1)[:, None]  # in head, after the counts of each worker
        starts, items = ends - counts, counts * widths
        row_ends = np.cumsum(items.reshape(-1)).reshape(items.shape)
        begins = row_ends - items
        if distinct:
            first, last = _by_table(starts + position(head)), _by_table(ends + position(head))
            givers = Givers(unsigned(widths), first, last, _by_table(begins + position(flat)), [head, flat])
            rows, ids, of_each = merged(givers, flat.dtype, mean=False)
        else:
            spans = list(zip(_flat(starts), _flat(ends), _flat(begins), _flat(row_ends)))
            rows = np.concatenate([flat[a:b] for _, _, a, b in spans])
            ids, of_each = np.concatenate([head[a:b] for a, b, _, _ in spans]), counts.sum(0)
        rows *= rows.dtype.type(share)
        return [rows, ids, of_each]

    return run


def _counts(node: Node, head: Array, flat: Array, n: int, widths: Array) -> Array:
    """[workers, N]. Raises InvalidArgumentError where head and rows are not of each other."""
    found, at = [], 0
    while at + n <= head.size:
        counts = head[at : at + n]
        found.append(counts)
        if counts.min() < 0:
            break
        at += n + int(counts.sum())
    counts = np.array(found, np.int64).reshape(-1, n)
    if at != head.size or (counts * widths).sum() != flat.size or counts.min(initial=0) < 0:
        raise InvalidArgumentError(
            f"{node.op} {node.name!r}: the workers' {head.size} counts and ids and {flat.size} items are not rows of "
            f"{n} tables: {counts.tolist()[:4]}"
        )
    return counts


def _by_table(values: Array) -> Array:
    return np.ascontiguousarray(values.T).reshape(-1).view(np.uint64)


def _flat(values: Array) -> list[int]:
    found: list[int] = values.T.reshape(-1).tolist()
    return found
