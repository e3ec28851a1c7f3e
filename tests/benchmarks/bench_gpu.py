"""Graphs on a GPU against what it can do: products against cuBLAS alone, chains against its memory, small steps.

    python tests/benchmarks/bench_gpu.py

One JSON line each, medians. `products`: a training step of wide dense layers, and its matrix products alone by cupy,
by turns. `chain`: GB/s of an elementwise chain over arrays that no cache holds, and of a copy between such arrays.
`small`: a training step of small layers, where it is the calls that take time, on the GPU and on the CPU. `fed`: a
batch that comes from the host's memory, and that copy alone.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import cupy
import numpy as np

import sparkflow as tf

TURNS = 7


def seconds(run: Callable[[], Any], times: int) -> float:
    """Of one of so many runs, until the GPU has done them."""
    cupy.cuda.runtime.deviceSynchronize()
    begun = time.perf_counter()
    for _ in range(times):
        run()
    cupy.cuda.runtime.deviceSynchronize()
    return (time.perf_counter() - begun) / times


def by_turns(*runs: Callable[[], Any], times: int = 10) -> list[float]:
    for run in runs:
        seconds(run, 3)
    taken = [[seconds(run, times) for run in runs] for _ in range(TURNS)]
    return [statistics.median(of_one) for of_one in zip(*taken)]


def say(case: str, **figures: Any) -> None:
    print(json.dumps({"case": case} | {k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}))


def step(device: str, batch: int, widths: list[int], optimizer: Any) -> Callable[[], Any]:
    with tf.Graph().as_default() as graph, tf.device(device):
        x = tf.Variable(tf.random_normal([batch, widths[0]], seed=1), trainable=False)
        h = x
        for i, (before, width) in enumerate(pairwise(widths)):
            w = tf.get_variable(f"w{i}", [before, width])
            h = tf.matmul(h, w) + tf.get_variable(f"b{i}", [width], initializer=tf.zeros_initializer())
            h = tf.nn.relu(h) if i + 2 < len(widths) else h
        loss = tf.reduce_mean(tf.square(h))
        train = optimizer.minimize(loss)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        return session.make_callable(train)


def products(batch: int, widths: list[int]) -> Callable[[], Any]:
    """Those of a step: the gradient of the input is not wanted."""
    layers = [cupy.random.standard_normal((a, b), dtype=np.float32) for a, b in pairwise(widths)]
    hs = [cupy.random.standard_normal((batch, width), dtype=np.float32) for width in widths]

    def run() -> None:
        for i, w in enumerate(layers):
            hs[i] @ w
            hs[i].T @ hs[i + 1]
            if i:
                hs[i + 1] @ w.T

    return run


def chain(size: int) -> Callable[[], Any]:
    """Two arrays in, one out."""
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
        x, y = (tf.Variable(tf.random_uniform([size], seed=i), trainable=False) for i in range(2))
        made = tf.tanh(x * 0.5 + y) * tf.sigmoid(x) + tf.maximum(x, y) - tf.square(y)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        return session.make_callable(made.op)


def update(size: int) -> Callable[[], Any]:
    """Adam's: var, two slots and a gradient in, the first three out."""
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
        x, grad = (tf.Variable(tf.random_uniform([size], seed=i), trainable=False) for i in range(2))
        made = tf.train.AdamOptimizer(0.01).apply_gradients([(grad, x)])
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        return session.make_callable(made)


def fed(batch: int, width: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    values = np.random.default_rng(0).standard_normal((batch, width), dtype=np.float32)
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [None, width])
        total = tf.reduce_sum(tf.nn.relu(x))
        run = tf.Session(graph=graph).make_callable(total.op, [x])
    return lambda: run(values), lambda: cupy.asarray(values)


def main() -> None:
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    say("device", name=name)
    for batch, widths in ((4096, [4096] * 4), (8192, [4096] * 3), (16384, [1024] * 5)):
        ours, alone = by_turns(
            step("/gpu:0", batch, widths, tf.train.GradientDescentOptimizer(0.01)), products(batch, widths)
        )
        say("products", batch=batch, widths=widths, ms=1e3 * ours, cublas_ms=1e3 * alone, times=ours / alone)
    size = 1 << 27
    a, b = cupy.ones(size, np.float32), cupy.empty(size, np.float32)
    chained, updated, copied = by_turns(chain(size), update(size), lambda: cupy.copyto(b, a))
    rates = [4e-9 * size * passes / s for passes, s in ((3, chained), (7, updated), (2, copied))]
    say("chain", size=size, gb_s=rates[0], copy_gb_s=rates[2], share=rates[0] / rates[2])
    say("adam", size=size, gb_s=rates[1], copy_gb_s=rates[2], share=rates[1] / rates[2])
    for batch, widths in ((256, [64, 128, 64, 10]), (32, [64, 128, 64, 10])):
        steps = (step(device, batch, widths, tf.train.AdamOptimizer(0.01)) for device in ("/gpu:0", "/cpu:0"))
        gpu, cpu = by_turns(*steps, times=50)
        say("small", batch=batch, widths=widths, gpu_us=1e6 * gpu, cpu_us=1e6 * cpu)
    ours, copied = by_turns(*fed(16384, 1024))
    say("fed", mib=64, ms=1e3 * ours, copy_ms=1e3 * copied)


if __name__ == "__main__":
    main()
