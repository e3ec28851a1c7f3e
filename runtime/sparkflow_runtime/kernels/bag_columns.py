"""What loops over the bags of many columns have in common (joint_bags.py, weighted_bags.py): what they take, where it
lies, and who goes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.memory import memory
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.kernels.sum_loops import FLOAT_TYPES
from sparkflow_runtime.wire.errors import OpError

Array = Any
NUMBERS = (np.dtype(np.int64), np.dtype(np.int32))
_TRUE = np.dtype(np.bool_)
_SHARED, _PARTS = 1 << 19, 8  # items that several threads add up; runs of columns that they take in turn

BYTES = memory(np.dtype(np.uint8))


def each_column(loop: Callable[[Array, Array], int], given: Array, at: Array, items: int) -> bool:
    """loop(columns, where theirs go) for all columns, in several threads where they are large. Whether none failed."""
    failed: list[int] = []

    def work(mine: Sequence[tuple[int, int]]) -> None:
        for a, count in mine:
            if loop(np.ascontiguousarray(given[:, a : a + count]), at[a : a + count]) >= 0:
                failed.append(a)

    n = len(at)
    share(work, runs(n, -(-n // _PARTS))) if items >= _SHARED else work([(0, n)])
    return not failed


def handles(
    xp: Any, rows: Sequence[Array], places: Sequence[Array], ids: Sequence[Array], hidden: Sequence[Array | None]
) -> bool:
    """Whether the loops take these: rows of one type, numbers of one type."""
    real, kind = rows[0].dtype, ids[0].dtype
    return (
        xp is np
        and real in FLOAT_TYPES
        and kind in NUMBERS
        and all(r.dtype == real and r.ndim for r in rows)
        and all(p.dtype == i.dtype == kind and p.ndim == 1 and p.shape == i.shape for p, i in zip(places, ids))
        and all(h is None or (h.dtype == _TRUE and h.ndim == 1) for h in hidden)
    )


def pieces(arrays: Sequence[Array]) -> list[Array]:
    """Each in one aligned piece of memory."""
    return [a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C") for a in arrays]


def truths_of(hidden: Sequence[Array | None], counts: Sequence[int]) -> list[Array]:
    none = np.zeros(max(counts), bool) if any(h is None for h in hidden) else None
    return [none if h is None else np.ascontiguousarray(h) for h in hidden]


def one_by_one(node: Node, op: str, one: Callable[..., Any], *inputs: Iterable[Any]) -> list[Any]:
    """What each column's own inputs give. An error names its node."""
    found = []
    for k, mine in enumerate(zip(*inputs)):
        try:
            found.append(one(*mine))
        except OpError as error:
            error.node_def = node.member(k, op)
            raise
    return found
