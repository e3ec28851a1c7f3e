"""Rows of one table that several columns of ids name: taken column by column, and their sums brought together again.

master/passes/wide_rows.py makes these nodes. Between them each column is as a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import row_loops
from sparkflow_runtime.kernels.memory import copying, position
from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.kernels.sum_loops import sum_rows

Array = Any


@bound("_RowsAt", stateful=False, devices=("CPU",))
def _rows_at(node: Node) -> Callable[..., Array]:
    """Inputs: a matrix, and which of its rows. These, one after the other: a vector."""
    row_loops.gather_rows.prepare()

    def run(rows: Array, at: Array) -> Array:
        count, width = at.size, rows.shape[1]
        if rows.dtype.itemsize not in (4, 8) or not (rows.flags.c_contiguous and rows.flags.aligned):
            return rows.take(at, 0).reshape(-1)
        out = np.empty(count * width, rows.dtype)
        columns = (position(rows), width, 0, count, position(out), width)
        table, widths, start, end, to, step = np.array(columns, np.int64).view(np.uint64)[:, None]
        ids = at.astype(np.uint64)
        row_loops.gather_rows(copying(out.dtype), table, widths, ids, start, end, to, step)
        return out

    return run


@bound("_FoldRows", stateful=False, devices=("CPU",))
def _fold_rows(node: Node) -> Callable[..., Array]:
    """Inputs: sums of rows of `width`, a vector; which of a table's distinct rows each is of; and the counts of these,
    of which `of` says the table's. The sums of each of its distinct rows: a vector."""
    of, width = node.attrs["of"], node.attrs["width"]

    def run(sums: Array, at: Array, counts: Array) -> Array:
        return sum_rows(np, sums.reshape(-1, width), at.astype(np.int64), int(counts[of])).reshape(-1)

    return run
