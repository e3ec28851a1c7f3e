"""variable_creator_scope, create_partitioned_variables and recompute_grad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_creators_make_variables(graph: Any) -> None:
    asked: list[tuple[str, str]] = []

    def outer(make: Any, **kwargs: Any) -> Any:
        asked.append(("outer", kwargs["name"]))
        return make(**kwargs)

    def inner(make: Any, **kwargs: Any) -> Any:
        asked.append(("inner", kwargs["name"]))
        return make(**{**kwargs, "trainable": False})

    with tf.variable_creator_scope(outer):
        tf.Variable(1.0, name="a")
        with tf.variable_creator_scope(inner):
            tf.get_variable("b", [2])
            tf.layers.dense(tf.zeros([1, 2]), 3)
    tf.Variable(1.0, name="c")
    names = ["a", "b", "dense/kernel", "dense/bias"]
    assert asked == [("outer", "a"), *((who, n) for n in names[1:] for who in ("inner", "outer"))]
    assert [v.op.name for v in tf.trainable_variables()] == ["a", "c"]
    assert [v.op.name for v in tf.global_variables()] == [*names, "c"]


def test_a_creator_may_give_another_object(graph: Any) -> None:
    class Wrapped:
        def __init__(self, variable: Any):
            self.variable = variable

    with tf.variable_creator_scope(lambda make, **kwargs: Wrapped(make(**kwargs))):
        made = tf.Variable([1.0, 2.0], trainable=False)
    assert isinstance(made, Wrapped) and made.variable.shape.as_list() == [2]
    with pytest.raises(RuntimeError), tf.variable_creator_scope(lambda make, **kwargs: None):
        raise RuntimeError
    assert isinstance(tf.Variable(1.0), tf.Variable), "the scope ended with its error"


def test_partitioned_variables(graph: Any) -> None:
    parts = tf.create_partitioned_variables([10, 4], [3, 1], tf.zeros_initializer())
    assert [(v.op.name, v.shape.as_list()) for v in parts] == [
        ("PartitionedVariable/part_0", [4, 4]),
        ("PartitionedVariable/part_1", [3, 4]),
        ("PartitionedVariable/part_2", [3, 4]),
    ]
    assert (
        tf.create_partitioned_variables([2], [1], tf.zeros_initializer())[0].op.name == "PartitionedVariable_1/part_0"
    )
    table = tf.create_partitioned_variables([6], [3], tf.constant([1.0, 2, 3, 4, 5, 6]), name="emb", trainable=False)
    again = tf.create_partitioned_variables([6], [3], tf.zeros_initializer(), name="emb", reuse=True)
    assert all(a is b for a, b in zip(table, again, strict=True)) and len(tf.trainable_variables()) == 4
    assert [v._get_save_slice_info().spec for v in table] == ["6 0,2", "6 2,2", "6 4,2"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = tf.nn.embedding_lookup(table, [0, 5, 3], partition_strategy="div")
        assert session.run(found).tolist() == [1, 6, 4]
    for shape, slicing in (([6], [3, 1]), ([], []), ([0], [1])):
        with pytest.raises(ValueError, match="must have the same length"):
            tf.create_partitioned_variables(shape, slicing, tf.zeros_initializer())
    with pytest.raises(ValueError, match="more than one dimension"):
        tf.create_partitioned_variables([6, 6], [2, 2], tf.zeros_initializer())


@pytest.mark.parametrize("resource", [False, True])
def test_recomputed_gradients(graph: Any, resource: bool) -> None:
    """They are those of the function itself; its body is run a second time, by the gradient alone."""

    def body(x: Any) -> Any:
        w = tf.get_variable("w", [3, 4], initializer=tf.constant_initializer(np.arange(12) / 12))
        return tf.tanh(tf.matmul(x, w)), tf.reduce_sum(x)

    x = tf.constant(np.arange(6).reshape(2, 3) / 6, tf.float32)
    with tf.variable_scope("block", reuse=tf.AUTO_REUSE, use_resource=resource):
        (plain, total), (kept, kept_total) = body(x), tf.recompute_grad(body)(x)
    (w,) = tf.trainable_variables()
    assert sum(op.type == "Tanh" for op in graph.get_operations()) == 2
    want = tf.gradients(tf.reduce_sum(plain * plain) + 3 * total, [x, w])
    got = tf.gradients(tf.reduce_sum(kept * kept) + 3 * kept_total, [x, w])
    assert sum(op.type == "Tanh" for op in graph.get_operations()) == 3
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for a, b in zip(*session.run([got, want]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
