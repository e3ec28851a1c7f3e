"""Gradients that users write, overrides of types of ops, second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_a_custom_gradient_is_used(graph: Any) -> None:
    @tf.custom_gradient
    def log1pexp(x: Any) -> Any:
        e = tf.exp(x)
        return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    x = tf.constant([0.0, 100.0])
    assert run(tf.gradients(log1pexp(x), x))[0].tolist() == [0.5, 1.0], "log's own gradient is nan at 100"
    twice = tf.gradients(tf.gradients(log1pexp(x)[0], x)[0], x)[0]
    np.testing.assert_allclose(run(twice)[0], 0.25)


def test_a_function_is_given_the_very_tensors(graph: Any) -> None:
    x, y = tf.constant(2.0), tf.constant(3.0)
    given = []

    @tf.custom_gradient
    def product(*xs: Any) -> Any:
        given.extend(xs)
        return tf.multiply(*xs, name="product"), lambda dy: [dy * (y if t is x else x) for t in xs]

    found = product(x, y)
    assert given == [x, y] and graph.get_operation_by_name("product"), "in no scope"
    assert run(tf.gradients(found, [x, y])) == [3, 2]


def test_several_arguments_and_results(graph: Any) -> None:
    @tf.custom_gradient
    def both(x: Any, y: Any) -> Any:
        return (x * y, {"s": x + y}), lambda dp, ds: (dp * 10 + ds, dp * 100)

    x, y = tf.constant(2.0), tf.constant(3.0)
    product, rest = both(x, y)
    assert run([product, rest["s"], *tf.gradients(product + 2 * rest["s"], [x, y])]) == [6, 5, 12, 100]


def test_variables_may_be_asked_for(graph: Any) -> None:
    w = tf.get_variable("w", initializer=3.0)

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        def grad(dy: Any, variables: Any = None) -> Any:
            assert variables == [w]
            return dy * 7, [dy * 11]

        return x * w, grad

    x = tf.constant(2.0)
    assert run(tf.gradients(scaled(x), [x, w])) == [7, 11]


def test_variables_are_given_to_any_keywords_too(graph: Any) -> None:
    w = tf.get_variable("w", initializer=3.0)

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        def grad(dy: Any, **kwargs: Any) -> Any:
            return dy * 5.0, [dy * 7.0 for _ in kwargs["variables"]]

        return x * w, grad

    x = tf.constant(2.0)
    assert run(tf.gradients(scaled(x), [x, w])) == [5.0, 7.0]


def test_a_wrong_number_of_gradients_is_refused(graph: Any) -> None:
    x = tf.constant(2.0)
    y = tf.custom_gradient(lambda x: (x * 2, lambda dy: (dy, dy)))(x)
    with pytest.raises(ValueError, match="1 arguments"):
        tf.gradients(y, x)


def test_types_of_ops_may_be_overridden(graph: Any) -> None:
    tf.RegisterGradient("TimesNine")(lambda op, dy: dy * 9.0)
    x = tf.constant([-1.0, 2.0])
    with graph.gradient_override_map({"Relu": "TimesNine"}):
        y = tf.nn.relu(x)
    z = tf.nn.relu(x)
    assert [g.tolist() for g in run([tf.gradients(y, x)[0], tf.gradients(z, x)[0]])] == [[9, 9], [0, 1]]
    with pytest.raises(TypeError, match="strings"), graph.gradient_override_map({"Relu": 3}):  # type: ignore[dict-item]
        pass


def test_hessians(graph: Any) -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    found = run(tf.hessians(tf.reduce_sum(x**3) + w[0] ** 2 * w[1], [x, w]))
    assert found[0].shape == (2, 2, 2, 2)
    np.testing.assert_allclose(found[0].reshape(4, 4), np.diag([6, 12, 18, 24]))
    np.testing.assert_allclose(found[1], [[4, 2], [2, 0]])


def test_hessians_through_a_loop(graph: Any) -> None:
    """What the loop pushed once is not popped once for each element."""
    x = tf.constant([1.0, 2.0])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, x])  # x to the fourth
    np.testing.assert_allclose(run(tf.hessians(y, x)[0]), np.diag([12, 48]))
    inner = tf.map_fn(lambda row: row * 1.0, x)  # a loop that x itself is made of does not matter
    np.testing.assert_allclose(run(tf.hessians(inner**3, inner)[0]), np.diag([6, 12]))
    open_x = tf.placeholder_with_default(x, [None])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * open_x), [0, open_x])
    with pytest.raises(ValueError, match="known sizes"):
        tf.hessians(y, open_x)


def test_a_loops_gradient_is_not_taken_inside_another_loop(graph: Any) -> None:
    x = tf.constant([1.0, 2.0])
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, x])
    with pytest.raises(tf.errors.InvalidArgumentError, match="inside 'map/while"):
        tf.map_fn(lambda i: tf.gradients(y[i], x)[0], tf.range(2), dtype=tf.float32)


def test_grad_pass_through(graph: Any) -> None:
    """The slope of the identity, variables left out; f's name and keywords stay."""
    x, v = tf.constant([0.4, 1.6]), tf.get_variable("v", [], initializer=tf.ones_initializer())

    @tf.grad_pass_through
    def rounded(x: Any, *, by: float) -> Any:
        return tf.round(x * v * by)

    y = rounded(x, by=1.0) * 3.0
    slopes = tf.gradients(y, [x, v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).tolist() == [0, 6] and session.run(slopes[0]).tolist() == [3, 3]
    assert slopes[1] is None and rounded.__name__ == "rounded"
    with pytest.raises(ValueError, match=r"2 arguments .* with 1"):
        tf.gradients(tf.grad_pass_through(lambda a, b: a + b)(x, x), x)
