"""Reads, parts and updates of variables, each after all before it: who sees an update, and who keeps the old value."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.compare import Tolerance
from tests.oracle.program import program

SHAPE, CLOSE = (3, 4), Tolerance(64, scaled=True)
READS: list[Callable[[Any, Any, Any, Any], Any]] = [  # (tf, variable, two earlier tensors)
    lambda tf, v, a, b: tf.identity(v),
    lambda tf, v, a, b: tf.concat([v[:2], v[:1]], 0),
    lambda tf, v, a, b: tf.transpose(tf.transpose(v)) * 1.0,
    lambda tf, v, a, b: tf.transpose(tf.reshape(v, [4, 3])),
    lambda tf, v, a, b: a * v[1],
    lambda tf, v, a, b: -a,
    lambda tf, v, a, b: a + -b,
    lambda tf, v, a, b: tf.reverse(v, [1]),
    lambda tf, v, a, b: tf.gather(v, [2, 0, 1]),
    lambda tf, v, a, b: tf.tanh(a) * 0.5 + b,
    lambda tf, v, a, b: tf.reshape(tf.reshape(v, [-1]), SHAPE),
    lambda tf, v, a, b: tf.stack(tf.unstack(v)[::-1]),
    lambda tf, v, a, b: tf.broadcast_to(v[0], SHAPE),
    lambda tf, v, a, b: tf.concat(tf.split(v, 2, 1)[::-1], 1),
    lambda tf, v, a, b: tf.where(a > 1.0, a, tf.zeros(SHAPE)),
    lambda tf, v, a, b: a * tf.reduce_mean(v),
    lambda tf, v, a, b: tf.cond(tf.reduce_sum(a) > 0, lambda: v[:, :] * 2.0, lambda: v - 1.0),
    lambda tf, v, a, b: tf.while_loop(lambda i, m: i < 2, lambda i, m: (i + 1, m * 0.5 + v), [tf.constant(0), a])[1],
]
UPDATES: list[Callable[[Any, Any, Any], Any]] = [
    lambda tf, v, a: tf.assign_add(v, a * 0.1),
    lambda tf, v, a: tf.assign(v, a * 0.5 + 1.0),
    lambda tf, v, a: tf.scatter_update(v, [0, 2], a[:2]),
]


def _ordered(seed: int, resource: bool) -> None:
    def make(tf: Any) -> list[Any]:
        draw = random.Random(seed)
        start = np.arange(12, dtype=np.float32).reshape(SHAPE) / 10
        variables = [tf.Variable(start + i, name=f"v{i}", use_resource=resource) for i in range(2)]
        x = tf.placeholder(tf.float32, SHAPE)
        tensors, before = [x + 0.5], [x]
        for _ in range(draw.randint(8, 16)):
            v, a, b = draw.choice(variables), draw.choice(tensors[-6:]), draw.choice(tensors[-6:])
            with tf.control_dependencies(before):
                if draw.random() < 0.3:
                    before.append(draw.choice(UPDATES)(tf, v, a))
                else:
                    tensors.append(draw.choice(READS)(tf, v, a, b))
                    before.append(tensors[-1])
        with tf.control_dependencies(before):
            found = [tf.reduce_sum(t * (start + 0.1)) for t in tensors]
        feed = {x: start * 2}
        return [[v.initializer for v in variables], (found, feed), (found, feed), [v.read_value() for v in variables]]

    make.__name__ = f"ordered{'-resource' if resource else ''}-{seed}"
    not_back = "resource variables are written as references, which the reads share" if resource else ""
    made = program("VariableV2", "Assign", "AssignAdd", "ScatterUpdate", tolerance=CLOSE, not_back=not_back)
    made(make)


for _seed in range(12):
    _ordered(_seed, False)
    _ordered(_seed, True)
