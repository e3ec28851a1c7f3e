"""Gradients of many accumulators given together, and their averages taken together.

`_AccumulateDistinct` gives what a replica sent (distinct_rows.py) to all accumulators of a task, each its part of one
array. `_JointTake` waits for all of them and makes the averages in one loop (master/passes/joint_takes.py), which reads
the replicas' arrays where they are. Averages of rows that one update takes stay together: one array of rows, one of
ids, one of counts, as `_ApplyDistinct` has them.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from operator import attrgetter, is_
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.distinct_loops import merge_rows
from sparkflow_runtime.kernels.distinct_rows import Parts, SplitRows
from sparkflow_runtime.kernels.halves import HALVES, narrowed, widened
from sparkflow_runtime.kernels.memory import position, positions
from sparkflow_runtime.kernels.merging import Givers, Merged, merged
from sparkflow_runtime.kernels.parallel import filling
from sparkflow_runtime.kernels.registry import EVERY_INPUT, Node, asynchronous, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES
from sparkflow_runtime.kernels.updates import flat_ids, same
from sparkflow_runtime.resources.accumulators import Accumulator, SparseAccumulator
from sparkflow_runtime.resources.groups import as_op_error
from sparkflow_runtime.resources.joint_takes import JointTake, Part, Together, add_parts
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

Array = Any
Wait = Callable[..., None]
Given = Sequence[tuple[Any, list[Any]]]  # accumulators, with the contributions of each in the order of the sum
_CPU = ("CPU",)
_ADDED_UP = {*FLOAT_TYPES, *HALVES}


@bound("_AccumulateDistinct", refs=EVERY_INPUT, devices=_CPU)
def _accumulate_distinct(node: Node) -> Callable[..., None]:
    """Inputs: N accumulators of known shape, their gradients' step, and sums, ids and counts as `_SumToDistinct` and
    `_DistinctIds` give them (`of` says which counts are whose)."""
    n, rank = node.attrs["N"], node.attr("_replica", 0)
    split, shapes = SplitRows(node), [shape.dims for shape in node.attrs["row_shapes"]]
    parts, widths = Parts(node, "SparseAccumulatorApplyGradient", node.attrs["of"]), unsigned(split.widths)

    known: tuple[list[Any], Array, set[Any]] = [], None, set()  # accumulators, their rows, their types

    def run(*inputs: Any) -> None:
        nonlocal known
        accumulators = inputs[:n]
        local_step, sums, distinct, counts = map(_value, inputs[n:])
        seen, sizes, dtypes = known
        if not same(seen, accumulators):
            sizes, dtypes = unsigned([a.shape[0] for a in accumulators]), {a.dtype.np for a in accumulators}
            known = [*map(weakref.ref, accumulators)], sizes, dtypes
        # Copies: what came may be memory of the network.
        ids, where, items = parts.of(distinct.astype(np.int64), counts, widths, sizes)
        if sums.shape != (items,):
            split.begins(sums, counts)  # says how they differ
        if dtypes != {sums.dtype}:
            raise InvalidArgumentError(f"{accumulators[0]} takes {accumulators[0].dtype.name}, got {sums.dtype}")
        add_parts(accumulators, int(local_step), Together(ids, sums.copy(), where, shapes), rank)

    return run


@asynchronous("_JointTake", refs=EVERY_INPUT, devices=_CPU)
def _joint_take(node: Node) -> Wait:
    """Inputs: N accumulators and how many gradients each must have. Outputs: the average of each, as
    AccumulatorTakeGradient or SparseAccumulatorTakeGradient has it (indices in no order); when all are there.

    set_sizes, set_members: sets of sparse accumulators, of one type and reduction each, by their numbers. Their own
    outputs are nothing; after those of all others come rows, ids and counts of each set."""
    ends = np.cumsum([0, *node.attr("set_sizes", ())]).tolist()
    members = list(node.attr("set_members", ()))
    sets = [members[a:b] for a, b in pairwise(ends)]
    merge_rows.prepare()

    def run(step: Any, done: Callable[..., None], *inputs: Any) -> None:
        accumulators = inputs[:-1]

        def taken(error: OpError | None, contributions: Sequence[Any]) -> None:
            try:
                done(error, () if error is not None else _averages(accumulators, contributions, sets))
            except Exception as problem:
                done(as_op_error(problem))

        JointTake(accumulators, int(_value(inputs[-1])), taken, step)

    return run


def _value(given: Any) -> Array:
    return given.read() if type(given) is Variable else given


def _averages(
    accumulators: Sequence[Accumulator], contributions: Sequence[Any], sets: Sequence[list[int]]
) -> list[Array]:
    groups: dict[Any, list[int]] = {}
    found: dict[int, Sequence[Any]] = {i: (None, None, None) for mine in sets for i in mine}
    for i, accumulator in enumerate(accumulators):
        if i not in found:
            together = isinstance(accumulator, SparseAccumulator) and accumulator.dtype.np in _ADDED_UP
            groups.setdefault((accumulator.dtype, accumulator.reduction) if together else i, []).append(i)
    for key, members in groups.items():
        if isinstance(key, int):
            found[key] = accumulators[key].average(contributions[key])
        else:
            found.update(zip(members, _apart([(accumulators[i], contributions[i]) for i in members])))
    joint = [_merged([(accumulators[i], contributions[i]) for i in mine], filling()) for mine in sets]
    return [
        *(output for i in range(len(accumulators)) for output in found[i]),
        *(output for merged in joint for output in (merged.rows, merged.ids, merged.counts)),
    ]


def _merged(given: Given, threads: int = 1) -> Merged:
    """The averages of accumulators of one type and reduction, one's after the other's."""
    dtype, mean = given[0][0].dtype.np, given[0][0].reduction == "MEAN"
    halves = dtype in HALVES
    found = merged(_as_they_came(given) or _collected(given), np.dtype(np.float32) if halves else dtype, mean, threads)
    return found._replace(rows=narrowed(found.rows, dtype)) if halves else found


def _summable(rows: Array) -> Array:
    """As a type that the loop adds up."""
    return widened(rows) if rows.dtype in HALVES else rows


def _as_they_came(given: Given) -> Givers | None:
    """Where all accumulators have their parts of the same arrays: these."""
    contributions = [some for _, some in given]
    if len(set(map(len, contributions))) != 1:
        return None
    came: list[Together] = []
    parts = []
    for givers in zip(*contributions):  # what one replica gave each
        if set(map(type, givers)) != {Part}:
            return None
        together = givers[0].together
        if not all(map(is_, map(_TOGETHER, givers), repeat(together))):
            return None
        came.append(together)
        parts.append(together.parts[:, [*map(_TABLE, givers)]])
    columns = np.stack(parts, 2)  # what lay_out says, table by table, the givers of each side by side
    values = [_summable(together.rows) for together in came]
    ids, rows = positions([together.ids for together in came]), positions(values)
    widths, begins, _, at, _, ends = columns
    starts, ends, at = ((column + place).reshape(-1) for column, place in ((begins, ids), (ends, ids), (at, rows)))
    return Givers(widths[:, 0].copy(), starts, ends, at, [came, values])


_TOGETHER, _TABLE = attrgetter("together"), attrgetter("table")


def _collected(given: Given) -> Givers:
    """From wherever they are; an accumulator with fewer contributions than others gets empty ones."""
    most, dtype = max(len(contributions) for _, contributions in given), given[0][0].dtype.np
    nothing = np.empty(0, np.int64), np.empty(0, dtype)
    pairs = [[*map(tuple, some), *[nothing] * (most - len(some))] for _, some in given]
    flat = [pair for some in pairs for pair in some]
    ids, starts = flat_ids([indices for indices, _ in flat])
    starts = starts + np.uint64(position(ids))
    widths = unsigned([math.prod(some[0][1].shape[1:]) for some in pairs])
    values = [np.ascontiguousarray(_summable(rows)) for _, rows in flat]
    return Givers(widths, starts[:-1], starts[1:], positions(values), [ids, values])


def _apart(given: Given) -> list[list[Array]]:
    """[ids, rows, shape] of each."""
    rows, ids, counts = _merged(given)
    shapes = [tuple(next(iter(contributions)))[1].shape[1:] for _, contributions in given]
    begin, first, found = 0, 0, []
    for (accumulator, _), shape, count in zip(given, shapes, counts.tolist()):
        end, last = begin + count * math.prod(shape), first + count
        found.append([ids[first:last], rows[begin:end].reshape(count, *shape), accumulator.shape_now])
        begin, first = end, last
    return found
