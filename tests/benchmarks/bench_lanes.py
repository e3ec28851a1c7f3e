"""Independent calls of a step side by side: python tests/benchmarks/bench_lanes.py [--threads N] [--backend tensorflow]

Steps whose calls each work in one thread: two towers of sorts, eight gathers with running sums, and a
chain that nothing can run beside. --threads: inter_op_parallelism_threads (0: as many as there are). Medians of ROUNDS
rounds in milliseconds; run 1, 0 and TensorFlow at the same time of day.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

ROUNDS, WARM, STEPS = 7, 40, 20


def towers(tf: Any, x: Any) -> Any:
    """Two chains of a sort and a running sum."""
    ends = [tf.cumsum(tf.nn.top_k(x * scale, SIZE // 4).values) for scale in (1.0, -1.0)]
    return tf.reduce_sum(ends[0] - ends[1])


def gathers(tf: Any, x: Any) -> Any:
    """Eight look-ups in tables of their own, summed."""
    rng = np.random.default_rng(0)
    parts = []
    for k in range(8):
        rows = tf.constant(rng.integers(0, SIZE, SIZE // 2).astype(np.int32))
        parts.append(tf.reduce_sum(tf.cumsum(tf.gather(x * (k + 1.0), rows))))
    return tf.add_n(parts)


def chain(tf: Any, x: Any) -> Any:
    for _ in range(4):
        x = tf.cumsum(tf.nn.top_k(x, SIZE // 4).values) * 1e-3
        x = tf.concat([x] * 4, 0)
    return tf.reduce_sum(x)


SIZE = 1 << 18
CASES: dict[str, Callable[[Any, Any], Any]] = {"two towers": towers, "eight gathers": gathers, "a chain": chain}


def milliseconds(tf: Any, make: Callable[[Any, Any], Any], threads: int) -> float:
    config = tf.ConfigProto(inter_op_parallelism_threads=threads)
    with tf.Graph().as_default(), tf.Session(config=config) as sess:
        x = tf.placeholder(tf.float32, [SIZE])
        call = sess.make_callable(make(tf, x), [x])
        fed = np.random.default_rng(1).normal(size=SIZE).astype(np.float32)
        for _ in range(WARM):
            call(fed)
        rounds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(STEPS):
                call(fed)
            rounds.append((time.perf_counter() - start) / STEPS * 1e3)
        return median(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--backend", default="sparkflow", choices=["sparkflow", "tensorflow"])
    args = parser.parse_args()
    if args.backend == "tensorflow":
        tf = import_module("tensorflow.compat.v1")
        tf.disable_eager_execution()
    else:
        tf = import_module("sparkflow")
    for name, make in CASES.items():
        print(f"{args.backend}, {args.threads or 'all'} threads, {name}: {milliseconds(tf, make, args.threads):.2f} ms")


if __name__ == "__main__":
    main()
