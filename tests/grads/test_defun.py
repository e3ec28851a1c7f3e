"""Defun: functions with gradients of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.grads.defun import Defun

pytestmark = pytest.mark.usefixtures("graph")


def test_a_gradient_of_its_own() -> None:
    seen: list[Any] = []

    def gradient(op: Any, dy: Any, dz: Any) -> Any:
        seen.append((len(op.inputs), len(op.outputs)))
        return [dy * 7 * op.inputs[0], dz + op.outputs[0]]

    @Defun(tf.float32, tf.float32, python_grad_func=gradient, shape_func=lambda op: [(2,), (2,)])
    def both(x: Any, y: Any) -> Any:
        return x * y, x + y

    a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    y, z = both(a, b, name="here")
    assert both.declared_input_types == [tf.float32, tf.float32] and both.name == "both"
    da, db = tf.gradients(y, [a, b])
    with tf.Session() as session:
        found = session.run([y, z, da, db])
    np.testing.assert_array_equal(found, [[3, 8], [4, 6], [7, 14], [3, 8]])
    assert seen == [(2, 2)]


def test_another_function_as_gradient_and_none() -> None:
    @Defun(tf.float32, tf.float32)
    def slope(x: Any, dy: Any) -> Any:
        return dy * 10

    @Defun(tf.float32, grad_func=slope)
    def square(x: Any) -> Any:
        return tf.square(x)

    @Defun()
    def plain(x: Any) -> Any:
        return tf.square(x)

    x = tf.constant(3.0)
    gradients = tf.gradients(square(x), x) + tf.gradients(plain(x), x)
    with tf.Session() as session:
        assert session.run(gradients) == [10, 6]


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="2 input types were declared"):
        Defun(tf.float32, tf.float32)(lambda x: x)
    with pytest.raises(ValueError, match="arguments: 1, received: 2"):
        Defun(tf.float32)(lambda x: x)(1.0, 2.0)
    with pytest.raises(ValueError, match="must be callable"):
        Defun()(3)  # type: ignore[arg-type]


def test_a_gradient_through_the_callers_tensors(graph: Any) -> None:
    """As of layers that compute their values again: the function passes on what was made before it."""
    x, w = tf.constant([[1.0, 2.0]]), tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    y = tf.matmul(x, w)
    given = []

    def gradient(op: Any, dy: Any) -> Any:
        given.extend(op.inputs)
        return *tf.gradients(op.inputs[2], list(op.inputs[:2]), grad_ys=dy), None

    @Defun(x.dtype, w.dtype, y.dtype, python_grad_func=gradient)
    def passed(x: Any, w: Any, y: Any) -> Any:
        return tf.identity(y)

    found = tf.gradients(passed(x, w, y), [x, w])
    assert given == [x, y.op.inputs[1], y]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [g.tolist() for g in session.run(found)] == [[[1, 1]], [[1], [2]]]
