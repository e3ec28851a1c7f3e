"""Look-ups and sparse updates of many tables at once: microseconds of one thread's CPU time a step.

    python tests/benchmarks/bench_sparse.py [--cold] [TABLES ROWS WIDTH]   # without sizes: 26 100000 16 and 260 10000 8

512 ids a table, Zipf-distributed; the gradients are columns of one matrix, as those of a concat are. Prints one JSON
line a case, machine code beside the numpy versions. --cold: everything is out of the caches before each call.
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
from sparkflow_runtime.kernels.parallel import copied
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.kernels.table_memory import new_table
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes

BATCH, STEPS, DENSE = 512, 30, 13
LOOPS = [row_loops.gather_rows, row_loops.first_outside, row_loops.sum_by_id, update_loops.adagrad]


def bind(op: str, attrs: dict[str, Any]) -> Callable[..., Any]:
    return find(op, "CPU").factory(Node("n", op, attrs, "CPU", np, ResourceManager()))


def variable(value: np.ndarray) -> Variable:
    held = Variable("table", dtypes.float32, value.shape)
    held.value = copied(value, value.dtype, new_table)  # as an assignment does
    return held


_others = np.zeros(96 << 20, np.uint8)


def timed(cold: bool, call: Callable[..., Any], *args: Any) -> float:
    if cold:
        _others[:] += 1
    start = time.thread_time()
    call(*args)
    return 1e6 * (time.thread_time() - start)


def case(tables: int, rows: int, width: int, cold: bool) -> dict[str, float]:
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
        times["look_up_us"].append(timed(cold, look_up, *(v.value for v in held), *ids, dense))
        times["update_us"].append(timed(cold, update, *held, *slots, np.float32(0.05), *grads, *ids))
    return {name: round(median(samples)) for name, samples in times.items()}


def main() -> None:
    os.environ["SPARKFLOW_NUMBA"] = "0"  # nothing is compiled but below
    cold = "--cold" in sys.argv
    sizes = tuple(int(word) for word in sys.argv[1:] if word != "--cold")
    for compiled in (False, True):
        for loop in LOOPS:
            loop._call = loop.compile() if compiled else loop.numpy
        for tables, rows, width in [sizes] if sizes else [(26, 100_000, 16), (260, 10_000, 8)]:
            print(
                json.dumps({"tables": tables, "compiled": compiled, "cold": cold, **case(tables, rows, width, cold)}),
                flush=True,
            )


if __name__ == "__main__":
    main()
