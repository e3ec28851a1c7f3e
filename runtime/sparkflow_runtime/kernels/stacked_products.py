"""Products of stacks of matrices, as of the heads of attention: many small ones, in runs that threads share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels import parallel

_SLOWLY = 1 << 23  # multiplications from which threads of Python pay
_RUNS = 16  # of a stack, at most
_MOST_ROWS = 256  # of a table for the crew


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.matmul of stacks of matrices; big ones of floats of one type in runs of matrices, which changes no bit."""
    if min(a.ndim, b.ndim) < 3 or a.dtype != b.dtype or a.dtype.char not in "fd":
        return np.matmul(a, b)
    if a.shape[:-2] != b.shape[:-2]:
        return _spread(a, b)
    work = a.size * b.shape[-1]
    mates = parallel.crew_for(work)
    found = None if mates is None else mates.matmul_loop(a, b)
    if mates is None or found is None:
        return _by_python(a, b) if work >= _SLOWLY else np.matmul(a, b)
    with nullcontext() if parallel.blas_in_use() else parallel.blas_alone():
        out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
        table = _table(found, a, b, out)
        if table is None:
            return np.matmul(a, b, out=out)
        mates.run(table)
        return out


def _spread(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of one matrix with each of a stack, where they lie together, one product."""
    if b.ndim == 2 and a.flags.c_contiguous and a.size:
        return parallel.product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    return np.matmul(a, b)


def _table(loop: tuple[int, int], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray | None:
    """A block for each run of matrices that lie at even distances; None where there are too many of those."""
    sizes, steps = _merged(a.shape[:-2], [x.strides[:-2] for x in (a, b, out)])
    last, rows = sizes[-1], math.prod(sizes[:-1])
    if rows > _MOST_ROWS:
        return None
    each = -(-last // max(1, _RUNS // rows))
    starts = [np.zeros(1, np.int64)] * 3
    for axis, size in enumerate((*sizes[:-1], -(-last // each))):
        by = each if axis == len(sizes) - 1 else 1
        places = np.arange(size, dtype=np.int64) * by
        starts = [np.add.outer(s, places * of[axis]).reshape(-1) for s, of in zip(starts, steps)]
    table = np.zeros((len(starts[0]), layout.BLOCK_BYTES // 8), np.int64)
    table[:, layout.KIND // 8] = layout.LOOP
    table[:, layout.FUNCTION // 8], table[:, layout.DATA // 8] = loop
    for i, (x, s) in enumerate(zip((a, b, out), starts)):
        table[:, layout.ARGS // 8 + i] = x.ctypes.data + s
    counts = np.full((rows, -(-last // each)), each)
    counts[:, -1] = last - (counts.shape[1] - 1) * each
    first = layout.SIZES // 8
    table[:, first] = counts.reshape(-1)
    table[:, first + 1 : first + 4] = a.shape[-2], a.shape[-1], b.shape[-1]
    inner = [stride for x in (a, b, out) for stride in x.strides[-2:]]
    table[:, layout.STEPS // 8 : layout.STEPS // 8 + 9] = [*(of[-1] for of in steps), *inner]
    return table


def _merged(sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The axes of some arrays, those together that all of the arrays go through evenly."""
    found, moved = [1], [[0] for _ in steps]
    for axis, size in enumerate(sizes):
        of = [x[axis] for x in steps]
        if size > 1 and found[-1] > 1 and any(m[-1] != by * size for m, by in zip(moved, of)):
            found.append(size)
            moved = [[*m, by] for m, by in zip(moved, of)]
        elif size > 1:
            found[-1] *= size
            moved = [[*m[:-1], by] for m, by in zip(moved, of)]
    return found, moved


def _by_python(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By threads of Python, along the first axis that has several."""
    if len(a) == 1 and a.ndim > 3:
        return _by_python(a[0], b[0])[None]
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)

    def work(mine: Sequence[tuple[int, int]]) -> None:
        part: Any = slice(mine[0][0], sum(mine[-1]))
        np.matmul(a[part], b[part], out=out[part])

    parallel.share(work, parallel.runs(len(a), -(-len(a) // _RUNS)))
    return out
