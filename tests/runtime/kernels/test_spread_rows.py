"""Rows of two tasks beside each other: what a look-up table by table and a concat would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.errors import InvalidArgumentError

WIDTHS = [[3, 1, 4], [2, 5]]  # of the tables of each task; the second table of the first one is not wanted
MEMBERS, ORDER = [3, 0, 4, 2], [0, 4, 1, 2, 3]  # 4: the other columns
BATCH = 9


def bind(op: str, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def travelled(tables: Sequence[np.ndarray], ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Rows, counts, places and sizes as the other kernels make them."""
    distinct, counts, places, sizes, *_ = bind("_DistinctIds", N=len(ids))(*ids)
    of = list(range(len(tables)))
    return [bind("_GatherDistinct", N=len(tables), of=of)(*tables, distinct, counts), counts, places, sizes]


def spread(alone: bool) -> Callable[..., Any]:
    of, widths = [k for some in WIDTHS for k in range(len(some))], [w for some in WIDTHS for w in some]
    tables = [len(some) for some in WIDTHS]
    return bind("_SpreadConcat", N=4, order=ORDER, tables=tables, of=of, widths=widths, members=MEMBERS, alone=alone)


def case(dtype: str, batch: int = BATCH) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """(inputs, the rows of every table, the other columns)."""
    rng = np.random.default_rng(2)
    inputs, rows = [], []
    for widths in WIDTHS:
        tables = [(100 * rng.standard_normal((6, width))).astype(dtype) for width in widths]
        ids = [rng.integers(0, 6, batch) for _ in widths]
        rows += [table[mine] for table, mine in zip(tables, ids)]
        inputs += travelled(tables, ids)
    return inputs, rows, np.ones((batch, 2), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "bool"])
@pytest.mark.parametrize("batch", [BATCH, 0])
def test_rows_of_two_tasks(dtype: str, batch: int) -> None:
    inputs, rows, other = case(dtype, batch)
    out, *columns = spread(False)(*inputs, other)
    mine = [rows[m] for m in MEMBERS]
    np.testing.assert_array_equal(out, np.concatenate([[*mine, other][k] for k in ORDER], 1))
    for found, expected in zip(columns, mine, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(spread(True)(*inputs, other)) == 1


def test_what_does_not_fit_is_refused() -> None:
    inputs, _, other = case("float32")
    with pytest.raises(InvalidArgumentError, match="rows of shape"):
        spread(True)(inputs[0][:-1], *inputs[1:], other)
    with pytest.raises(InvalidArgumentError, match="sizes must agree"):
        spread(True)(*inputs, other[:-1])
    fewer, _, _ = case("float32", BATCH - 1)
    with pytest.raises(InvalidArgumentError, match="sizes must agree"):
        spread(True)(*inputs[:4], *fewer[4:], other)
