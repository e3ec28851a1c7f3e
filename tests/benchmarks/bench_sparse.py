"""Look-ups and sparse updates of many tables at once: microseconds of one thread's CPU time a step.

    python tests/benchmarks/bench_sparse.py [TABLES ROWS WIDTH]      # 26 100000 16 and 260 10000 8 without arguments

512 ids a table, Zipf-distributed; the gradients are columns of one matrix, as those of a concat are. Prints one JSON
line a case, machine code beside the numpy versions.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import row_loops, update_loops
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes

BATCH, STEPS, DENSE = 512, 30, 13
LOOPS = [row_loops.gather_rows, row_loops.put_rows, row_loops.first_outside, row_loops.sum_by_id, update_loops.adagrad]


def bind(op: str, attrs: dict[str, Any]) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def variable(value: np.ndarray) -> Variable:
    held = Variable("table", dtypes.float32, value.shape)
    held.value = value
    return held


def timed(call: Callable[..., Any], *args: Any) -> float:
    start = time.thread_time()
    call(*args)
    return 1e6 * (time.thread_time() - start)


def case(tables: int, rows: int, width: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    held = [variable(rng.random((rows, width), np.float32)) for _ in range(tables)]
    slots = [variable(np.full((rows, width), 0.1, np.float32)) for _ in range(tables)]
    order = [tables, *range(tables)]
    look_up = bind("_FusedGatherConcat", {"N": tables, "order": order})
    update = bind("_FusedSparseApply", {"N": tables, "op": "SparseApplyAdagrad", "rows": "summed"})
    dense, gradient = np.zeros((BATCH, DENSE), np.float32), rng.random((BATCH, DENSE + tables * width), np.float32)
    grads = np.split(gradient[:, DENSE:], tables, 1)
    times: dict[str, list[float]] = {"look_up_us": [], "update_us": []}
    for _ in range(STEPS):
        ids = list((rng.zipf(1.1, (tables, BATCH)) * 7919 % rows).astype(np.int64))
        times["look_up_us"].append(timed(look_up, *(v.value for v in held), *ids, dense))
        times["update_us"].append(timed(update, *held, *slots, np.float32(0.05), *grads, *ids))
    return {name: round(median(samples)) for name, samples in times.items()}


def main() -> None:
    os.environ["SPARKFLOW_NUMBA"] = "0"  # nothing is compiled but below
    sizes = tuple(map(int, sys.argv[1:]))
    for compiled in (False, True):
        for loop in LOOPS:
            loop._call = loop.compile() if compiled else loop.numpy
        for tables, rows, width in [sizes] if sizes else [(26, 100_000, 16), (260, 10_000, 8)]:
            print(json.dumps({"tables": tables, "compiled": compiled, **case(tables, rows, width)}), flush=True)


if __name__ == "__main__":
    main()
