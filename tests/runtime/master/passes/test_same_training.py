"""Training ends with the same bits whichever passes ran: in one session, and on parameter servers in step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import fused_machine
from sparkflow_runtime.wire.protos import ConfigProto, RewriterConfig


def config(passes: bool, option: int = RewriterConfig.DEFAULT_MEM_OPT) -> ConfigProto:
    found = ConfigProto()
    found.graph_options.rewrite_options.memory_optimization = option
    found.graph_options.rewrite_options.disable_meta_optimizer = not passes
    return found


def model(optimizer: Any) -> tuple[list[Any], Any, Any]:
    """Two embeddings beside dense columns, two layers, a sigmoid loss: placeholders, training op, loss."""
    x, ids = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int64, [None, 2])
    labels = tf.placeholder(tf.float32, [None])
    parts = [x]
    for i, column in enumerate(tf.unstack(ids, axis=1)):
        table = tf.get_variable(f"t{i}", [20, 4], initializer=tf.random_uniform_initializer(-1, 1, seed=i))
        parts.append(tf.nn.embedding_lookup(table, column))
    hidden = tf.concat(parts, 1)
    for i, units in enumerate((8, 1)):
        shape = [int(hidden.shape[1]), units]
        w = tf.get_variable(f"w{i}", shape, initializer=tf.random_uniform_initializer(-1, 1, seed=10 + i))
        b = tf.get_variable(f"b{i}", [units], initializer=tf.zeros_initializer())
        hidden = tf.matmul(hidden, w) + b
        hidden = tf.nn.relu(hidden) if units > 1 else tf.reshape(hidden, [-1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=hidden))
    return [x, ids, labels], optimizer.minimize(loss), loss


def batch(rng: np.random.Generator, rows: int = 30) -> list[np.ndarray]:
    x, ids = rng.normal(size=(rows, 3)).astype(np.float32), rng.integers(0, 20, (rows, 2))
    return [x, ids, (x.sum(1) > 0).astype(np.float32)]


OPTIMIZERS = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def trained(name: str, passes: bool, option: int = RewriterConfig.DEFAULT_MEM_OPT) -> list[bytes]:
    with tf.Graph().as_default():
        places, train, loss = model(OPTIMIZERS[name]())
        rng, losses = np.random.default_rng(0), []
        with tf.Session(config=config(passes, option)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(10):
                losses.append(session.run([loss, train], dict(zip(places, batch(rng))))[0])
            assert losses[-1] < losses[0]
            return [v.tobytes() for v in session.run(tf.global_variables())] + [np.array(losses).tobytes()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_session_trains_to_the_same_bits(name: str) -> None:
    assert fused_machine.wait(120)
    plain = trained(name, passes=False)
    assert trained(name, passes=True) == plain
    assert trained(name, True, RewriterConfig.HEURISTICS) == plain
