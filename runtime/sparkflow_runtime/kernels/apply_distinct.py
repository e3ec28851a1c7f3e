"""A sparse update of many tables by sums of rows that came together: one array of sums, one of ids.

`_ApplyDistinct` stands for a `_FusedSparseApply` whose gradients are all parts of one `_SplitRows` and whose indices
are those of one `_SplitIds` (master/passes/fuse_embeddings.py): with 260 tables, making 520 views of two arrays, and
asking each for its place and shape, takes longer than the update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.distinct_rows import Parts, SplitRows, parts_of
from sparkflow_runtime.kernels.memory import position
from sparkflow_runtime.kernels.parallel import filling
from sparkflow_runtime.kernels.registry import EVERY_INPUT, Node, bound
from sparkflow_runtime.kernels.row_loops import unsigned
from sparkflow_runtime.kernels.training import Locks, check_rows, scalars_of, update_tables
from sparkflow_runtime.kernels.updates import Held, Updater, said
from sparkflow_runtime.resources.variables import Variable

Array = Any
_ANY = np.iinfo(np.int64).max  # rows: the ids of other nodes' parts are for those to check


@bound("_ApplyDistinct", refs=EVERY_INPUT, multi=True, devices=("CPU",))
def _apply_distinct(node: Node) -> Callable[..., Sequence[Variable]]:
    """Inputs: N variables, N of each slot, the op's factors; sums, ids and counts as `_SumToDistinct` and
    `_DistinctIds` give them. Attributes: N, op, those of the op; of, row_shapes: of each part of the sums which count
    is its own, and the shape of its rows; members: which part each variable takes;
    awaited: whether the other tasks wait for this, and leave their processors to it."""
    op, n, of, members = node.attrs["op"], node.attrs["N"], node.attrs["of"], list(node.attrs["members"])
    updater = Updater(node.xp, op, node.attrs)
    num_refs, rows = updater.update.num_refs, [shape.dims for shape in node.attrs["row_shapes"]]
    first, split, locks = members[0], SplitRows(node), Locks()
    mine = slice(first, first + n)
    parts, widths = Parts(node, said(op), of, mine), unsigned(split.widths)
    side_by_side, awaited = members == [*range(first, first + n)], node.attr("awaited", False)
    seen: tuple[Held, Array] | None = None

    def looked_at(refs: Sequence[Variable], arrays: list[Array]) -> tuple[Held, Array]:
        """What is known of the arrays, and how many rows each part's ids may name."""
        for t, member in enumerate(members):
            check_rows(op, refs[t::n], arrays[t::n], (0, *rows[member]), (0,))
        held, sizes = Held(arrays, num_refs, updater.takes(arrays)), np.full(len(of), _ANY, np.uint64)
        sizes[members] = held.sizes
        return held, sizes

    def run(*inputs: Any) -> Sequence[Variable]:
        nonlocal seen
        refs = inputs[: num_refs * n]
        *factors, flat, distinct, counts = (i.read() if type(i) is Variable else i for i in inputs[num_refs * n :])
        scalars = scalars_of(node, factors, set())
        with locks.of(inputs[:n]):
            arrays = [ref.read() for ref in refs]
            known = seen
            if known is None or not known[0].same(arrays):
                known = seen = looked_at(refs, arrays)
            held, sizes = known
            if side_by_side and held.taken and updater.takes_factors(scalars) and _fits(flat, held.dtype):
                ids, where, items = parts.of(distinct, counts, widths, sizes)
                if flat.shape != (items,):
                    split.begins(flat, counts)  # says how they differ
                where[3] += np.uint64(position(flat))
                threads = filling() if awaited else 1
                updater.change(held.dtype, held.columns.T, ids, where[:, mine], scalars, held.sizes, threads)
                return inputs[:n]
        ids, begins, ends = parts_of(node, distinct, counts, of)
        grads, numbers = split(flat, counts), ids.view(np.int64)
        indices = [numbers[a:b] for a, b in zip(begins.tolist(), ends.tolist())]
        tables, own = [refs[t::n] for t in range(n)], [indices[m] for m in members]
        update_tables(node, updater, op, tables, [grads[m] for m in members], own, scalars, "distinct")
        return inputs[:n]

    return run


def _fits(flat: Array, dtype: Any) -> bool:
    """Whether the loops can read it; what came from another process may be memory that nobody here writes to."""
    return type(flat) is np.ndarray and flat.dtype == dtype and flat.flags.c_contiguous and flat.flags.aligned
