"""A few rows by a large matrix: the matrix is read from memory once, a block at a time.

For a product of matrices BLAS repacks the whole matrix, row by row it reads it once for each; here each block is
multiplied by all rows while a cache holds it. Seen for 4 rows by 25,088 x 4,096 (processor time): 50 ms for the
product, 58 ms row by row, 35 ms so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parallel import runs, scratch, share

_LARGE = 1 << 20  # items of a matrix that is not in a cache
_BLOCK = 1 << 18
_LANES = 8


def fits(a: Any, b: Any) -> bool:
    """Whether this way pays; a and b are in host memory."""
    if a.ndim != 2 or b.ndim != 2 or b.size < _LARGE or a.dtype != b.dtype or a.dtype.char not in "fd":
        return False
    return 1 < len(a) <= (4 if b.flags.c_contiguous else 8 if b.flags.f_contiguous else 0)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b; the blocks depend on shapes alone, so the number of threads does not change the bits."""
    return _by_rows(a, b) if b.flags.c_contiguous else _by_columns(a, b)


def _by_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Blocks of rows of b add up to the whole, in a fixed number of partial sums."""
    blocks = runs(len(b), max(1, _BLOCK // b.shape[1]))
    sums = np.zeros((min(_LANES, len(blocks)), len(a), b.shape[1]), a.dtype)

    def work(mine: Sequence[int]) -> None:
        part = scratch("row", b.shape[1:], a.dtype)
        for lane in mine:
            for first, count in blocks[lane :: len(sums)]:
                for row, total in zip(a[:, first : first + count], sums[lane]):
                    np.matmul(row, b[first : first + count], out=part)
                    total += part

    share(work, range(len(sums)))
    return sums.sum(0)


def _by_columns(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Blocks of columns of b, which lie in memory as rows, each make columns of the result."""
    out, lines = np.empty((len(a), b.shape[1]), a.dtype), b.T

    def work(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            for row, made in zip(a, out):
                np.matmul(lines[first : first + count], row, out=made[first : first + count])

    share(work, runs(b.shape[1], max(1, _BLOCK // len(b))))
    return out
