"""Random graphs over four tasks, fetched and fed anywhere: what they give is what one session gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

TASKS = ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"]
SHAPE, ROWS = (4, 3), 10
Pick = Callable[[], Any]  # one of the tensors made so far


def _values(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).randn(*(shape or SHAPE)).astype(np.float32)


def _ids(x: Any) -> Any:
    return tf.cast(tf.abs(x[:, 0]) * 10, tf.int64) % ROWS


def _after(pick: Pick) -> Any:
    with tf.control_dependencies([pick().op]):
        return tf.identity(pick())


def _gradient(pick: Pick) -> Any:
    x = pick()
    found = tf.gradients(tf.reduce_sum(tf.tanh(pick())), x)[0]
    return x + 1.0 if found is None else found


STEPS: list[Callable[[Pick, int], Any]] = [
    lambda pick, seed: tf.identity(pick()),
    lambda pick, seed: pick() + pick(),
    lambda pick, seed: tf.nn.relu(tf.tanh(pick())),
    lambda pick, seed: 0.1 * tf.matmul(tf.matmul(pick(), pick(), transpose_b=True), pick()),
    lambda pick, seed: _cond(pick(), pick(), pick()),
    lambda pick, seed: _loop(pick(), pick()),
    lambda pick, seed: tf.concat(tf.split(pick(), 3, 1)[::-1], 1),
    lambda pick, seed: tf.nn.embedding_lookup(
        tf.Variable(_values(seed, ROWS, SHAPE[1]), name=f"v{seed}"), _ids(pick())
    ),
    lambda pick, seed: tf.Variable(_values(seed), name=f"v{seed}").read_value(),
    lambda pick, seed: 2.0 * tf.Variable(_values(seed), name=f"v{seed}"),
    lambda pick, seed: _after(pick),
    lambda pick, seed: tf.transpose(tf.transpose(pick())),
    lambda pick, seed: tf.reshape(tf.reshape(pick(), [2, 6]), SHAPE) + tf.reduce_mean(pick(), 0),
    lambda pick, seed: tf.where(pick() > 0, pick(), pick()),
    lambda pick, seed: _gradient(pick),
]


def _cond(a: Any, b: Any, c: Any) -> Any:
    return tf.cond(tf.reduce_sum(a) > 0, lambda: 2 * b, lambda: c - 1)


def _loop(a: Any, b: Any) -> Any:
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 0.5 * x + a), [0, b])[1]


def _program(seed: int, spread: bool) -> tuple[list[Any], list[Any]]:
    """(tensors, placeholders): the same for both, but for the devices."""
    choose = random.Random(seed)
    tensors: list[Any] = []
    placeholders: list[Any] = []
    for i in range(choose.randint(5, 25)):
        task = choose.choice(TASKS)
        with tf.device(task if spread else None):
            if len(tensors) < 2 or choose.random() < 0.1:
                placeholders.append(tf.placeholder(tf.float32, SHAPE))
                tensors.append(placeholders[-1])
            else:
                tensors.append(choose.choice(STEPS)(lambda: choose.choice(tensors), 100 * seed + i))
    return tensors, placeholders


def _runs(seed: int, target: str) -> list[Any]:
    choose, found = random.Random(-seed), []
    with tf.Graph().as_default(), tf.Session(target) as session:
        tensors, placeholders = _program(seed, bool(target))
        session.run(tf.global_variables_initializer())
        for trial in range(3):
            fetched = choose.sample(tensors, min(len(tensors), choose.randint(1, 4)))
            fed = [*placeholders, *choose.sample(tensors, choose.randint(0, 2))]
            feed = {t: _values(1000 * seed + 10 * trial + i) for i, t in enumerate(dict.fromkeys(fed))}
            try:
                found.append(session.run(fetched, feed))
            except tf.errors.OpError as error:
                found.append(type(error))
    return found


@pytest.mark.parametrize("master", ["worker1", "ps0"])
def test_random_programs(cluster: Any, master: str) -> None:
    target = cluster(ps=2, worker=2)[master].target
    for seed in range(40):
        for here, there in zip(_runs(seed, ""), _runs(seed, target), strict=True):
            assert isinstance(here, type) == isinstance(there, type), f"seed {seed}: {here} here and {there} there"
            if isinstance(here, type):
                assert here is there is not tf.errors.InternalError, f"seed {seed}: {here} here and {there} there"
            else:
                for a, b in zip(here, there, strict=True):
                    np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}")
