"""Levenshtein's distances between the last axes of two sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError

_IN = "Array(int64, 1, 'C', readonly=True)"


@compiled([f"void({_IN}, {_IN}, {_IN}, {_IN}, int64[::1], int64[::1])"])
def distances(a: Any, a_ends: Any, b: Any, b_ends: Any, room: Any, out: Any) -> None:
    """out[i] = the distance of a[a_ends[i]:a_ends[i + 1]] from b's slice i; room: for one more than b's longest."""
    for i in range(out.shape[0]):
        first, count = b_ends[i], b_ends[i + 1] - b_ends[i]
        for j in range(count + 1):
            room[j] = j
        for k in range(a_ends[i], a_ends[i + 1]):
            corner, room[0] = room[0], room[0] + 1
            for j in range(count):
                changed = corner + (1 if a[k] != b[first + j] else 0)
                corner = room[j + 1]
                shorter = min(room[j], room[j + 1]) + 1
                room[j + 1] = min(changed, shorter)
        out[i] = room[count]


@distances.otherwise
def _(a: Any, a_ends: Any, b: Any, b_ends: Any, room: Any, out: Any) -> None:
    for i in range(len(out)):
        other = b[b_ends[i] : b_ends[i + 1]]
        steps = np.arange(len(other) + 1)
        row = steps
        for value in a[a_ends[i] : a_ends[i + 1]]:
            best = np.minimum(row[1:], row[:-1] - (other == value)) + 1
            row = np.minimum.accumulate(np.append(row[0] + 1, best) - steps) + steps
        out[i] = row[-1]


def _grouped(what: str, indices: Any, values: Any, sizes: tuple[int, ...], groups: tuple[int, ...]) -> Any:
    """(values in the order of their groups, where each group ends, after a zero)."""
    where = host(indices)
    if where.ndim != 2 or values.shape != where.shape[:1] or where.shape[1] != len(sizes) or len(sizes) < 1:
        raise InvalidArgumentError(
            f"EditDistance: {what}'s indices {list(where.shape)}, values {list(values.shape)} and shape {list(sizes)} "
            "do not fit"
        )
    if ((where < 0) | (where >= np.array(sizes, np.int64))).any():
        raise InvalidArgumentError(f"EditDistance: {what} has an index out of bounds of its shape {list(sizes)}")
    group = np.zeros(len(where), np.int64)
    for column, size in zip(where.T, groups):
        group = group * size + column
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=int(np.prod(groups, dtype=np.int64)))
    return values[order], np.concatenate(([0], np.cumsum(counts)))


@bound("EditDistance", stateful=False)
def _edit_distance(node: Node) -> Function:
    distances.prepare()
    normalize = node.attr("normalize", True)

    def run(ai: Any, av: Any, ashape: Any, bi: Any, bv: Any, bshape: Any) -> Any:
        sizes = ints(ashape), ints(bshape)
        if len(sizes[0]) != len(sizes[1]):
            raise InvalidArgumentError(
                f"EditDistance: hypothesis and truth must have one rank, got shapes {list(sizes[0])}, {list(sizes[1])}"
            )
        groups = tuple(map(max, sizes[0][:-1], sizes[1][:-1]))
        codes = np.unique(np.concatenate([host(av), host(bv)]), return_inverse=True)[1].astype(np.int64)
        a, a_ends = _grouped("hypothesis", ai, codes[: len(av)], sizes[0], groups)
        b, b_ends = _grouped("truth", bi, codes[len(av) :], sizes[1], groups)
        lengths = np.diff(b_ends)
        found = np.empty(len(lengths), np.int64)
        distances(a, a_ends, b, b_ends, np.empty(int(lengths.max(initial=0)) + 1, np.int64), found)
        out = found.astype(np.float32)
        if normalize:
            with np.errstate(divide="ignore", invalid="ignore"):
                out = np.where((lengths == 0) & (found == 0), np.float32(0), out / lengths.astype(np.float32))
        return node.xp.asarray(out.reshape(groups))

    return run
