"""Sums by id of rows that are columns of matrices: of each matrix by one node, which takes it as it is.

Where a model's tables meet in two places, such as those of a wide part and of a deep one, their gradients are columns
of two matrices. What travels are all sums in one array.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.master.passes.travelling import Sum
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse
from sparkflow_runtime.wire.sizes import static_shape

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.distinct_rows import Packer

_MOST = 4  # matrices: each has a node of its own, and of sums of few tables one node is as well


def by_matrix(packer: Packer, group: list[Sum]) -> list[Sum]:
    """Those of one matrix one after the other, where there are few matrices."""
    matrices = [columns_of(packer, it)[0] for it in group]
    known = Counter(m for m in matrices if m)
    if not 1 < len(known) + ("" in matrices) <= _MOST or min(known.values()) < 2:
        return group
    order = list(dict.fromkeys(matrices))
    return [it for m in order for it, mine in zip(group, matrices) if mine == m]


def summed(packer: Packer, group: list[Sum], pack: str, of: list[int], source: str, home: str, carried: bytes) -> str:
    """The sums of the rows of a group by the ids of a pack, of which `of` says whose are whose, in one array."""
    told, columns = [edge(pack, port) for port in (1, 2, 3)], [columns_of(packer, it) for it in group]
    runs = _runs([matrix for matrix, _ in columns])
    parts = []
    for begin, end in runs:
        mine = slice(begin, end)
        rows, about = [it.rows for it in group[mine]], {"N": end - begin, "of": of[mine]}
        if columns[begin][0] and (len(runs) > 1 or len({m for m, _ in columns}) == 1):
            rows, about["N"] = [columns[begin][0]], 1
            about |= {"columns": [at for _, at in columns[mine]], "widths": [it.row[0] for it in group[mine]]}
        parts.append((rows, about))
    if len(parts) == 1:
        ((rows, about),) = parts
        return packer.make("_SumToDistinct", source, [*rows, *told], about, home, carried)
    each = [packer.make("_SumToDistinct", source, [*rows, *told], about, home) for rows, about in parts]
    axis = packer.make("Const", source, [], {"dtype": dtypes.int32, "value": np.array(0, np.int32)}, pack)
    joined: dict[str, Any] = {"N": len(each), "T": dtypes.float32, "Tidx": dtypes.int32}
    return packer.make("ConcatV2", source, [*each, axis], joined, home, carried)


def _runs(matrices: list[str]) -> list[tuple[int, int]]:
    """Where those of one matrix begin and end; all at once where that would be many, or some of one table."""
    ends = [k for k in range(1, len(matrices)) if matrices[k] != matrices[k - 1]] + [len(matrices)]
    runs = list(zip([0, *ends], ends))
    few = len(runs) <= _MOST and all(end - begin > 1 or not matrices[begin] for begin, end in runs)
    return runs if few else [(0, len(matrices))]


def columns_of(packer: Packer, it: Sum) -> tuple[str, int]:
    """(matrix, first column) of rows that are some columns of all rows of a matrix; ("", 0) where they are not."""
    e = it.rows
    while len(it.row) == 1 and packer.task_of_edge(e) is not None:
        node = packer.nodes[node_name(e)]
        if any(map(is_control, node.input)):
            break
        given = node.input[0] if node.input else ""
        if node.op == "Reshape" and _rank(packer, given) == 2 and packer.row(given) == it.row:
            e = given
            continue
        if node.op != "Slice" or _rank(packer, given) != 2 or packer.task_of_edge(given) is None:
            break
        begin, size = (constant(packer.nodes, x, packer.feeds) for x in data_inputs(node)[1:])
        if begin is None or size is None or begin.tolist()[0] != 0 or size.tolist() != [-1, it.row[0]]:
            break
        return edge(*parse(given)), int(begin[1])
    return "", 0


def _rank(packer: Packer, e: str) -> int:
    shape = static_shape(packer.nodes, e)
    return -1 if shape is None else len(shape)
