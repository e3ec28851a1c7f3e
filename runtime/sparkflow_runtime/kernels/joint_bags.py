"""Bags of many columns in one node each (master/passes/joint_bags.py makes them): kernels/bags.py, and SparseSegment*,
of N at once. Where the loops do not take what came, each column goes its own way, which also says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.bag_columns import BYTES, NUMBERS, each_column, handles, one_by_one, pieces, truths_of
from sparkflow_runtime.kernels.bags import bag_ids, entries
from sparkflow_runtime.kernels.host import one_int
from sparkflow_runtime.kernels.joint_bag_loops import entries_each, number_each, spread_each, sum_each
from sparkflow_runtime.kernels.memory import memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.parallel import scratch
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.segments import DIVIDED, gradients_of_picked, sums_of_picked

Array = Any
_CPU = ("CPU",)
_LONG = np.dtype(np.int64)


@bound("_JointEntries", multi=True, stateful=False, devices=_CPU)
def _joint_entries(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N matrices, N things to ignore. Outputs 2k and 2k + 1: what _Entries gives of matrix k."""
    n = node.attrs["N"]
    entries_each.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        matrices, ignored = inputs[:n], inputs[n:]
        if any(m.dtype != _LONG or m.ndim != 2 for m in matrices):
            return list(chain.from_iterable(one_by_one(node, "Where", partial(entries, node.xp), matrices, ignored)))
        whole, total = pieces(matrices), sum(m.size for m in matrices) + 1
        given = np.array([[0] * n, *zip(*(m.shape for m in matrices))], np.uint64)
        given[0] = positions(whole)
        where, what, found = np.empty((total, 2), np.int64), np.empty(total, np.int64), np.empty(n, np.int64)
        entries_each(memory(_LONG), given, np.array([int(i) for i in ignored], np.int64), where, what, found)
        ends = [*accumulate(found.tolist(), initial=0)]
        return [one[a:b] for a, b in pairwise(ends) for one in (where, what)]

    return run


@bound("_JointBagIds", multi=True, stateful=False, devices=_CPU)
def _joint_bag_ids(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: the indices of N sparse matrices, their ids, shapes and defaults. Outputs 4k to 4k + 3: what _BagIds
    gives of matrix k."""
    n, known, kind, rows = node.attrs["N"], node.attrs["only_known"], node.attrs["out_idx"], node.attrs["row_type"]
    number_each.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        indices, ids, shapes, defaults = (inputs[i : i + n] for i in range(0, 4 * n, n))
        if kind == rows and kind.np in NUMBERS and all(map(_is_matrix, indices, ids, shapes)):
            found = _numbered(indices, ids, shapes, defaults, known, kind.np)
            if found is not None:
                return found
        attrs = {"only_known": known, "out_idx": kind, "row_type": rows}
        one = lambda *mine: bag_ids(node.xp, *mine, **attrs)  # noqa: E731
        return list(chain.from_iterable(one_by_one(node, "SparseFillEmptyRows", one, indices, ids, shapes, defaults)))

    return run


def _is_matrix(indices: Array, ids: Array, shape: Array) -> bool:
    entries = indices.shape
    return (
        indices.dtype == ids.dtype == _LONG
        and len(entries) == 2
        and ids.shape == entries[:1]
        and shape.shape == entries[1:]
        and entries[1] > 0
    )


def _numbered(
    indices: Sequence[Array], ids: Sequence[Array], shapes: Sequence[Array], defaults: Sequence[Any], known: bool,
    kind: Any,
) -> list[Array] | None:  # fmt: skip
    """None where a row is not within its shape."""
    indices, ids = pieces(indices), pieces(ids)
    entries, rows = [len(i) for i in ids], [int(s[0]) for s in shapes]
    if min(rows) < 0:
        return None
    sizes, room = [a + b for a, b in zip(entries, rows)], max(rows) + 1
    given = np.array([entries, [i.shape[1] for i in indices], entries, entries, rows], np.uint64)
    given[0], given[1] = positions(indices), positions(ids)
    given[2], most = [i.shape[1] for i in indices], max(sizes)
    total = sum(sizes)
    row_of, where, distinct = np.empty(total, kind), np.empty(total, kind), np.empty(total, np.int64)
    empty, found = np.empty(sum(rows), bool), np.empty((2, len(ids)), np.int64)
    hashed = scratch("bags", (room + most + max(16, 4 * most),), np.uint64)
    own = np.array([int(d) for d in defaults], np.int64)
    truths = empty.view(np.uint8)
    if number_each(memory(_LONG), given, own, int(known), row_of, where, truths, distinct, hashed, found) >= 0:
        return None
    out, b = list[Array](), 0
    for a, count, names, more in zip(accumulate(sizes, initial=0), *found.tolist(), rows):
        end = a + count
        out += distinct[a : a + names], where[a:end], empty[b : b + more], row_of[a:end]
        b += more
    return out


# ---------------------------------------------------------------------- sums and gradients


@bound("_JointBagSums", multi=True, stateful=False, devices=_CPU)
def _joint_bag_sums(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: the rows of N tables, places, each entry's row and, where `hides`, which rows are zeros. Outputs: what
    _BagSums, or SparseSegment*, gives of each, in memory that all share."""
    n, name, hides = node.attrs["N"], node.attrs["kind"], node.attrs["hides"]
    sum_each.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        data, places, ids = (inputs[i : i + n] for i in range(0, 3 * n, n))
        hidden = inputs[3 * n :] if hides else (None,) * n
        found = _sums(data, places, ids, hidden, DIVIDED[name]) if handles(node.xp, data, places, ids, hidden) else None
        if found is not None:
            return found
        one = lambda rows, at, of, none: sums_of_picked(node.xp, name, rows, at, of, hidden=none)  # noqa: E731
        return one_by_one(node, f"SparseSegment{name}", one, data, places, ids, hidden)

    return run


def _sums(
    data: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], hidden: Sequence[Array | None], kind: int
) -> list[Array] | None:
    """None where anything is out of order."""
    data, places, ids = pieces(data), pieces(places), pieces(ids)
    counts = [(int(i[-1]) + 1 if len(i) else 0) if h is None else len(h) for i, h in zip(ids, hidden)]
    if min(counts) < 0:
        return None
    truths, widths = truths_of(hidden, counts), [math.prod(d.shape[1:]) for d in data]
    ends = [*accumulate((c * w for c, w in zip(counts, widths)), initial=0)]
    out = np.zeros(ends[-1], data[0].dtype)
    given = np.array([counts] * 4 + [[len(d) for d in data], widths, [len(i) for i in ids], counts], np.uint64)
    given[0], given[1], given[2], given[3] = positions(data), positions(places), positions(ids), positions(truths)
    at = unsigned(ends[:-1]) + np.uint64(position(out))
    loop = partial(sum_each, memory(out.dtype), memory(ids[0].dtype), BYTES)
    if not each_column(lambda mine, to: loop(mine, kind, to), given, at, sum(len(i) * w for i, w in zip(ids, widths))):
        return None
    return [out[a:b].reshape(c, *d.shape[1:]) for (a, b), c, d in zip(pairwise(ends), counts, data)]


@bound("_JointBagGradients", multi=True, stateful=False, devices=_CPU)
def _joint_bag_gradients(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N gradients, places, each entry's row, how many rows there are and, where `hides`, which rows give
    nothing. counted: instead of how many, arrays of as many. Outputs: what _BagGradients, or SparseSegment*Grad, gives
    of each, in memory that all share."""
    n, name, hides, counted = node.attrs["N"], node.attrs["kind"], node.attrs["hides"], node.attrs["counted"]
    spread_each.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        grads, places, ids, sizes = (inputs[i : i + n] for i in range(0, 4 * n, n))
        hidden = inputs[4 * n :] if hides else (None,) * n
        tall = list(map(len if counted else one_int, sizes))
        fits = handles(node.xp, grads, places, ids, hidden) and all(
            h is None or len(h) == len(g) for g, h in zip(grads, hidden)
        )
        found = _gradients(grads, places, ids, tall, hidden, DIVIDED[name]) if fits else None
        if found is not None:
            return found
        one = lambda *mine: gradients_of_picked(node.xp, name, *mine)  # noqa: E731
        return one_by_one(node, f"SparseSegment{name}Grad", one, grads, places, ids, tall, hidden)

    return run


def _gradients(
    grads: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], rows: Sequence[int],
    hidden: Sequence[Array | None], kind: int,
) -> list[Array] | None:  # fmt: skip
    """None where a number is out of range."""
    grads = [g if rows_ready(g) else np.ascontiguousarray(g) for g in grads]
    places, ids, counts = pieces(places), pieces(ids), [len(g) for g in grads]
    if min(rows) < 0:
        return None
    truths, widths = truths_of(hidden, counts), [math.prod(g.shape[1:]) for g in grads]
    ends = [*accumulate((r * w for r, w in zip(rows, widths)), initial=0)]
    out = np.zeros(ends[-1], grads[0].dtype)
    given = np.array([counts] * 5 + [widths, [len(i) for i in ids], counts, rows], np.uint64)
    given[0], given[1], given[2], given[3] = positions(grads), positions(places), positions(ids), positions(truths)
    given[4] = unsigned([stride(g) for g in grads])
    at, most = unsigned(ends[:-1]) + np.uint64(position(out)), max(counts)

    def loop(mine: Array, to: Array) -> int:
        times = scratch("bag times", (most,), np.int64)  # each thread's own
        return int(spread_each(memory(out.dtype), memory(ids[0].dtype), BYTES, mine, kind, times, to))

    if not each_column(loop, given, at, sum(len(i) * w for i, w in zip(ids, widths))):
        return None
    return [out[a:b].reshape(r, *g.shape[1:]) for (a, b), r, g in zip(pairwise(ends), rows, grads)]
