"""What the graph passes are worth: steps per second with all of them, with none, and with each one left out.

    python tests/benchmarks/bench_passes.py [mlp] [ctr] [blocks] [chain] [--rounds 5] [--each]

The sessions take turns within a round, so that what else the machine does falls on all of them; medians are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.wire.protos import RewriterConfig

TOGGLES = [
    "dependency_optimization",
    "constant_folding",
    "arithmetic_optimization",
    "common_subgraph_elimination",
    "layout_optimizer",
    "remapping",
]
Case = tuple[Any, dict[Any, Any]]  # what to run, what to feed


def configs(each: bool) -> dict[str, Any]:
    def without(*off: str) -> Any:
        config = tf.ConfigProto()
        for name in off:
            setattr(config.graph_options.rewrite_options, name, RewriterConfig.OFF)
        return config

    found = {"all": tf.ConfigProto(), "none": without(*TOGGLES)}
    return {**found, **{f"no {name}": without(name) for name in TOGGLES}} if each else found


def dense(x: Any, units: int, name: str, activation: Any = None) -> Any:
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w", [int(x.shape[1]), units], initializer=tf.random_uniform_initializer(-0.05, 0.05, seed=1)
        )
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
    out = tf.matmul(x, w) + b
    return out if activation is None else activation(out)


def mlp() -> Case:
    """784-512-256-10, batch 128, Adam."""
    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
    hidden = dense(dense(x, 512, "a", tf.nn.relu), 256, "b", tf.nn.relu)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=dense(hidden, 10, "c")))
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    rng = np.random.default_rng(0)
    return [train, loss], {x: rng.normal(size=(128, 784)).astype(np.float32), y: rng.integers(0, 10, 128)}


def ctr(slots: int = 26, vocabulary: int = 10000, width: int = 16) -> Case:
    """Embeddings of every slot, 256-128-1, Adagrad, batch 512."""
    x, ids = tf.placeholder(tf.float32, [None, 13]), tf.placeholder(tf.int64, [None, slots])
    labels = tf.placeholder(tf.float32, [None])
    parts = [x]
    for i, column in enumerate(tf.unstack(ids, axis=1)):
        start = tf.random_uniform_initializer(-0.05, 0.05, seed=i)
        parts.append(tf.nn.embedding_lookup(tf.get_variable(f"t{i}", [vocabulary, width], initializer=start), column))
    hidden = dense(dense(tf.concat(parts, 1), 256, "a", tf.nn.relu), 128, "b", tf.nn.relu)
    logits = tf.reshape(dense(hidden, 1, "c"), [-1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.AdagradOptimizer(0.05, initial_accumulator_value=0.1).minimize(loss)
    rng = np.random.default_rng(0)
    return [train, loss], {
        x: rng.normal(size=(512, 13)).astype(np.float32),
        ids: np.minimum(rng.zipf(1.3, (512, slots)), vocabulary) - 1,
        labels: rng.integers(0, 2, 512).astype(np.float32),
    }


def ctr260() -> Case:
    return ctr(260, 10000, 8)


def blocks(count: int = 830, width: int = 8) -> Case:
    """h += 0.01 tanh(h w + b), and its gradients: 14,220 small ops."""
    x = tf.placeholder(tf.float32, [width])
    ws = [tf.Variable(np.full(width, 0.1 * i, np.float32)) for i in range(10)]
    bs = [tf.Variable(np.full(width, 0.1 * i, np.float32)) for i in range(10)]
    h = x
    for k in range(count):
        h = tf.add(h, tf.multiply(tf.tanh(tf.add(tf.multiply(h, ws[k % 10]), bs[k % 10])), 0.01))
    loss = tf.reduce_sum(h)
    return [loss, tf.gradients(loss, ws + bs)], {x: np.ones(width, np.float32)}


def chain(count: int = 1000) -> Case:
    """Dependent scalar adds, products and maxima."""
    x, y, z = (tf.placeholder(tf.float32, []) for _ in range(3))
    t = x
    for i in range(count):
        t = (tf.add(t, y), tf.multiply(t, z), tf.maximum(t, y))[i % 3]
    return t, {x: 1.0, y: 0.5, z: 0.75}


CASES: dict[str, Callable[[], Case]] = {"mlp": mlp, "ctr": ctr, "ctr260": ctr260, "blocks": blocks, "chain": chain}


def measure(case: str, rounds: int, each: bool) -> None:
    with tf.Graph().as_default():
        fetches, feed = CASES[case]()
        init = tf.global_variables_initializer()
        sessions = {name: tf.Session(config=config) for name, config in configs(each).items()}
        first: dict[str, float] = {}
        for name, session in sessions.items():
            session.run(init)
            started = time.perf_counter()
            session.run(fetches, feed)
            first[name] = time.perf_counter() - started
        fused_machine.wait(120)
        samples: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(rounds):
            for name, session in sessions.items():
                session.run(fetches, feed)
                count, started = 0, time.perf_counter()
                while time.perf_counter() - started < 0.3:
                    session.run(fetches, feed)
                    count += 1
                samples[name].append((time.perf_counter() - started) / count)
        base = median(samples["none"])
        for name, session in sessions.items():
            took = median(samples[name])
            print(f"{case:8}{name:36}{took * 1e3:9.3f} ms  x{base / took:5.2f}  first {first[name]:.3f} s")
            session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", action="store_true", help="also leave out each pass in turn")
    args = parser.parse_args()
    for case in args.cases:
        measure(case, args.rounds, args.each)


if __name__ == "__main__":
    main()
