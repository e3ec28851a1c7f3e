"""Drawing at random, ns of processor time a value, the median of rounds; a step of dropout with its gradient, us:

    python tests/benchmarks/bench_random.py [--backend tensorflow]

Tables are [100000, 16], drawn in one thread, their memory new each time; dropout, of a variable of these shapes, takes
as many threads as there are. With a seed both libraries draw the same values (tests/oracle/test_random.py).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

SIZE, ROUNDS = [100_000, 16], 15
DROPPED = ([64, 128], [512, 256], [512, 1024], [2048, 1024])

TABLES: dict[str, Callable[[Any], Any]] = {
    "uniform in [0, 1)": lambda tf: tf.random_uniform(SIZE, seed=1),
    "uniform": lambda tf: tf.random_uniform(SIZE, -0.05, 0.05, seed=1),
    "normal": lambda tf: tf.random_normal(SIZE, seed=1),
    "truncated normal": lambda tf: tf.truncated_normal(SIZE, seed=1),
    "int32": lambda tf: tf.random_uniform(SIZE, 0, 100, tf.int32, seed=1),
    "int64": lambda tf: tf.random_uniform(SIZE, 0, 100, tf.int64, seed=1),
    "float64": lambda tf: tf.random_uniform(SIZE, dtype=tf.float64, seed=1),
    "float16": lambda tf: tf.random_uniform(SIZE, dtype=tf.float16, seed=1),
    "gamma": lambda tf: tf.random_gamma(SIZE, 2.0, seed=1),
    "stateless uniform": lambda tf: tf.random.stateless_uniform(SIZE, [1, 2]),
}


def measured(session: Any, fetch: Any) -> tuple[float, float]:
    """(seconds by the clock, of processor time), the medians."""
    walls, cpus = [], []
    for _ in range(ROUNDS + 2):
        wall, cpu = time.perf_counter(), time.process_time()
        session.run(fetch)
        walls.append(time.perf_counter() - wall), cpus.append(time.process_time() - cpu)
    return sorted(walls[2:])[ROUNDS // 2], sorted(cpus[2:])[ROUNDS // 2]


def table(tf: Any, draw: Callable[[Any], Any]) -> float:
    one = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Graph().as_default(), tf.Session(config=one) as session:
        return measured(session, draw(tf).op)[1] / (SIZE[0] * SIZE[1]) * 1e9


def dropout(tf: Any, shape: list[int]) -> tuple[float, float]:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", shape)
        y = tf.nn.dropout(x, rate=0.3)
        session.run(tf.global_variables_initializer())
        wall, cpu = measured(session, tf.gradients(tf.reduce_sum(y * y), x)[0].op)
        return wall * 1e6, cpu * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--backend", default="sparkflow", choices=["sparkflow", "tensorflow"])
    backend = options.parse_args().backend
    tf = import_module("sparkflow" if backend == "sparkflow" else "tensorflow.compat.v1")
    if backend == "tensorflow":
        tf.disable_v2_behavior()
    for name, draw in TABLES.items():
        print(json.dumps({"backend": backend, "draw": name, "cpu_ns": round(table(tf, draw), 1)}), flush=True)
    for shape in DROPPED:
        wall, cpu = dropout(tf, shape)
        row = {"backend": backend, "dropout": shape, "clock_us": round(wall), "cpu_us": round(cpu)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
