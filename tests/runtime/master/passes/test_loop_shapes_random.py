"""Random loops of open rows, which broadcast, grow, shrink and hold tensors: passes change no result and no error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.protos import RewriterConfig

OPEN = tf.TensorShape([None, 3])
ROWS = [(3, 3), (1, 3), (3, 1), (1, 1), (2, 3)]  # fed to x and to z
FUNCTIONS = [
    lambda a, b, w: tf.tanh(a) * 0.7,
    lambda a, b, w: tf.tanh(a * b + a),
    lambda a, b, w: a * b[:1],
    lambda a, b, w: tf.tanh(tf.matmul(tf.concat([a, b], 1), w)),
    lambda a, b, w: tf.tanh(tf.concat([a, b], 0))[:5],
    lambda a, b, w: a - tf.reduce_mean(b, 0, keepdims=True),
    lambda a, b, w: tf.concat([a[:1], a], 0)[:4],
    lambda a, b, w: a[1:] * 0.5,
    lambda a, b, w: tf.reshape(tf.reduce_max(a, 1, keepdims=True) * tf.ones([1, 3]), tf.shape(a)),
    lambda a, b, w: tf.cond(tf.reduce_sum(a) > 0, lambda: tf.exp(-tf.abs(a)), lambda: a * 0.5),
    lambda a, b, w: tf.cond(tf.reduce_sum(a) > 0, lambda: a * 0.5, lambda: tf.concat([a, a], 0)[:3]),
    lambda a, b, w: tf.reduce_mean(tf.expand_dims(a, 1) * tf.expand_dims(b, 0), 1),
    lambda a, b, w: tf.tile(a[:1], [tf.shape(b)[0], 1]) + b * 0.5,
    lambda a, b, w: tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, a).write(1, b).read(1) * 0.9,
]


class Program:
    """Loops in loops, and what an array has held of them."""

    def __init__(self, seed: int):
        self.choose = np.random.default_rng(seed).integers
        self.fed = [tf.placeholder(tf.float32, [None, 3]) for _ in range(2)]
        self.w = tf.get_variable("w", initializer=np.random.default_rng(seed).normal(size=(6, 3)).astype(np.float32))
        made = self.loop([self.fed[0] * 1.5, self.fed[1] + 0.1], 0)
        loss = tf.add_n([tf.reduce_sum(v * v) for v in made])
        found = tf.gradients(loss, [*self.fed, self.w])
        self.what = [loss, *made, *(g for g in found if g is not None)]

    def grown(self, pool: list[Any], depth: int) -> list[Any]:
        for _ in range(self.choose(1, 5)):
            a, b = (pool[self.choose(len(pool))] for _ in range(2))
            which = self.choose(len(FUNCTIONS) + (depth < 2))
            made = self.loop([a, b], depth + 1)[0] if which == len(FUNCTIONS) else FUNCTIONS[which](a, b, self.w)
            made.set_shape([None, 3])
            pool.append(made)
        return pool

    def loop(self, variables: list[Any], depth: int) -> list[Any]:
        steps = int(self.choose(4))

        def body(t: Any, array: Any, *given: Any) -> Any:
            pool = self.grown([*given, *self.fed], depth)
            return t + 1, array.write(t, pool[-1]), *(pool[-1 - self.choose(3)] for _ in given)

        shapes = [tf.TensorShape([]), tf.TensorShape(None), *[OPEN] * len(variables)]
        start = [tf.constant(0), tf.TensorArray(tf.float32, steps, infer_shape=False), *variables]
        _, array, *made = tf.while_loop(lambda t, *_: t < steps, body, start, shapes)
        if steps and self.choose(2):
            held = array.read(int(self.choose(steps)))
            held.set_shape([None, 3])
            made[0] = tf.concat([made[0], held], 0)
        return made


def results(seed: int, *off: str) -> list[Any]:
    config, found = tf.ConfigProto(), list[Any]()
    for name in off:
        setattr(config.graph_options.rewrite_options, name, RewriterConfig.OFF)
    with tf.Graph().as_default():
        program = Program(seed)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            for rows in ROWS:
                values = [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in rows]
                try:
                    found.append(session.run(program.what, dict(zip(program.fed, values))))
                except tf.errors.InvalidArgumentError:
                    found.append([])
    return found


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 60))])
def test_random_loops(seed: int) -> None:
    expected = results(seed, "arithmetic_optimization", "constant_folding", "dependency_optimization")
    for one, other in zip(results(seed), expected):
        assert [np.shape(v) for v in one] == [np.shape(v) for v in other]
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
