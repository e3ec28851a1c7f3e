"""What the options for memory are worth: the planned and the measured peak of a training step, its time and its bits.

    python tests/benchmarks/bench_memory.py [mlp] [norm] [conv] [vgg19] [--rounds 3]

planned: by `sparkflow.experimental.explain`. traced: the most that a step's own tensors took in a traced step.
tracemalloc: the most that numpy had allocated in a step, scratch memory of kernels included. Page faults and seconds of
processor time are of a step, the least of the rounds; the sessions take turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow import experimental
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.memory import LIMIT
from sparkflow_runtime.wire.protos import RewriterConfig
from sparkflow_runtime.worker import codegen

MIB = 1 << 20
OPTIONS = ["NO_MEM_OPT", "SCHEDULING_HEURISTICS", "RECOMPUTATION_HEURISTICS", "SWAPPING_HEURISTICS", "HEURISTICS"]
VGG19 = [64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0]
Case = tuple[Any, dict[Any, Any]]


def weights(shape: list[int]) -> tuple[Any, Any]:
    scale = float(np.sqrt(2.0 / np.prod(shape[:-1])))
    w = tf.get_variable("w", shape, initializer=tf.random_uniform_initializer(-scale, scale, seed=1))
    return w, tf.get_variable("b", shape[-1:], initializer=tf.zeros_initializer())


def trained(logits: Any, y: Any) -> list[Any]:
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return [tf.train.GradientDescentOptimizer(1e-3).minimize(loss), loss]


def dense(h: Any, units: int, name: str) -> Any:
    with tf.variable_scope(name):
        w, b = weights([int(h.shape[1]), units])
    return tf.matmul(h, w) + b


def mlp(normed: bool = False, batch: int = 2048, layers: int = 12) -> Case:
    """Layers of 256 units; normed: each divided by its own deviation before it is activated."""
    x, y = tf.placeholder(tf.float32, [batch, 256]), tf.placeholder(tf.int64, [batch])
    h = x
    for i in range(layers):
        h = dense(h, 256, f"l{i}")
        if normed:
            h = (h - tf.reduce_mean(h, 0)) * tf.rsqrt(tf.reduce_mean(tf.square(h), 0) + 1e-3)
        h = tf.tanh(h)
    rng = np.random.default_rng(0)
    return trained(dense(h, 10, "out"), y), {
        x: rng.normal(size=(batch, 256)).astype(np.float32),
        y: rng.integers(0, 10, batch),
    }


def conv(plan: list[int], fc: list[int], size: int, batch: int, classes: int) -> Case:
    x, y = tf.placeholder(tf.float32, [batch, size, size, 3]), tf.placeholder(tf.int64, [batch])
    h = x
    for i, channels in enumerate(plan):
        if channels:
            with tf.variable_scope(f"l{i}"):
                w, b = weights([3, 3, int(h.shape[3]), channels])
            h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, [1, 1, 1, 1], "SAME"), b))
        else:
            h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.reshape(h, [batch, -1])
    for i, units in enumerate(fc):
        h = tf.nn.relu(dense(h, units, f"f{i}"))
    rng = np.random.default_rng(0)
    return trained(dense(h, classes, "out"), y), {
        x: rng.normal(size=(batch, size, size, 3)).astype(np.float32),
        y: rng.integers(0, classes, batch),
    }


CASES: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "norm": lambda: mlp(True),
    "conv": lambda: conv([64, 64, 0, 128, 128, 0], [256], 32, 32, 10),
    "vgg19": lambda: conv(VGG19, [4096, 4096], 224, 4, 1000),
}


def config(option: str) -> Any:
    found = tf.ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = RewriterConfig.MemOptType.Value(option)
    return found


class Run:
    """A session with one option, and what its steps take. limit_bytes: what it may plan for; 0 is all there is."""

    def __init__(self, name: str, option: str, fetches: Any, feed: Any, init: Any, limit_bytes: int, reuse: bool):
        self.name, self.fetches, self.feed = name, fetches, feed
        held, codegen.reusing = codegen.reusing, codegen.reusing if reuse else lambda function, positions: function
        os.environ[LIMIT] = str(limit_bytes or 1 << 60)
        self.session = tf.Session(config=config(option))
        self.planned = experimental.explain(fetches, list(feed), config=config(option)).memory[0].num_bytes
        self.session.run(init)
        self.session.run(fetches, feed)
        self.traced = self._traced()
        codegen.reusing = held
        self.allocated = self._allocated()
        self.samples: list[tuple[float, int]] = []

    def _traced(self) -> int:
        metadata = tf.RunMetadata()
        self.session.run(self.fetches, self.feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        spans = [n for d in metadata.step_stats.dev_stats for n in d.node_stats]
        return max(n.memory[0].allocator_bytes_in_use for n in spans)

    def _allocated(self) -> int:
        tracemalloc.start()
        self.session.run(self.fetches, self.feed)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    def sample(self, steps: int) -> None:
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        for _ in range(steps):
            self.session.run(self.fetches, self.feed)
        after, took_s = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - started
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        self.samples.append((cpu_s / steps, (after.ru_minflt - before.ru_minflt) // steps, took_s / steps))  # type: ignore[arg-type]

    def line(self) -> str:
        cpu_s, faults, took_s = (min(s[i] for s in self.samples) for i in range(3))  # type: ignore[misc]
        return (
            f"{self.name:36}{self.planned / MIB:9.1f}{self.traced / MIB:9.1f}{self.allocated / MIB:12.1f}"
            f"{cpu_s * 1e3:9.1f}{took_s * 1e3:9.1f}{faults:9d}"
        )


def measure(case: str, rounds: int) -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        fetches, feed = CASES[case]()
        init = tf.global_variables_initializer()
        plain = experimental.explain(fetches, list(feed), config=config("NO_MEM_OPT")).memory[0]
        limit = sum(plain.outside.values()) + int(0.6 * plain.num_bytes)
        runs = [Run("without reuse", "NO_MEM_OPT", fetches, feed, init, 0, False)]
        for option in OPTIONS:
            swaps = limit if option == "SWAPPING_HEURISTICS" else 0
            runs.append(Run(option, option, fetches, feed, init, swaps, True))
        losses = []
        for run in runs:
            run.session.run(init)
            losses.append([run.session.run(fetches, feed)[1].tobytes() for _ in range(2)])
        for _ in range(rounds):
            for run in runs:
                run.sample(2)
        print(f"{case:36}  planned   traced tracemalloc   cpu ms       ms   faults")
        for run, bits in zip(runs, losses):
            print(run.line(), "" if bits == losses[0] else "OTHER BITS")
            run.session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    fused_machine.wait(60)
    for case in args.cases:
        measure(case, args.rounds)


if __name__ == "__main__":
    main()
