"""Bags of many columns in one node each (master/passes/joint_bags.py makes them): kernels/bags.py, and SparseSegment*,
of N at once. Where the loops do not take what came, each column goes its own way, which also says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.bags import bag_ids, entries
from sparkflow_runtime.kernels.host import one_int
from sparkflow_runtime.kernels.joint_bag_loops import entries_each, number_each, spread_each, sum_each
from sparkflow_runtime.kernels.memory import memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.segments import DIVIDED, gradients_of_picked, sums_of_picked
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES
from sparkflow_runtime.wire.errors import OpError

Array = Any
_CPU = ("CPU",)
_LONG, _TRUE = np.dtype(np.int64), np.dtype(np.bool_)
_NUMBERS = (_LONG, np.dtype(np.int32))
_SHARED, _PARTS = 1 << 19, 8  # items that several threads add up; runs of columns that they take in turn


@bound("_JointEntries", multi=True, stateful=False, devices=_CPU)
def _joint_entries(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N matrices, N things to ignore. Outputs 2k and 2k + 1: what _Entries gives of matrix k."""
    n = node.attrs["N"]
    entries_each.prepare()

    def run(*inputs: Array) -> Sequence[Array]:
        matrices, ignored = inputs[:n], inputs[n:]
        if any(m.dtype != _LONG or m.ndim != 2 for m in matrices):
            return list(chain.from_iterable(_one_by_one(node, "Where", partial(entries, node.xp), matrices, ignored)))
        pieces, total = _pieces(matrices), sum(m.size for m in matrices) + 1
        given = np.array([[0] * n, *zip(*(m.shape for m in matrices))], np.uint64)
        given[0] = positions(pieces)
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
        if kind == rows and kind.np in _NUMBERS and all(map(_is_matrix, indices, ids, shapes)):
            found = _numbered(indices, ids, shapes, defaults, known, kind.np)
            if found is not None:
                return found
        attrs = {"only_known": known, "out_idx": kind, "row_type": rows}
        one = lambda *mine: bag_ids(node.xp, *mine, **attrs)  # noqa: E731
        return list(chain.from_iterable(_one_by_one(node, "SparseFillEmptyRows", one, indices, ids, shapes, defaults)))

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
    indices, ids = _pieces(indices), _pieces(ids)
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
        found = (
            _sums(data, places, ids, hidden, DIVIDED[name]) if _handles(node.xp, data, places, ids, hidden) else None
        )
        if found is not None:
            return found
        one = lambda rows, at, of, none: sums_of_picked(node.xp, name, rows, at, of, hidden=none)  # noqa: E731
        return _one_by_one(node, f"SparseSegment{name}", one, data, places, ids, hidden)

    return run


def _sums(
    data: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], hidden: Sequence[Array | None], kind: int
) -> list[Array] | None:
    """None where anything is out of order."""
    data, places, ids = _pieces(data), _pieces(places), _pieces(ids)
    counts = [(int(i[-1]) + 1 if len(i) else 0) if h is None else len(h) for i, h in zip(ids, hidden)]
    if min(counts) < 0:
        return None
    truths, widths = _truths(hidden, counts), [math.prod(d.shape[1:]) for d in data]
    ends = [*accumulate((c * w for c, w in zip(counts, widths)), initial=0)]
    out = np.zeros(ends[-1], data[0].dtype)
    given = np.array([counts] * 4 + [[len(d) for d in data], widths, [len(i) for i in ids], counts], np.uint64)
    given[0], given[1], given[2], given[3] = positions(data), positions(places), positions(ids), positions(truths)
    at = unsigned(ends[:-1]) + np.uint64(position(out))
    loop = partial(sum_each, memory(out.dtype), memory(ids[0].dtype), _BYTES)
    if not _each(lambda mine, to: loop(mine, kind, to), given, at, sum(len(i) * w for i, w in zip(ids, widths))):
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
        fits = _handles(node.xp, grads, places, ids, hidden) and all(
            h is None or len(h) == len(g) for g, h in zip(grads, hidden)
        )
        found = _gradients(grads, places, ids, tall, hidden, DIVIDED[name]) if fits else None
        if found is not None:
            return found
        one = lambda *mine: gradients_of_picked(node.xp, name, *mine)  # noqa: E731
        return _one_by_one(node, f"SparseSegment{name}Grad", one, grads, places, ids, tall, hidden)

    return run


def _gradients(
    grads: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], rows: Sequence[int],
    hidden: Sequence[Array | None], kind: int,
) -> list[Array] | None:  # fmt: skip
    """None where a number is out of range."""
    grads = [g if rows_ready(g) else np.ascontiguousarray(g) for g in grads]
    places, ids, counts = _pieces(places), _pieces(ids), [len(g) for g in grads]
    if min(rows) < 0:
        return None
    truths, widths = _truths(hidden, counts), [math.prod(g.shape[1:]) for g in grads]
    ends = [*accumulate((r * w for r, w in zip(rows, widths)), initial=0)]
    out = np.zeros(ends[-1], grads[0].dtype)
    given = np.array([counts] * 5 + [widths, [len(i) for i in ids], counts, rows], np.uint64)
    given[0], given[1], given[2], given[3] = positions(grads), positions(places), positions(ids), positions(truths)
    given[4] = unsigned([stride(g) for g in grads])
    at, most = unsigned(ends[:-1]) + np.uint64(position(out)), max(counts)

    def loop(mine: Array, to: Array) -> int:
        times = scratch("bag times", (most,), np.int64)  # each thread's own
        return int(spread_each(memory(out.dtype), memory(ids[0].dtype), _BYTES, mine, kind, times, to))

    if not _each(loop, given, at, sum(len(i) * w for i, w in zip(ids, widths))):
        return None
    return [out[a:b].reshape(r, *g.shape[1:]) for (a, b), r, g in zip(pairwise(ends), rows, grads)]


# ---------------------------------------------------------------------- what all have in common

_BYTES = memory(np.dtype(np.uint8))


def _each(loop: Callable[[Array, Array], int], given: Array, at: Array, items: int) -> bool:
    """loop(columns, where theirs go) for all columns, in several threads where they are large. Whether none failed."""
    failed: list[int] = []

    def work(mine: Sequence[tuple[int, int]]) -> None:
        for a, count in mine:
            if loop(np.ascontiguousarray(given[:, a : a + count]), at[a : a + count]) >= 0:
                failed.append(a)

    n = len(at)
    share(work, runs(n, -(-n // _PARTS))) if items >= _SHARED else work([(0, n)])
    return not failed


def _handles(
    xp: Any, rows: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], hidden: Sequence[Array | None]
) -> bool:
    """Whether the loops take these: rows of one type, numbers of one type."""
    real, kind = rows[0].dtype, ids[0].dtype
    return (
        xp is np
        and real in FLOAT_TYPES
        and kind in _NUMBERS
        and all(r.dtype == real and r.ndim for r in rows)
        and all(p.dtype == i.dtype == kind and p.ndim == 1 and p.shape == i.shape for p, i in zip(places, ids))
        and all(h is None or (h.dtype == _TRUE and h.ndim == 1) for h in hidden)
    )


def _pieces(arrays: Sequence[Array]) -> list[Array]:
    """Each in one aligned piece of memory."""
    return [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in arrays]


def _truths(hidden: Sequence[Array | None], counts: Sequence[int]) -> list[Array]:
    none = np.zeros(max(counts), bool) if any(h is None for h in hidden) else None
    return [none if h is None else np.ascontiguousarray(h) for h in hidden]


def _one_by_one(node: Node, op: str, one: Callable[..., Any], *inputs: Iterable[Any]) -> list[Any]:
    """What each column's own inputs give. An error names its node."""
    found = []
    for k, mine in enumerate(zip(*inputs)):
        try:
            found.append(one(*mine))
        except OpError as error:
            error.node_def = node.member(k, op)
            raise
    return found
