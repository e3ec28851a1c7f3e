"""Dense training steps: with the crew's threads, with threads of Python, with one thread; and how a process begins.

    python tests/benchmarks/bench_dense.py [mlp] [rnn] [lstm] [start] [--seconds 20] [--busy]

The ways take turns, so that what else the machine does falls on all of them; minimum, quartile and median of a step are
printed, and the processor time of all threads. --busy: beside a process that keeps one processor busy.
start: the rate of the first 100 MLP steps of a fresh process, with machine code on disk and without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import sparkflow as tf
from sparkflow_runtime.kernels import parallel
from sparkflow_runtime.kernels.crew import Crew

Step = Callable[[], Any]
TIME, BATCH, INPUT, HIDDEN = 50, 32, 64, 128


def mlp() -> Step:
    """784-512-256-10, batch 128, Adam."""
    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
    h = x
    for i, (m, n) in enumerate(((784, 512), (512, 256), (256, 10))):
        w = tf.get_variable(f"w{i}", [m, n], initializer=tf.random_uniform_initializer(-0.05, 0.05, seed=i))
        h = tf.matmul(h, w) + tf.get_variable(f"b{i}", [n], initializer=tf.zeros_initializer())
        h = tf.nn.relu(h) if n > 10 else h
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
    rng = np.random.default_rng(0)
    feed = {x: rng.normal(size=(128, 784)).astype(np.float32), y: rng.integers(0, 10, 128)}
    return _stepper(tf.train.AdamOptimizer(1e-3).minimize(loss), loss, feed)


def _recurrent(cell: str) -> Step:
    x, y = tf.placeholder(tf.float32, [TIME, BATCH, INPUT]), tf.placeholder(tf.float32, [BATCH, HIDDEN])
    gates = 4 if cell == "lstm" else 1
    shape = [INPUT + HIDDEN, gates * HIDDEN]
    w = tf.get_variable("w", shape, initializer=tf.random_uniform_initializer(-0.08, 0.08, seed=1))
    b = tf.get_variable("b", shape[1:], initializer=tf.zeros_initializer())
    xs = tf.TensorArray(tf.float32, size=TIME).unstack(x)

    def body(t: Any, h: Any, c: Any) -> Any:
        z = tf.matmul(tf.concat([xs.read(t), h], 1), w) + b
        if cell == "rnn":
            return t + 1, tf.tanh(z), c
        i, g, f, o = tf.split(z, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
        return t + 1, tf.sigmoid(o) * tf.tanh(c), c

    zero = tf.zeros([BATCH, HIDDEN])
    h = tf.while_loop(lambda t, h, c: t < TIME, body, [tf.constant(0), zero, zero])[1]
    loss, rng = tf.reduce_mean(tf.square(h - y)), np.random.default_rng(0)
    feed = {x: rng.normal(size=(TIME, BATCH, INPUT)).astype(np.float32), y: np.ones((BATCH, HIDDEN), np.float32)}
    return _stepper(tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss, feed)


def _stepper(train: Any, loss: Any, feed: dict[Any, Any]) -> Step:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return lambda: session.run([train, loss], feed)


CASES: dict[str, Callable[[], Step]] = {
    "mlp": mlp,
    "rnn": lambda: _recurrent("rnn"),
    "lstm": lambda: _recurrent("lstm"),
}

# ---------------------------------------------------------------------- ways to share out work

_ready, _most = Crew.ready, parallel._most
WAYS: dict[str, tuple[Any, Any]] = {
    "crew": (_ready, _most),
    "Python's threads": (lambda self, threads: False, _most),
    "one thread": (lambda self, threads: False, lambda: 1),
}


def compare(name: str, step: Step, seconds: float) -> None:
    walls: dict[str, list[float]] = {way: [] for way in WAYS}
    cpu = dict.fromkeys(WAYS, 0.0)
    for _ in range(30):
        step()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for way, (Crew.ready, parallel._most) in WAYS.items():  # type: ignore[misc]
            for _ in range(3):
                step()
            before = time.process_time()
            for _ in range(15):
                start = time.perf_counter()
                step()
                walls[way].append(time.perf_counter() - start)
            cpu[way] += time.process_time() - before
    for way, found in walls.items():
        least, quarter, middle = np.percentile(np.array(found) * 1e3, [0, 25, 50])
        print(
            f"{name:5} {way:17} {least:7.2f} {quarter:7.2f} {middle:7.2f} ms, cpu {cpu[way] / len(found) * 1e3:7.2f} ms"
        )


@contextmanager
def neighbour(busy: bool) -> Iterator[None]:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if child is not None:
            child.kill()
            child.wait()


_START = """
import sys, time
sys.path[:] = {path!r}
import bench_dense
step = bench_dense.mlp()
start = time.perf_counter()
for _ in range(100):
    step()
print(f"{{100 / (time.perf_counter() - start):.0f}}")
"""


def starts(rounds: int = 5) -> None:
    code = _START.format(path=[os.path.dirname(os.path.abspath(__file__)), *sys.path])

    def rate(folder: str) -> str:
        env = os.environ | {"NUMBA_CACHE_DIR": folder}
        return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout

    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold = rate(folder)
            time.sleep(8)  # what the first process ordered may still be compiled by its child
            rate(folder)
            print(
                f"first 100 steps: {cold.strip()} steps/s with an empty cache, {rate(folder).strip()} with a full one"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, "start", []], help="all of them by default")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    with neighbour(options.busy):
        for name in options.cases or [*CASES, "start"]:
            if name == "start":
                starts()
                continue
            with tf.Graph().as_default():
                compare(name, CASES[name](), options.seconds)


if __name__ == "__main__":
    main()
