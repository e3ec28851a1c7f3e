"""Penalties on rows of all tables at once: who would then wait for something else, or in a circle, is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401  (what passes know of ops)
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from tests.runtime.master.test_spread_products import config

TABLES, WIDTH = 4, 4


def looked_up(ids: Any) -> list[Any]:
    starts = np.random.default_rng(0).standard_normal((TABLES, 9, WIDTH)).astype(np.float32)
    tables = [tf.get_variable(f"table{k}", initializer=start) for k, start in enumerate(starts)]
    return [tf.nn.embedding_lookup(t, column) for t, column in zip(tables, tf.unstack(ids, axis=1))]


def layer(x: Any, name: str = "w") -> Any:
    start = np.random.default_rng(7).standard_normal((x.shape[1].value, 8)).astype(np.float32)
    return tf.reduce_sum(tf.nn.relu(tf.matmul(x, tf.get_variable(name, initializer=start))), 1)


def trained(out: Any, rows: list[Any]) -> Any:
    loss = tf.reduce_mean(out) + 0.1 * tf.add_n([tf.nn.l2_loss(r) for r in rows])
    return tf.train.AdagradOptimizer(0.1).minimize(loss)


def two_towers(rows: list[Any]) -> Any:
    """Each takes something of the other's rows."""
    one = tf.concat([rows[0], rows[1], tf.sin(rows[2])], 1)
    other = tf.concat([rows[2], rows[3], tf.cos(rows[0])], 1)
    return layer(one, "one") + layer(other, "other")


def by_a_queue(rows: list[Any]) -> Any:
    """What is laid beside the rows comes of them by way of a queue, which no edge tells."""
    queue = tf.FIFOQueue(1, [tf.float32], [[5, WIDTH]])
    tf.add_to_collection("puts", queue.enqueue([tf.sin(rows[0])]))
    return layer(tf.concat([*rows, queue.dequeue()], 1))


@pytest.mark.parametrize("written", [two_towers, by_a_queue])
def test_training_is_the_same(written: Callable[[list[Any]], Any]) -> None:
    found, batch = [], np.random.default_rng(3).integers(0, 9, (5, TABLES))
    for on in (True, False):
        about = config(on)
        about.operation_timeout_in_ms = 20_000
        with tf.Graph().as_default(), tf.Session(config=about) as session:
            ids = tf.placeholder(tf.int64, [None, TABLES])
            rows = looked_up(ids)
            train = trained(written(rows), rows)
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run([train, *tf.get_collection("puts")], {ids: batch})
            found.append(session.run(tf.trainable_variables()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def products(beside: int, nested: bool) -> list[tuple[int | None, ...]]:
    """Shapes of what penalties' gradients are in the graph that the passes make: products of a matrix and a number."""
    with tf.Graph().as_default() as graph:
        ids = tf.placeholder(tf.int64, [None, TABLES], "ids")
        dense = tf.placeholder(tf.float32, [None, beside], "dense")
        rows = looked_up(ids)
        columns = [tf.concat(rows, 1)] if nested else rows
        train = trained(layer(tf.concat([*columns, dense], 1)), rows)
        nodes, feeds = {n.name: n for n in graph.as_graph_def(add_shapes=True).node}, ["ids:0", "dense:0"]
    made = Optimizer().optimize(prune(nodes, feeds, [], [train.name]), feeds, [], [train.name], False, sources=nodes)
    muls = [n for n in made.node if n.op == "Mul"]
    shapes = [[d.size for d in n.attr["_output_shapes"].list.shape[0].dim] for n in muls]
    return [tuple(shape) for shape in shapes if len(shape) == 2]


@pytest.mark.parametrize("nested", [False, True])
def test_many_columns_beside_are_not_multiplied(nested: bool) -> None:
    assert products(3, nested) == [(-1, TABLES * WIDTH + 3)], "one product, of what the layer takes"
    assert products(500, nested) == [], "each is part of a sum of its table's"
