"""Steps of small programs as people wrote them for TensorFlow 1, on sparkflow or on TensorFlow.

    python tests/benchmarks/bench_programs.py [--only gan] [--backend tensorflow] [--rounds 60]
    python tests/benchmarks/bench_programs.py --against .venv-oracle/bin/python

Prints the least wall and processor milliseconds of a step, or with `--against` TensorFlow's times by ours. Values are
compared by the tests, not here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

tf: Any = import_module("tensorflow.compat.v1" if "tensorflow" in sys.argv else "sparkflow")
RNG = np.random.default_rng(0)
FOLDERS: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends
Step = Callable[[], object]


def dense(x: Any, name: str, width: int) -> Any:
    w = tf.get_variable(f"w{name}", [int(x.shape[-1]), width])
    return tf.matmul(x, w) + tf.get_variable(f"b{name}", [width], initializer=tf.zeros_initializer())


def session() -> Any:
    sess = tf.Session()
    sess.run(tf.global_variables_initializer())
    return sess


def word2vec() -> Step:
    """A step of noise-contrastive estimation: 128 words of 50,000, 64 others."""
    inputs, weights = (tf.get_variable(name, [50_000, 128]) for name in ("inputs", "weights"))
    biases = tf.get_variable("biases", [50_000])
    x, y = tf.placeholder(tf.int32, [128]), tf.placeholder(tf.int32, [128, 1])
    loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, y, tf.nn.embedding_lookup(inputs, x), 64, 50_000))
    train, sess = tf.train.GradientDescentOptimizer(1.0).minimize(loss), session()
    feed = {x: RNG.integers(0, 50_000, 128), y: RNG.integers(0, 50_000, (128, 1))}
    return lambda: sess.run([train, loss], feed)


def gan() -> Step:
    """A step of both nets, 64 pictures of 784."""
    noise, real = tf.placeholder(tf.float32, [64, 100]), tf.placeholder(tf.float32, [64, 784])

    def net(name: str, x: Any, width: int) -> Any:
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            return dense(tf.nn.leaky_relu(dense(x, "0", 128)), "1", width)

    made = tf.sigmoid(net("g", noise, 784))
    of_real, of_made = net("d", real, 1), net("d", made, 1)

    def told(logits: Any, what: Any) -> Any:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=what(logits), logits=logits))

    losses = {"d": told(of_real, tf.ones_like) + told(of_made, tf.zeros_like), "g": told(of_made, tf.ones_like)}
    steps = [
        tf.train.AdamOptimizer(1e-4).minimize(loss, var_list=tf.trainable_variables(name + "/"))
        for name, loss in losses.items()
    ]
    feed, sess = {noise: RNG.random((64, 100)), real: RNG.random((64, 784))}, session()
    return lambda: sess.run(steps, feed)


def transformer() -> Step:
    """Two layers of four heads, 8 sentences of 64 words."""
    x = tf.placeholder(tf.int32, [8, 64])
    words = tf.get_variable("words", [1000, 128])
    h = tf.reshape(tf.gather(words, x), [-1, 128])

    def heads(name: str) -> Any:
        return tf.transpose(tf.reshape(dense(h, name, 128), [8, 64, 4, 32]), [0, 2, 1, 3])

    for layer in "01":
        q, k, v = (heads(name + layer) for name in "qkv")
        seen = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 32**0.5), v)
        h = h + dense(tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [-1, 128]), "o" + layer, 128)
        mean, variance = tf.nn.moments(h, [1], keepdims=True)
        h = (h - mean) * tf.rsqrt(variance + 1e-6)
        h = h + dense(tf.nn.relu(dense(h, "a" + layer, 512)), "c" + layer, 128)
    logits = tf.matmul(h, words, transpose_b=True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(x, [-1]), logits=logits)
    train, sess = tf.train.AdamOptimizer().minimize(tf.reduce_mean(losses)), session()
    feed = {x: RNG.integers(0, 1000, (8, 64))}
    return lambda: sess.run(train, feed)


def crf() -> Step:
    """The partition function of a conditional random field and its gradient: 32 sentences of 40 words, 10 tags."""
    scores, moves = tf.placeholder(tf.float32, [32, 40, 10]), tf.get_variable("moves", [10, 10])

    def body(i: Any, alpha: Any) -> Any:
        return i + 1, tf.reduce_logsumexp(alpha[:, :, None] + moves[None], 1) + scores[:, i]

    _, alpha = tf.while_loop(lambda i, _: i < 40, body, [1, scores[:, 0]])
    slope = tf.gradients(tf.reduce_mean(tf.reduce_logsumexp(alpha, 1)), moves)
    feed, sess = {scores: RNG.random((32, 40, 10))}, session()
    return lambda: sess.run(slope, feed)


def dqn() -> Step:
    """The action of a policy: one state of four numbers."""
    x = tf.placeholder(tf.float32, [1, 4])
    action = tf.argmax(dense(tf.nn.relu(dense(tf.nn.relu(dense(x, "0", 64)), "1", 64)), "2", 2), 1)
    feed, sess = {x: np.ones((1, 4), np.float32)}, session()
    return lambda: sess.run(action, feed)


def pipeline() -> Step:
    """A batch of 128 of shuffled rows."""
    rows, labels = RNG.random((20_000, 20), np.float32), RNG.integers(0, 2, 20_000)
    data = tf.data.Dataset.from_tensor_slices((rows, labels)).shuffle(5_000).repeat().batch(128).prefetch(2)
    batch, sess = tf.data.make_one_shot_iterator(data).get_next(), tf.Session()
    return lambda: sess.run(batch)


def softplus() -> Step:
    """The cross entropy of 512 x 1,024 logits and its gradient."""
    x, z = (tf.placeholder(tf.float32, [512, 1024]) for _ in "xz")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x))
    wanted, sess = [loss, tf.gradients(loss, x)], tf.Session()
    feed = {x: RNG.standard_normal((512, 1024), np.float32), z: RNG.random((512, 1024), np.float32)}
    return lambda: sess.run(wanted, feed)


def _saver() -> tuple[Any, Any, str]:
    """3,000 variables of 10 x 10."""
    for i in range(3000):
        tf.get_variable(f"v{i}", [10, 10], initializer=tf.zeros_initializer())
    FOLDERS.append(tempfile.TemporaryDirectory())
    return tf.train.Saver(), session(), str(Path(FOLDERS[-1].name) / "model")


def save() -> Step:
    saver, sess, prefix = _saver()
    return lambda: saver.save(sess, prefix, write_meta_graph=False)


def restore() -> Step:
    saver, sess, prefix = _saver()
    saver.save(sess, prefix, write_meta_graph=False)
    return lambda: saver.restore(sess, prefix)


PROGRAMS = {f.__name__: f for f in (word2vec, gan, transformer, crf, dqn, pipeline, softplus, save, restore)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("sparkflow", "tensorflow"), default="sparkflow")
    parser.add_argument("--only", choices=[*PROGRAMS])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--against", metavar="PYTHON", help="the interpreter that has TensorFlow")
    args = parser.parse_args()
    names = [args.only] if args.only else [*PROGRAMS]
    if args.against:
        from side_by_side import compare

        compare(__file__, args.against, names, "ms", "--rounds", str(args.rounds))
        return
    if args.backend == "tensorflow":
        tf.disable_v2_behavior()
    for name in names:
        with tf.Graph().as_default():
            step = PROGRAMS[name]()
            for _ in range(5):
                step()
            clock, cpu = [], []
            for _ in range(args.rounds):
                wall, processor = time.perf_counter(), time.process_time()
                step()
                clock.append(time.perf_counter() - wall)
                cpu.append(time.process_time() - processor)
        print(json.dumps({"name": name, "clock_ms": min(clock) * 1e3, "cpu_ms": min(cpu) * 1e3}), flush=True)


if __name__ == "__main__":
    main()
