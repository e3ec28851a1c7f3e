"""Feature columns and the string ops that feed them, ms a step by processor time and by the clock, medians of rounds:

    python tests/benchmarks/bench_columns.py [--backend tensorflow] [--only NAME,NAME] [--rounds N]
    python tests/benchmarks/bench_columns.py --beside PYTHON   # in turn with TensorFlow in that interpreter: shares

`wide_deep_N`: batches of N rows of 8 columns of strings and 5 of numbers; hashed columns, a bucketized one and ten
crosses in a linear model with FTRL, embeddings of 8 and two layers with Adagrad.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from side_by_side import compare

RNG = np.random.default_rng(0)
Run = tuple[Any, dict[Any, Any]]  # what is fetched, and the feeds


def words(count: int, kinds: int, prefix: str = "item_") -> np.ndarray:
    return np.array([f"{prefix}{k}".encode() for k in RNG.integers(0, kinds, count)], object)


def wide_deep(tf: Any, batch: int) -> Run:
    fc, features, feeds = tf.feature_column, {}, {}
    names, numbers = [f"c{i}" for i in range(8)], [f"n{i}" for i in range(5)]
    for name in names:
        features[name] = tf.placeholder(tf.string, [None])
        feeds[features[name]] = words(batch, 1000)
    for name in numbers:
        features[name] = tf.placeholder(tf.float32, [None])
        feeds[features[name]] = RNG.random(batch, np.float32) * 100
    label = tf.placeholder(tf.float32, [None])
    feeds[label] = RNG.integers(0, 2, batch).astype(np.float32)
    hashed = [fc.categorical_column_with_hash_bucket(name, 1000) for name in names]
    bucket = fc.bucketized_column(fc.numeric_column("n0"), [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    pairs = [(names[i], names[j]) for i in range(8) for j in range(i)][:10]
    crosses = [fc.crossed_column([*p, bucket] if k % 3 == 0 else [*p], 10_000) for k, p in enumerate(pairs)]
    with tf.variable_scope("wide"):
        logits = fc.linear_model(features, [*hashed, bucket, *crosses])[:, 0]
    with tf.variable_scope("deep"):
        columns = [fc.numeric_column(name) for name in numbers] + [fc.embedding_column(c, 8) for c in hashed]
        hidden = fc.input_layer(features, columns)
        for size in (100, 50, 1):
            shape = [int(hidden.shape[-1]), size]
            weights = tf.get_variable(f"w{size}", shape, initializer=tf.random_normal_initializer(stddev=0.1))
            hidden = tf.matmul(hidden if size == 100 else tf.nn.relu(hidden), weights)
    logits += hidden[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=label))
    wide = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01)
    deep = tf.train.AdagradOptimizer(0.05)
    steps = [o.minimize(loss, var_list=tf.trainable_variables(s)) for o, s in ((wide, "wide"), (deep, "deep"))]
    return [*steps, loss], feeds


def of_strings(texts: np.ndarray, op: Callable[[Any, Any], Any]) -> Callable[[Any], Run]:
    def build(tf: Any) -> Run:
        fed = tf.placeholder(tf.string, texts.shape)
        return op(tf, fed), {fed: texts}

    return build


LISTS = np.array([",".join(f"{x:.3f}" for x in RNG.random(6)).encode() for _ in range(4096)], object)
CASES: dict[str, Callable[[Any], Run]] = {
    **{f"wide_deep_{n}": lambda tf, n=n: wide_deep(tf, n) for n in (32, 128, 512, 4096)},
    "hash_fast": of_strings(words(4096, 100_000), lambda tf, x: tf.string_to_hash_bucket_fast(x, 1000)),
    "hash": of_strings(words(4096, 100_000), lambda tf, x: tf.string_to_hash_bucket(x, 1000)),
    "split": of_strings(LISTS, lambda tf, x: tf.string_split(x, ",").values),
    "numbers": of_strings(LISTS, lambda tf, x: tf.string_to_number(tf.string_split(x, ",").values)),
    "unique": of_strings(words(4096, 2000), lambda tf, x: tf.unique(x)),
    "entries": of_strings(words(4096, 2)[:, None], lambda tf, x: tf.where(tf.not_equal(x, "item_0"))),
}


def measured(tf: Any, name: str, rounds: int) -> dict[str, Any]:
    tf.reset_default_graph()
    tf.set_random_seed(1)
    fetched, feeds = CASES[name](tf)
    cpu, clock = [], []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        begun = time.perf_counter()
        while time.perf_counter() - begun < 1:
            session.run(fetched, feeds)
        for _ in range(rounds):
            at, used, count = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - at < 0.3:
                session.run(fetched, feeds)
                count += 1
            clock.append((time.perf_counter() - at) / count * 1e3)
            cpu.append((time.process_time() - used) / count * 1e3)
    return {"name": name, "cpu_ms": round(statistics.median(cpu), 3), "clock_ms": round(statistics.median(clock), 3)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", choices=("sparkflow", "tensorflow"), default="sparkflow")
    p.add_argument("--beside", metavar="PYTHON")
    p.add_argument("--only", default="")
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    names = args.only.split(",") if args.only else list(CASES)
    if args.beside:
        compare(__file__, args.beside, names, "ms", "--rounds", str(args.rounds))
        return
    tf: Any = import_module("sparkflow" if args.backend == "sparkflow" else "tensorflow.compat.v1")
    if args.backend == "tensorflow":
        tf.disable_v2_behavior()
    for name in names:
        print(json.dumps(measured(tf, name, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
