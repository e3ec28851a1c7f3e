"""Partitioned variables beside other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparkflow as tf


def test_it_is_joined_with_other_tensors(graph: Any) -> None:
    """As by models that put a row of zeros before their table, for ids that are padding."""
    table = tf.get_variable("table", initializer=np.ones((5, 2), "f"), partitioner=tf.fixed_size_partitioner(2))
    padded = tf.concat([tf.zeros([1, 2]), table], 0)
    joined = [padded, tf.concat([table, tf.zeros([1, 2])], 0), tf.concat([table, table], 1), tf.stack([table, table])]
    loss = tf.reduce_sum(tf.nn.embedding_lookup(padded, [0, 1, 5, 5]))
    step = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before, after, wide, stacked = session.run(joined)
        session.run(step)
        moved = np.concatenate(session.run(list(table)))
    assert before.tolist() == [[0, 0]] + [[1, 1]] * 5 and after.tolist() == [[1, 1]] * 5 + [[0, 0]]
    assert wide.shape == (5, 4) and stacked.shape == (2, 5, 2)
    assert moved.tolist() == [[0, 0], [1, 1], [1, 1], [1, 1], [-1, -1]]
