"""What building a graph of 5,000 ops and its gradients costs: python tests/benchmarks/bench_build.py [--backend
tensorflow]

CPU seconds of the process, the least of ROUNDS: building waits for nothing. Run both backends one after the other.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from typing import Any

import numpy as np

ROUNDS, BLOCKS, VARIABLES, WIDTH = 5, 830, 10, 8


def chain(tf: Any) -> tuple[list[Any], Any]:
    """Six ops a block, each with a weight and a bias that other blocks have too."""
    weights = [tf.Variable(np.ones(WIDTH, np.float32), name=f"w{i}") for i in range(VARIABLES)]
    biases = [tf.Variable(np.zeros(WIDTH, np.float32), name=f"b{i}") for i in range(VARIABLES)]
    h = tf.placeholder(tf.float32, [WIDTH])
    for k in range(BLOCKS):
        t = tf.tanh(tf.add(tf.multiply(h, weights[k % VARIABLES]), biases[k % VARIABLES]))
        h = tf.add(h, tf.multiply(t, 0.01))
    return weights + biases, tf.reduce_sum(h)


def images(tf: Any) -> tuple[list[Any], Any]:
    """Convolutions, slices, concatenations: ops with longer shape rules."""
    filters = [tf.Variable(np.ones((3, 3, 4, 4), np.float32)) for _ in range(5)]
    bias = tf.Variable(np.zeros(4, np.float32))
    h = tf.placeholder(tf.float32, [None, 8, 8, 4])
    for k in range(BLOCKS * 3 // 10):
        h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, filters[k % 5], [1, 1, 1, 1], "SAME"), bias))
        h = tf.reshape(tf.concat([h[..., :2], h[..., 2:]], -1), [-1, 8, 8, 4])
    return [*filters, bias], tf.reduce_mean(h)


def measure(tf: Any, build: Any) -> str:
    best = [float("inf"), float("inf")]
    sizes = [0, 0]
    for _ in range(ROUNDS):
        with tf.Graph().as_default() as graph:
            start = time.process_time()
            variables, loss = build(tf)
            built = time.process_time()
            sizes[0] = len(graph.get_operations())
            begun = time.process_time()
            tf.gradients(loss, variables)
            best = [min(best[0], built - start), min(best[1], time.process_time() - begun)]
            sizes[1] = len(graph.get_operations())
    return f"{sizes[0]} ops built in {best[0]:.3f} s, with gradients {sizes[1]} in {best[1]:.3f} s more"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["sparkflow", "tensorflow"], default="sparkflow")
    name = parser.parse_args().backend
    tf: Any = import_module("tensorflow.compat.v1" if name == "tensorflow" else name)
    if name == "tensorflow":
        tf.disable_eager_execution()
        tf.disable_resource_variables()
    for build in (chain, images):
        print(f"{name} {build.__name__}: {measure(tf, build)}", flush=True)


if __name__ == "__main__":
    main()
