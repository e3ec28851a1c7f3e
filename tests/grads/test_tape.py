"""tf.GradientTape in a graph. Values are TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def own_graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_what_was_watched_and_recorded_counts() -> None:
    x, other = tf.constant(3.0), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        before = x * 2.0
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            aside = y * 2.0
        w = y * x * other * before
    assert tape.gradient(aside, x) is None and tape.gradient(w, other) is None and tape.gradient(w, before) is None
    assert _run(tape.gradient(w, [x, y])) == [324.0, 36.0]
    assert _run(tape.gradient(w, {"a": x}, output_gradients=tf.constant(2.0))) == {"a": 648.0}
    assert _run(tape.gradient(aside, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)) == 0.0
    assert _run(tape.gradient({"t": [y, y]}, x)) == 12.0


def test_variables() -> None:
    v, u = tf.Variable(2.0), tf.Variable(1.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v * u
    assert tape.watched_variables() == (v,)
    dv, du = tape.gradient(y, [v, u])
    assert du is None and _run(dv) == 4.0
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        z = v * u
        tape.watch(u)
        y = v * u
    assert tape.gradient(y, v) is None and _run(tape.gradient(y, u)) == 2.0 and tape.watched_variables() == (u,)
    table = tf.Variable(np.ones((4, 2), np.float32))
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup(table, [1, 1])
    assert isinstance(tape.gradient(rows, table), tf.IndexedSlices) and z is not None


def test_tapes_in_tapes() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        dy = inner.gradient(y, x)
    assert _run([dy, outer.gradient(dy, x)]) == [27.0, 18.0]


def test_one_use_where_it_is_not_persistent() -> None:
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match="can only be used to compute one set of gradients"):
        tape.gradient(y, x)
    with pytest.raises(ValueError, match="already recording"), tape, tape:
        pass
    with pytest.raises(ValueError, match="Passed in object 3"):
        tape.watch(3)


def test_loops() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, tf.constant(1.0)])
        with tape.stop_recording():
            _, z = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, tf.constant(1.0)])
    assert _run(tape.gradient(y, x)) == 12.0 and tape.gradient(z, x) is None


def test_jacobians() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        cubes, product = x * x * x, tf.matmul(x, x)
    wanted = [[[[2, 3], [2, 0]], [[2, 5], [0, 2]]], [[[3, 0], [5, 3]], [[0, 3], [2, 8]]]]
    of_product, of_cubes = tape.jacobian(product, x), tape.batch_jacobian(cubes, x)
    assert of_product.shape == (2, 2, 2, 2) and of_cubes.shape == (2, 2, 2)
    assert _run(of_product).tolist() == wanted
    assert _run(of_cubes).tolist() == [[[3, 0], [0, 12]], [[27, 0], [0, 48]]]
    assert tape.jacobian(tf.constant(1.0), x) is None
    assert _run(tape.jacobian(tf.constant(1.0), x, unconnected_gradients="zero")).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="first dimension"):
        tape.batch_jacobian(tf.ones([3, 2]), x)
