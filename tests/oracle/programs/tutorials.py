"""Small trainings of the kinds that tutorials show: their losses step by step, from the same initial values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.cases.values import noise
from tests.oracle.compare import Tolerance
from tests.oracle.program import program

LOSSES = Tolerance(4096, scaled=True)  # of float32, after several steps of training
STEPS = 6
Build = Callable[[Any, "Made"], tuple[Any, dict[Any, Any]]]


class Made:
    """Variables with values that follow from their number and shape."""

    def __init__(self, tf: Any):
        self.tf, self.count = tf, 0

    def __call__(self, *shape: int, scale: float = 0.3) -> Any:
        self.count += 1
        return self.tf.Variable(noise("float32", *shape, seed=100 + self.count) * np.float32(scale))


def tutorial(optimizer: Callable[[Any], Any]) -> Callable[[Build], Build]:
    """build(tf, made) -> (loss or losses, feeds): each step's losses before and after it trains."""

    def register(build: Build) -> Build:
        def make(tf: Any) -> list[Any]:
            found, feeds = build(tf, Made(tf))
            losses = found if isinstance(found, list) else [(found, None)]
            trains = [optimizer(tf).minimize(loss, var_list=variables) for loss, variables in losses]
            values = [loss for loss, _ in losses]
            steps: list[Any] = [[tf.global_variables_initializer()], (values, feeds)]
            for _ in range(STEPS):
                steps += [([train], feeds) for train in trains] + [(values, feeds)]
            return steps

        make.__name__ = f"tutorial-{build.__name__}"
        program(tolerance=LOSSES)(make)
        return build

    return register


def descent(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.05)


def adam(tf: Any) -> Any:
    return tf.train.AdamOptimizer(0.01)


IMAGES, LABELS = np.abs(noise("float32", 8, 64)), np.arange(8, dtype=np.int32) % 3
ROWS, TARGETS = noise("float32", 16, 4), noise("float32", 16, 1, seed=9)
SERIES = noise("float32", 5, 6, 3, seed=4)


@tutorial(descent)
def regression(tf: Any, made: Made) -> Any:
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    return tf.reduce_mean(tf.square(tf.matmul(x, made(4, 1)) + made(1) - y)), {x: ROWS, y: TARGETS}


@tutorial(lambda tf: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True))
def perceptron(tf: Any, made: Made) -> Any:
    x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int32, [None])
    hidden = tf.nn.relu(tf.matmul(x, made(64, 12)) + made(12))
    logits = tf.matmul(hidden, made(12, 3)) + made(3)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return loss, {x: IMAGES, y: LABELS}


@tutorial(adam)
def convnet(tf: Any, made: Made) -> Any:
    x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int32, [None])
    image = tf.reshape(x, [-1, 8, 8, 1])
    first = tf.nn.relu(tf.nn.conv2d(image, made(3, 3, 1, 4), [1, 1, 1, 1], "SAME") + made(4))
    pooled = tf.nn.max_pool(first, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    second = tf.nn.relu(tf.nn.conv2d(pooled, made(3, 3, 4, 6), [1, 2, 2, 1], "VALID"))
    logits = tf.matmul(tf.reshape(second, [-1, 6]), made(6, 3))
    labels = tf.one_hot(y, 3)
    return tf.losses.softmax_cross_entropy(labels, logits), {x: IMAGES, y: LABELS}


@tutorial(lambda tf: tf.train.RMSPropOptimizer(0.01))
def autoencoder(tf: Any, made: Made) -> Any:
    x, w = tf.placeholder(tf.float32, [None, 64]), made(64, 10)
    code = tf.nn.sigmoid(tf.matmul(x, w) + made(10))
    back = tf.nn.sigmoid(tf.matmul(code, tf.transpose(w)) + made(64))
    return tf.reduce_mean(tf.pow(x - back, 2)), {x: IMAGES}


@tutorial(adam)
def variational_autoencoder(tf: Any, made: Made) -> Any:
    x, eps = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.float32, [None, 2])
    hidden = tf.nn.tanh(tf.matmul(x, made(64, 12)))
    mean, log_var = tf.matmul(hidden, made(12, 2)), tf.matmul(hidden, made(12, 2))
    z = mean + tf.exp(log_var / 2) * eps
    logits = tf.matmul(tf.nn.tanh(tf.matmul(z, made(2, 12))), made(12, 64))
    seen = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.minimum(x, 1.0), logits=logits), 1)
    divergence = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), 1)
    return tf.reduce_mean(seen + divergence), {x: IMAGES, eps: noise("float32", 8, 2)}


@tutorial(adam)
def adversaries(tf: Any, made: Made) -> Any:
    x, z = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.float32, [None, 5])
    g, d = [made(5, 16), made(16, 64)], [made(64, 16), made(16, 1)]
    fake = tf.nn.sigmoid(tf.matmul(tf.nn.relu(tf.matmul(z, g[0])), g[1]))

    def judged(image: Any) -> Any:
        return tf.matmul(tf.nn.leaky_relu(tf.matmul(image, d[0])), d[1])

    def cost(logits: Any, real: bool) -> Any:
        labels = tf.ones_like(logits) if real else tf.zeros_like(logits)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    losses = [(cost(judged(x), True) + cost(judged(fake), False), d), (cost(judged(fake), True), g)]
    return losses, {x: IMAGES, z: noise("float32", 8, 5)}


@tutorial(lambda tf: tf.train.AdagradOptimizer(0.2))
def word2vec(tf: Any, made: Made) -> Any:
    """By noise contrastive estimation against classes that are given, since those drawn differ between libraries."""
    ids, labels = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None, 1])
    vectors = tf.nn.embedding_lookup(made(20, 5), ids)
    sampled = (tf.constant([1, 7, 4, 11], tf.int64), tf.fill([tf.size(ids), 1], 0.2), tf.constant([0.3, 0.1, 0.2, 0.1]))
    loss = tf.nn.nce_loss(made(20, 5), made(20), labels, vectors, 4, 20, sampled_values=sampled)
    return tf.reduce_mean(loss), {ids: np.array([3, 1, 3, 19], np.int32), labels: np.array([[2], [7], [0], [5]])}


def recurrent(tf: Any, made: Made, outputs: Any, feeds: dict[Any, Any]) -> Any:
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(outputs, 2) - 0.5))
    return loss, feeds


@tutorial(adam)
def unrolled_lstm(tf: Any, made: Made) -> Any:
    x = tf.placeholder(tf.float32, [5, 6, 3])
    kernel, c, h, outputs = made(7, 16), tf.zeros([5, 4]), tf.zeros([5, 4]), []
    for step in tf.unstack(x, axis=1):
        i, j, f, o = tf.split(tf.matmul(tf.concat([step, h], 1), kernel), 4, axis=1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        outputs.append(h)
    return recurrent(tf, made, tf.stack(outputs, 1), {x: SERIES})


@tutorial(descent)
def recurrence_in_a_loop(tf: Any, made: Made) -> Any:
    x, w, u = tf.placeholder(tf.float32, [None, 6, 3]), made(3, 4), made(4, 4)

    def step(h: Any, row: Any) -> Any:
        return tf.tanh(tf.matmul(row, w) + tf.matmul(h, u))

    outputs = tf.scan(step, tf.transpose(x, [1, 0, 2]), tf.zeros([tf.shape(x)[0], 4]))
    return recurrent(tf, made, tf.transpose(outputs, [1, 0, 2]), {x: SERIES})


@tutorial(adam)
def both_directions(tf: Any, made: Made) -> Any:
    x, lengths = tf.placeholder(tf.float32, [5, 6, 3]), tf.placeholder(tf.int32, [5])
    forward, backward = (made(3, 4), made(4, 4)), (made(3, 4), made(4, 4))

    def along(weights: Any, sequence: Any) -> Any:
        h, outputs = tf.zeros([5, 4]), []
        for step in tf.unstack(sequence, axis=1):
            h = tf.tanh(tf.matmul(step, weights[0]) + tf.matmul(h, weights[1]))
            outputs.append(h)
        return tf.stack(outputs, 1)

    turned = tf.reverse_sequence(along(backward, tf.reverse_sequence(x, lengths, 1, 0)), lengths, 1, 0)
    outputs = tf.concat([along(forward, x), turned], 2)
    mask = tf.expand_dims(tf.sequence_mask(lengths, 6, tf.float32), 2)
    return recurrent(tf, made, outputs * mask, {x: SERIES, lengths: np.array([6, 2, 3, 1, 5], np.int32)})


@tutorial(lambda tf: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01))
def wide_columns(tf: Any, made: Made) -> Any:
    ids, y = tf.placeholder(tf.int32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    logits = tf.reduce_sum(tf.nn.embedding_lookup(made(12, 1), ids), 1) + made(1)
    loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    return loss, {ids: np.arange(12, dtype=np.int32).reshape(4, 3) % 7, y: np.array([[1], [0], [0], [1]], np.float32)}
