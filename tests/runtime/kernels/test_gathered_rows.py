"""Sparse gradients of a ring's workers: laid out, and told apart or added up again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table_seldom  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError

ROWS = [(4,), (2, 3), ()]  # shapes of one row of each table
COUNTS = [[12, 0, 7], [5, 9, 1], [1, 3, 30]]  # rows that each worker gives each table
SHAPES = [Shape(shape) for shape in ROWS]


def bind(op: str, **attrs: Any) -> Any:
    return find(op, "CPU").factory(Node("n", op, {"N": 3, "row_shapes": SHAPES, **attrs}, "CPU", np, ResourceManager()))


def gradients(worker: int, dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(worker)
    ids = [rng.integers(0, 6, n) for n in COUNTS[worker]]
    wide = [rng.standard_normal((len(i), *shape, 2)).astype(dtype) for i, shape in zip(ids, ROWS)]
    return ids, [w[..., 0] if k else np.ascontiguousarray(w[..., 0]) for k, w in enumerate(wide)]


def gathered(distinct: bool, dtype: str, workers: list[int]) -> Any:
    lay_out = bind("_RowsToGather", distinct=distinct)
    given = [lay_out(*ids, *rows) for ids, rows in (gradients(w, dtype) for w in workers)]
    head, flat = (np.concatenate(parts) for parts in zip(*given))
    return bind("_GatheredRows", distinct=distinct, share=0.5)(head, flat)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_row_once(dtype: str) -> None:
    rows, ids, counts = gathered(True, dtype, [0, 1, 2])
    assert rows.dtype == dtype
    begin = first = 0
    for table, shape in enumerate(ROWS):
        width, count = int(np.prod(shape)), counts[table]
        mine, values = ids[first : first + count], rows[begin : begin + count * width].reshape(count, *shape)
        first, begin = first + count, begin + count * width
        expected: dict[int, np.ndarray] = {}
        for worker in range(3):
            of_worker: dict[int, np.ndarray] = {}
            all_ids, all_rows = gradients(worker, dtype)
            for i, row in zip(all_ids[table].tolist(), all_rows[table]):
                of_worker[i] = of_worker[i] + row if i in of_worker else row
            for i, total in of_worker.items():  # in the workers' order
                expected[i] = expected[i] + total if i in expected else total
        assert mine.tolist() == list(expected)
        assert values.tobytes() == b"".join((v * values.dtype.type(0.5)).tobytes() for v in expected.values())
    assert (first, begin) == (len(ids), len(rows))


def test_all_rows_in_the_order_of_the_workers() -> None:
    rows, ids, counts = gathered(False, "float32", [0, 1, 2])
    every = [gradients(w, "float32") for w in range(3)]
    assert counts.tolist() == np.sum(COUNTS, 0).tolist()
    assert ids.tolist() == [i for table in range(3) for mine, _ in every for i in mine[table].tolist()]
    expected = np.concatenate([values[table].ravel() for table in range(3) for _, values in every])
    assert rows.tobytes() == (expected * np.float32(0.5)).tobytes()


@pytest.mark.parametrize("distinct", [True, False])
def test_of_nobody(distinct: bool) -> None:
    run = bind("_GatheredRows", distinct=distinct, share=0.5)
    rows, ids, counts = run(np.zeros(0, np.int64), np.zeros(0, np.float32))
    assert (len(rows), len(ids), counts.tolist()) == (0, 0, [0, 0, 0])


@pytest.mark.parametrize(
    ("head", "items"),
    [([1, 0, 0, 7], 3), ([1, 0, 0], 4), ([-1, 1, 0], 0), ([1, 0, 0, 7, 5], 4), ([2**62, 0, 0, 7], 4)],
)
@pytest.mark.parametrize("distinct", [True, False])
def test_what_is_not_of_each_other(distinct: bool, head: list[int], items: int) -> None:
    run = bind("_GatheredRows", distinct=distinct, share=0.5)
    with pytest.raises(InvalidArgumentError, match="are not rows of 3 tables"):
        run(np.array(head, np.int64), np.zeros(items, np.float32))


def test_gradients_of_another_shape() -> None:
    ids, rows = gradients(0, "float32")
    with pytest.raises(InvalidArgumentError, match=r"gradient 1 has .* values of shape \(1, 2, 3\), expected"):
        bind("_RowsToGather", distinct=True)(*ids, rows[0], np.zeros((1, 2, 3), "f4"), rows[2])
