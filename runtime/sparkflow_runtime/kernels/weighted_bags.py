"""Bags whose ids have weights, in the nodes that master/passes/weighted_bags.py makes of their graphs; of one column,
or of N at once (master/passes/joint_bags.py). Where the loops do not take what came, each column goes the way of the
nodes that these stand for, which also says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.bag_columns import BYTES, each_column, handles, one_by_one, pieces, truths_of
from sparkflow_runtime.kernels.host import check_indices, one_int
from sparkflow_runtime.kernels.math_reduce import segment_sum, unsorted_segment_sum
from sparkflow_runtime.kernels.memory import memory, position, positions, rows_ready, stride
from sparkflow_runtime.kernels.parallel import scratch
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.segments import DIVIDED
from sparkflow_runtime.kernels.weighted_loops import spread_weighted, sum_weighted
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any
_CPU = ("CPU",)


def _weighted_sums(node: Node) -> Callable[..., Any]:
    """Inputs: the rows of N tables, places, each entry's row, its weight and, where `hides`, which rows are zeros.
    Outputs: of each, the weighted rows' sums, divided as `kind` says by the sums of weights, or by the root of those of
    their squares; zeros where that is 0."""
    n, name, hides, joint = *_counts(node), node.op.startswith("_Joint")
    sum_weighted.prepare()

    def run(*inputs: Array) -> Any:
        data, places, ids, weights = (inputs[i : i + n] for i in range(0, 4 * n, n))
        hidden = inputs[4 * n :] if hides else (None,) * n
        fits = _fits(node.xp, data, places, ids, weights, hidden)
        found = _sums(data, places, ids, weights, hidden, DIVIDED[name]) if fits else None
        if found is None:
            one = partial(_composed_sums, node.xp, name)
            found = one_by_one(node, f"_Weighted{name}", one, data, places, ids, weights, hidden)
        return found if joint else found[0]

    return run


def _sums(
    data: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], weights: Sequence[Array],
    hidden: Sequence[Array | None], kind: int,
) -> list[Array] | None:  # fmt: skip
    """None where anything is out of order."""
    data, places, ids, weights = pieces(data), pieces(places), pieces(ids), pieces(weights)
    counts = [(int(i[-1]) + 1 if len(i) else 0) if h is None else len(h) for i, h in zip(ids, hidden)]
    if min(counts) < 0:
        return None
    truths, widths = truths_of(hidden, counts), [math.prod(d.shape[1:]) for d in data]
    ends = [*accumulate((c * w for c, w in zip(counts, widths)), initial=0)]
    out = np.zeros(ends[-1], data[0].dtype)
    given = np.array([counts] * 5 + [[len(d) for d in data], widths, [len(i) for i in ids], counts], np.uint64)
    for k, arrays in enumerate((data, places, ids, weights, truths)):
        given[k] = positions(arrays)
    if not _through(sum_weighted, out, ids[0].dtype, given, kind, ends, counts):
        return None
    return [out[a:b].reshape(c, *d.shape[1:]) for (a, b), c, d in zip(pairwise(ends), counts, data)]


def _weighted_gradients(node: Node) -> Callable[..., Any]:
    """The way back to the rows. Inputs: N gradients, places, each entry's row, its weight, how many rows there are and,
    where `hides`, which rows give nothing. counted: instead of how many, arrays of as many."""
    n, name, hides, joint = *_counts(node), node.op.startswith("_Joint")
    counted = node.attrs.get("counted", False)
    spread_weighted.prepare()

    def run(*inputs: Array) -> Any:
        grads, places, ids, weights, sizes = (inputs[i : i + n] for i in range(0, 5 * n, n))
        hidden = inputs[5 * n :] if hides else (None,) * n
        tall = list(map(len if counted else one_int, sizes))
        fits = _fits(node.xp, grads, places, ids, weights, hidden) and all(
            h is None or len(h) == len(g) for g, h in zip(grads, hidden)
        )
        found = _gradients(grads, places, ids, weights, tall, hidden, DIVIDED[name]) if fits else None
        if found is None:
            one = partial(_composed_gradients, node.xp, name)
            found = one_by_one(node, f"_Weighted{name}Grad", one, grads, places, ids, weights, tall, hidden)
        return found if joint else found[0]

    return run


def _gradients(
    grads: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], weights: Sequence[Array],
    rows: Sequence[int], hidden: Sequence[Array | None], kind: int,
) -> list[Array] | None:  # fmt: skip
    """None where a number is out of range."""
    grads = [g if rows_ready(g) else np.ascontiguousarray(g) for g in grads]
    places, ids, weights, counts = pieces(places), pieces(ids), pieces(weights), [len(g) for g in grads]
    if min(rows) < 0:
        return None
    truths, widths = truths_of(hidden, counts), [math.prod(g.shape[1:]) for g in grads]
    ends = [*accumulate((r * w for r, w in zip(rows, widths)), initial=0)]
    out = np.zeros(ends[-1], grads[0].dtype)
    given = np.array([counts] * 6 + [widths, [len(i) for i in ids], counts, rows], np.uint64)
    for k, arrays in enumerate((grads, places, ids, weights, truths)):
        given[k] = positions(arrays)
    given[5] = unsigned([stride(g) for g in grads])
    if not _through(spread_weighted, out, ids[0].dtype, given, kind, ends, counts):
        return None
    return [out[a:b].reshape(r, *g.shape[1:]) for (a, b), r, g in zip(pairwise(ends), rows, grads)]


def _through(
    loop: Any, out: Array, numbers: Any, given: Array, kind: int, ends: Sequence[int], counts: Sequence[int]
) -> bool:
    """Whether the loop took all columns; `out` begins at ends[k] for column k."""
    most = max(counts)

    def work(mine: Array, to: Array) -> int:
        total = scratch("bag weights", (most,), out.dtype)  # each thread's own
        return int(loop(memory(out.dtype), memory(numbers), BYTES, mine, kind, total, to))

    widths, entries = given[6], given[7]
    return each_column(work, given, unsigned(ends[:-1]) + np.uint64(position(out)), int((widths * entries).sum()))


def _counts(node: Node) -> tuple[int, str, bool]:
    """(columns, what sums are divided by, whether rows are hidden)."""
    return node.attrs.get("N", 1), node.attrs["kind"], node.attrs["hides"]


def _fits(
    xp: Any, rows: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], weights: Sequence[Array],
    hidden: Sequence[Array | None],
) -> bool:  # fmt: skip
    """Whether the loops take these: as many weights as entries, of the rows' type."""
    told = all(w.dtype == r.dtype and w.size == len(p) for w, r, p in zip(weights, rows, places))
    return handles(xp, rows, places, ids, hidden) and told


# ---------------------------------------------------------------------- as the nodes were


def _composed_sums(
    xp: Any, name: str, data: Array, places: Array, ids: Array, weights: Array, hidden: Array | None
) -> Array:
    check_indices(places, len(data), "GatherV2")
    each, spread = data[places], weights.reshape(-1, 1)
    total = segment_sum(xp, _product(each, spread), ids)
    if name != "Sum":
        total = _quotient(xp, total, _weights_of(xp, name, spread, ids))
    if hidden is not None:
        _check_hidden(hidden, total)
        total[hidden] = 0
    return total


def _composed_gradients(
    xp: Any, name: str, grad: Array, places: Array, ids: Array, weights: Array, size: int, hidden: Array | None
) -> Array:
    spread = weights.reshape(-1, 1)
    if hidden is not None:
        _check_hidden(hidden, grad)
        grad = xp.where(hidden.reshape(-1, *[1] * (grad.ndim - 1)), grad.dtype.type(0), grad)
    if name != "Sum":
        grad = _quotient(xp, grad, _weights_of(xp, name, spread, ids))
    check_indices(ids, len(grad), "GatherV2")
    each = _product(grad[ids], spread)
    if len(places) == 1 != len(each):  # one row came for all weights
        each = each.sum(0, keepdims=True)
    return unsorted_segment_sum(xp, each, places, size)


def _weights_of(xp: Any, name: str, spread: Array, ids: Array) -> Array:
    return segment_sum(xp, spread, ids) if name == "Mean" else xp.sqrt(segment_sum(xp, spread * spread, ids))


def _product(each: Array, spread: Array) -> Array:
    if len(each) != len(spread) and 1 not in (len(each), len(spread)):
        raise InvalidArgumentError(f"Mul: Incompatible shapes: {list(each.shape)} vs. {list(spread.shape)}")
    return each * spread


def _quotient(xp: Any, x: Array, by: Array) -> Array:
    if len(x) != len(by) and 1 not in (len(x), len(by)):
        raise InvalidArgumentError(f"DivNoNan: Incompatible shapes: {list(x.shape)} vs. {list(by.shape)}")
    return xp.where(by == 0, x.dtype.type(0), x / xp.where(by == 0, by.dtype.type(1), by))


def _check_hidden(hidden: Array, rows: Array) -> None:
    if len(hidden) != len(rows):
        raise InvalidArgumentError(f"Select: {len(hidden)} rows that may be empty do not fit {len(rows)} of a bag")


for _op, _make in (("WeightedSums", _weighted_sums), ("WeightedGradients", _weighted_gradients)):
    bound(f"_{_op}", stateful=False, devices=_CPU)(_make)
    bound(f"_Joint{_op}", multi=True, stateful=False, devices=_CPU)(_make)
