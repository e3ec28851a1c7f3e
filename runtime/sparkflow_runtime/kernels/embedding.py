"""Look-ups in many tables as one node (master/passes/fuse_embeddings.py makes them)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import row_loops
from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.memory import copying, position
from sparkflow_runtime.kernels.own_parts import owned
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.updates import Places, flat_ids
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any

_SHARED, _PARTS = 1 << 19, 8  # items that several threads copy; runs of tables that they take in turn


class _Lookups:
    """Rows of N tables of one dtype by N arrays of ids."""

    def __init__(self, node: Node):
        self.n, self._node, self._xp, self._places = node.attrs["N"], node, node.xp, Places()
        for loop in (row_loops.gather_rows, row_loops.first_outside):
            loop.prepare()

    def compiles(self, tables: Sequence[Array]) -> bool:
        dtype = tables[0].dtype
        return (
            self._xp is np
            and dtype.itemsize in (4, 8)
            and dtype.kind in "fiu"
            and all(t.flags.c_contiguous and t.flags.aligned and t.ndim for t in tables)
        )

    def one_by_one(self, tables: Sequence[Array], ids: Sequence[Array]) -> list[Array]:
        for t, (table, mine) in enumerate(zip(tables, ids)):
            try:
                check_indices(mine, table.shape[0], "GatherV2")
            except InvalidArgumentError as error:
                error.node_def = self._node.member(t, "GatherV2")
                raise
        return [self._xp.take(table, mine, 0) for table, mine in zip(tables, ids)]

    def into(self, tables: Sequence[Array], ids: Sequence[Array], out: Array, begins: Any, steps: Any) -> None:
        """Row i of table t to out's item begins[t] + i * steps[t]; widths are the tables'."""
        flat, starts = flat_ids(ids)
        sizes = unsigned([t.shape[0] for t in tables])
        if row_loops.first_outside(flat, starts[:-1], starts[1:], sizes) >= 0:
            self.one_by_one(tables, ids)  # says which
        widths = unsigned([math.prod(t.shape[1:]) for t in tables])
        where = self._places(tables)
        at, every = unsigned(begins) + np.uint64(position(out)), unsigned(steps)

        def work(mine: Sequence[tuple[int, int]]) -> None:
            for a, count in mine:
                b = a + count
                ends = starts[a + 1 : b + 1]
                row_loops.gather_rows(
                    copying(out.dtype), where[a:b], widths[a:b], flat, starts[a:b], ends, at[a:b], every[a:b]
                )

        large = out.size >= _SHARED
        share(work, runs(len(tables), -(-len(tables) // _PARTS))) if large else work([(0, len(tables))])


@bound("_FusedGather", multi=True, stateful=False)
def _fused_gather(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N tables, N arrays of ids. Output t is the rows of table t, in memory that all outputs share."""
    lookups = _Lookups(node)
    n = lookups.n

    def run(*inputs: Array) -> Sequence[Array]:
        tables, ids = inputs[:n], inputs[n:]
        if not lookups.compiles(tables):
            return lookups.one_by_one(tables, ids)
        widths = [math.prod(t.shape[1:]) for t in tables]
        ends = list(accumulate((i.size * w for i, w in zip(ids, widths)), initial=0))
        out = np.empty(ends[-1], tables[0].dtype)
        lookups.into(tables, ids, out, ends[:-1], widths)
        return [out[a:b].reshape(i.shape + t.shape[1:]) for a, b, i, t in zip(ends, ends[1:], ids, tables)]

    return run


@bound("_FusedGatherConcat", multi=True, stateful=False)
def _fused_gather_concat(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: N tables, N vectors of ids, other columns. Output 0 has all of them side by side in the given order,
    output 1 + t is the columns of table t in it. axis: of ids that are no vectors, along which the rows are joined."""
    lookups, order = _Lookups(node), node.attrs["order"]
    n = lookups.n

    def run(*inputs: Array) -> Sequence[Array]:
        tables, ids, others = inputs[:n], inputs[n : 2 * n], inputs[2 * n :]
        count = len(ids[0])
        flat = all(t.ndim == 2 for t in tables) and all(i.ndim == 1 and len(i) == count for i in ids)
        if not flat or not lookups.compiles(tables) or any(o.ndim != 2 or len(o) != count for o in others):
            return _joined(node, lookups.one_by_one(tables, ids), others, order)
        parts = (*tables, *others)
        ends = list(accumulate((parts[k].shape[1] for k in order), initial=0))
        begins = dict(zip(order, ends))
        out = np.empty((count, ends[-1]), tables[0].dtype)
        lookups.into(tables, ids, out, [begins[k] for k in range(n)], [ends[-1]] * n)
        for k, other in enumerate(others, n):
            out[:, begins[k] : begins[k] + other.shape[1]] = other
        return [out, *(out[:, begins[k] : begins[k] + t.shape[1]] for k, t in enumerate(tables))]

    return run


def _joined(node: Node, rows: list[Array], others: Sequence[Array], order: list[int]) -> list[Array]:
    parts = [*rows, *others]
    try:
        return [node.xp.concatenate([parts[k] for k in order], node.attrs["axis"]), *rows]
    except ValueError:
        shapes = ", ".join(str(parts[k].shape) for k in order)
        where = node.attrs["axis"]
        raise InvalidArgumentError(f"ConcatV2: sizes must agree but for axis {where}, got shapes {shapes}") from None


@bound("_FusedConcatGrad", multi=True, aliases=True, stateful=False)
def _fused_concat_grad(node: Node) -> Callable[..., Sequence[Array]]:
    """Inputs: the axis, the gradient of a concat, the concat's values. Output i is the gradient of value parts[i]."""
    parts, own = node.attrs["parts"], node.attr("own_parts", False)

    def run(axis: Any, grad: Array, *values: Array) -> Sequence[Array]:
        at = int(axis)
        ends = list(accumulate((v.shape[at] for v in values), initial=0))
        found = []
        for k in parts:
            key = [slice(n) for n in values[k].shape]
            key[at] = slice(ends[k], ends[k + 1])
            found.append(grad[tuple(key)])
            if found[-1].shape != values[k].shape:
                raise InvalidArgumentError(
                    f"Slice: begin {ends[k]} along axis {at} and size {values[k].shape} do not lie within the shape "
                    f"{grad.shape}"
                )
        return owned(found) if own else found

    return run
