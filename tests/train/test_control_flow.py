"""Training through branches and loops."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


def test_an_optimizer_in_each_branch(graph: Graph) -> None:
    p, w = tf.placeholder(tf.bool, []), tf.Variable([1.0, 2.0])
    loss = tf.reduce_sum(w * w)
    by_half, by_tenth = tf.train.GradientDescentOptimizer(0.25), tf.train.GradientDescentOptimizer(0.05)
    train = tf.cond(p, lambda: by_half.minimize(loss), lambda: by_tenth.minimize(loss))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {p: True})
        np.testing.assert_allclose(session.run(w), [0.5, 1.0])
        session.run(train, {p: False})
        np.testing.assert_allclose(session.run(w), [0.45, 0.9], rtol=1e-6)


def test_layers_in_branches(graph: Graph) -> None:
    """Variables are made outside; the branch that did not run has gradients of zero."""
    p, x = tf.placeholder(tf.bool, []), tf.ones([2, 3])
    y = tf.cond(p, lambda: tf.layers.dense(x, 2, name="a"), lambda: tf.layers.dense(x, 2, name="b"))
    gradients = tf.gradients(y, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [np.abs(g).sum() for g in session.run(gradients, {p: True})] == [12, 4, 0, 0]
        assert [np.abs(g).sum() for g in session.run(gradients, {p: False})] == [0, 0, 12, 4]


def test_a_variable_made_in_a_loop(graph: Graph) -> None:
    def body(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        start = tf.constant_initializer([[0.0, 2.0], [1.0, 0.0]])
        return i + 1, tf.matmul(h, tf.get_variable("w", [2, 2], initializer=start))

    _, h = tf.while_loop(lambda i, h: i < 3, body, [0, tf.ones([1, 2])])
    (dw,) = tf.gradients(h, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(h).tolist() == [[2, 4]]
        assert session.run(dw).tolist() == [[6, 5], [8, 6]]


def test_an_initial_value_made_in_a_branch(graph: Graph) -> None:
    p = tf.placeholder(tf.bool, [])
    with pytest.raises(ValueError, match="use a lambda as the initializer"):
        tf.cond(p, lambda: tf.Variable(tf.ones([2])).value(), lambda: tf.zeros([2]))


def test_moving_statistics_as_users_write_them(graph: Graph) -> None:
    training, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [None, 2])
    moving = tf.Variable(tf.zeros([2]), trainable=False)
    mean, variance = tf.nn.moments(x, [0])

    def update() -> tuple[tf.Tensor, tf.Tensor]:
        with tf.control_dependencies([moving.assign(0.5 * moving + 0.5 * mean)]):
            return tf.identity(mean), tf.identity(variance)

    found = tf.cond(training, update, lambda: (moving.value(), tf.ones([2])))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feed = {x: [[0.0, 2.0], [2.0, 4.0]]}
        assert session.run(found, {training: True, **feed})[0].tolist() == [1, 3]
        assert session.run(found, {training: False, **feed})[0].tolist() == [0.5, 1.5]


def test_a_queue_read_in_a_branch(graph: Graph) -> None:
    queue, p = tf.FIFOQueue(10, [tf.float32], shapes=[[2]]), tf.placeholder(tf.bool, [])
    put = queue.enqueue([[1.0, 2.0]])
    y = tf.cond(p, queue.dequeue, lambda: tf.zeros([2]))
    assert y.shape.as_list() == [2]
    with tf.Session() as session:
        session.run(put)
        assert session.run(y, {p: False}).tolist() == [0, 0]
        assert session.run(queue.size()) == 1
        assert session.run(y, {p: True}).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["GradientDescent", "Adam"])
def test_a_loss_summed_in_a_loop(graph: Graph, name: str) -> None:
    x, w = tf.constant([[1.0, 2.0]] * 3), tf.Variable([0.0, 5.0])
    step = lambda i, loss: (i + 1, loss + tf.reduce_sum(tf.square(x[i] - w)))  # noqa: E731
    _, loss = tf.while_loop(lambda i, loss: i < 3, step, [0, 0.0])
    train = getattr(tf.train, f"{name}Optimizer")(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(20):
            session.run(train)
        assert session.run(loss) < 0.5 * first
