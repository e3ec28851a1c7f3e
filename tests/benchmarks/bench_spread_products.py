"""The first layer above many embeddings on a worker: products by distinct rows, and by the matrix of all rows.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/bench_spread_products.py

One JSON line a shape: tables, numbers of a row, units of the layer, rows of a batch; how many of the ids are distinct;
us of the product and of both its gradients with what goes with them (spreading the rows over the matrix, summing the
gradients of each row) either way, medians, by turns, in one thread. ids are Zipf's, as in the CTR model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import spread_products
from sparkflow_runtime.kernels.compiled import make_ready
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager

SHAPES = [  # tables, rows of each, numbers of a row, units, rows of a batch
    (26, 100_000, 16, 256, 512),
    (260, 10_000, 8, 256, 512),
    (26, 100_000, 16, 256, 128),
    (26, 100_000, 16, 256, 4096),
    (26, 100_000, 64, 256, 512),
    (26, 100_000, 16, 1024, 512),
    (8, 1_000_000, 32, 128, 512),
]
DENSE, TURNS = 13, 15


def bind(op: str, **attrs: Any) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def zipf(rng: np.random.Generator, rows: int, shape: tuple[int, int]) -> np.ndarray:
    mass = 1 / np.arange(1, rows + 1) ** 1.1
    return np.searchsorted(mass.cumsum() / mass.sum(), rng.random(shape)).clip(0, rows - 1)


def layer(tables: int, rows: int, width: int, units: int, batch: int) -> tuple[float, Callable[[], Any]]:
    """(share of distinct ids, a step)."""
    rng = np.random.default_rng(0)
    ids = zipf(rng, rows, (batch, tables))
    distinct, counts, places, sizes, *_ = bind("_DistinctIds", N=tables)(*ids.T)
    flat = rng.standard_normal(int(counts.sum()) * width).astype(np.float32)
    dense, dz = (rng.standard_normal((batch, n)).astype(np.float32) for n in (DENSE, units))
    w = rng.standard_normal((DENSE + tables * width, units)).astype(np.float32)
    every = list(range(tables))
    about: dict[str, Any] = {"N": tables, "order": [tables, *every], "tables": [tables], "of": every}
    about |= {"widths": [width] * tables, "members": every, "alone": True}
    sums = {"sum_sources": [0], "sum_tables": [tables], "sum_of": every, "sum_widths": [width] * tables}
    sums["sum_columns"] = [DENSE + width * t for t in every]
    product = bind("_SpreadMatMul", product="MatMul", **about)
    gradient = bind("_SpreadMatMulGrad", **about, **sums)
    given = [flat, counts, places, sizes, dense]

    def step() -> None:
        _, matrix = product(*given, w)
        gradient(*given, matrix, dz, w)

    return distinct.size / ids.size, step


def medians_us(ways: Sequence[Callable[[], Any]]) -> list[float]:
    taken = np.empty((TURNS + 1, len(ways)))
    for turn in taken:
        for i, way in enumerate(ways):
            begun = time.perf_counter()
            way()
            turn[i] = time.perf_counter() - begun
    return (np.median(taken[1:], 0) * 1e6).round().tolist()


def main() -> None:
    make_ready(spread_products.products)
    spread_products.crew_for = lambda work: None  # type: ignore[assignment]
    worth = spread_products._WORTH
    for shape in SHAPES:
        share, step = layer(*shape)

        def by_matrix(step: Callable[[], Any] = step) -> None:
            spread_products._WORTH = float("inf")
            step()
            spread_products._WORTH = worth

        rows, matrix = medians_us([step, by_matrix])
        named = dict(zip(("tables", "rows", "width", "units", "batch"), shape))
        print(json.dumps({**named, "distinct": round(share, 2), "by_rows_us": rows, "by_matrix_us": matrix}))


if __name__ == "__main__":
    main()
