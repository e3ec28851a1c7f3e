"""The sum of many small products of one shape: the gradient of a weight that every step of a written-out cell shares.

20 products of 96 x 64 by 64 x 128 and their sum are 42 calls and 21 arrays, and each product is too small for a second
thread. Here the threads take the products side by side, each into a row of memory that stays, and then columns of the
rows, which are added in the order of the sum: the bits are those of the calls one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels import parallel
from sparkflow_runtime.kernels.memory import positions
from sparkflow_runtime.kernels.row_reductions import added_rows, wide_sums

_AT_ONCE_BYTES = 1 << 21  # of products: what a second cache holds
_LARGE = 1 << 20  # items of a matrix that `few_rows` may take
prepare = wide_sums.prepare


def sum_of_products(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray | None:
    """a[0] @ b[0] + a[1] @ b[1] + ..., of matrices; None where they are not all alike, or each too large for this."""
    if len({_kind(x) for x in a}) > 1 or len({_kind(x) for x in b}) > 1 or not _fit(a[0], b[0]):
        return None
    m, n = len(a[0]), b[0].shape[1]
    out = np.empty((m, n), a[0].dtype)
    each = min(len(a), max(1, _AT_ONCE_BYTES // out.nbytes))
    rows = parallel.scratch("products", (each + 1, m * n), out.dtype)
    with nullcontext() if parallel.blas_in_use() else parallel.blas_alone():
        for first in range(0, len(a), each):
            count, held = min(each, len(a) - first), int(first > 0)
            if held:
                rows[0] = out.reshape(-1)
            _multiply(a[first : first + count], b[first : first + count], rows[held : held + count])
            added_rows(rows[: held + count], out.reshape(-1))
    return out


def _kind(x: Any) -> tuple[Any, ...]:
    return (type(x), x.dtype, x.shape, x.strides, x.flags.aligned)


def _fit(a: Any, b: Any) -> bool:
    """Whether `parallel.product` would compute each in one call."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.dtype != b.dtype or a.dtype.char not in "fd":
        return False
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not a.size or not b.size:
        return False
    return (
        a.shape[1] > 1
        and a.size * b.shape[1] < parallel.SHARED
        and b.size < _LARGE
        and a.flags.aligned
        and b.flags.aligned
    )


def _multiply(a: Sequence[np.ndarray], b: Sequence[np.ndarray], rows: np.ndarray) -> None:
    """rows[i] = a[i] @ b[i]"""
    (m, k), n = a[0].shape, b[0].shape[1]
    mates = parallel.crew_for(len(a) * m * k * n)
    found = None if mates is None else mates.matmul_loop(a[0], b[0])
    if mates is None or found is None:
        for x, y, to in zip(a, b, rows):
            np.matmul(x, y, out=to.reshape(m, n))
        return
    steps = (*a[0].strides, *b[0].strides, n * rows.itemsize, rows.itemsize)
    table = _table(found, (m, k, n), steps, len(a)).copy()
    for i, arrays in enumerate((a, b)):
        table[:, layout.ARGS // 8 + i] = (positions(arrays).view(np.int64) + 1) * rows.itemsize
    table[:, layout.ARGS // 8 + 2] = rows.ctypes.data + np.arange(len(a)) * (m * n * rows.itemsize)
    mates.run(table)


@lru_cache(64)
def _table(loop: tuple[int, int], sizes: tuple[int, ...], steps: tuple[int, ...], count: int) -> np.ndarray:
    """A block for each product, without its addresses."""
    table = np.zeros((count, layout.BLOCK_BYTES // 8), np.int64)
    table[:, layout.KIND // 8] = layout.LOOP
    table[:, layout.FUNCTION // 8], table[:, layout.DATA // 8] = loop
    table[:, layout.SIZES // 8] = 1
    table[:, layout.SIZES // 8 + 1 : layout.SIZES // 8 + 4] = sizes
    table[:, layout.STEPS // 8 + 3 : layout.STEPS // 8 + 9] = steps
    return table
