"""What a run costs beside its kernels: python tests/benchmarks/bench_session.py [--backend tensorflow]

The fixed cost of small runs, the cost of a scalar op in a chain and in a loop, and steps of an MLP with and without
freed memory kept in the process. Medians of ROUNDS rounds; run both backends at the same time of day.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

ROUNDS = 9
SIZES, BATCH = (784, 512, 256, 10), 128


def seconds(call: Callable[[], Any], calls: int) -> float:
    """Of one call: the median of rounds of `calls`."""
    call()
    rounds = []
    for _ in range(ROUNDS):
        begun_s = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - begun_s) / calls)
    return median(rounds)


def fixed(tf: Any) -> Iterator[tuple[str, float, str]]:
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    total, constant, nothing = a + b, tf.constant(3.5), tf.no_op()
    with tf.Session() as session:
        feed, call = {a: 2.0, b: 5.0}, session.make_callable(total, [a, b])
        yield "run of a no_op", 1e6 * seconds(lambda: session.run(nothing), 500), "us"
        yield "fetch of a constant", 1e6 * seconds(lambda: session.run(constant), 500), "us"
        yield "run of a fed add", 1e6 * seconds(lambda: session.run(total, feed), 500), "us"
        yield "make_callable's add", 1e6 * seconds(lambda: call(2.0, 5.0), 500), "us"


def scalars(tf: Any) -> Iterator[tuple[str, float, str]]:
    x = chain = tf.placeholder(tf.float32, [])
    for i in range(1000):
        chain = (tf.add, tf.multiply, tf.maximum)[i % 3](chain, tf.constant(0.5 + i % 2))
    _, looped = tf.while_loop(lambda i, s: i < 10_000, lambda i, s: (i + 1, s + x), [tf.constant(0), tf.constant(0.0)])
    with tf.Session() as session:
        yield "op of a chain", 1e9 * seconds(lambda: session.run(chain, {x: 0.5}), 20) / 1000, "ns"
        yield "iteration of a loop", 1e9 * seconds(lambda: session.run(looped, {x: 0.5}), 1) / 10_000, "ns"


def mlp(tf: Any) -> Iterator[tuple[str, float, str]]:
    rng = np.random.RandomState(0)
    x, y = tf.placeholder(tf.float32, [None, SIZES[0]]), tf.placeholder(tf.int64, [None])
    h: Any = x
    for m, n in pairwise(SIZES):
        weights = tf.Variable(rng.randn(m, n).astype(np.float32) * (2.0 / m) ** 0.5)
        h = tf.matmul(h, weights) + tf.Variable(np.zeros(n, np.float32))
        h = tf.nn.relu(h) if n != SIZES[-1] else h
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    feed = {x: rng.randn(BATCH, SIZES[0]).astype(np.float32), y: rng.randint(0, 10, BATCH)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(100):  # numba compiles meanwhile
            session.run([train, loss], feed)
        yield "MLP with Adam", 1 / seconds(lambda: session.run([train, loss], feed), 40), "steps/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["sparkflow", "tensorflow"], default="sparkflow")
    parser.add_argument("--only", choices=["fixed", "scalars", "mlp"])
    arguments = parser.parse_args()
    tf: Any = import_module("sparkflow" if arguments.backend == "sparkflow" else "tensorflow.compat.v1")
    if arguments.backend == "tensorflow":
        tf.disable_v2_behavior()
    for part in (fixed, scalars, mlp):
        if arguments.only in (None, part.__name__):
            with tf.Graph().as_default():
                for name, value, unit in part(tf):
                    print(f"{name:24} {value:10.4g} {unit}", flush=True)
    if arguments.only is None and arguments.backend == "sparkflow":
        print("and with freed memory given back to the system (SPARKFLOW_KEEP_MEMORY=0):", flush=True)
        given_back = {**os.environ, "SPARKFLOW_KEEP_MEMORY": "0"}
        subprocess.run([sys.executable, __file__, "--only", "mlp"], env=given_back, check=True)


if __name__ == "__main__":
    main()
