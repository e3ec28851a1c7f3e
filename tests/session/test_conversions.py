"""Sessions fetch and feed a program's own types, as it registers them."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.python.client.session import register_session_run_conversion_functions

pytestmark = pytest.mark.usefixtures("graph")


class Pair:
    def __init__(self) -> None:
        self.a, self.b = tf.placeholder(tf.float32, name="a"), tf.placeholder(tf.float32, name="b")


def test_a_type_of_the_program() -> None:
    register_session_run_conversion_functions(
        Pair, lambda p: ([p.a, p.b], lambda values: sum(values)), lambda p, value: [(p.a, value), (p.b, 2 * value)]
    )
    with pytest.raises(ValueError, match="already been registered"):
        register_session_run_conversion_functions(Pair, lambda p: ([p.a], sum))
    pair = Pair()
    with tf.Session() as session:
        assert session.run({"sum": pair, "a": pair.a}, {pair: 2.0}) == {"sum": 6, "a": 2}


def test_tensors_are_no_arrays() -> None:
    with pytest.raises(NotImplementedError, match="Cannot convert a symbolic"):
        np.asarray(tf.constant(1.0))


def test_numbers_as_objects() -> None:
    """As the values of a table are whose columns have several types."""
    x, n = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32)
    with tf.Session() as session:
        fed = session.run([x, n], {x: np.array([[1, 2.5], [True, np.float64(3)]], object), n: np.array(7, object)})
        assert fed[0].tolist() == [[1, 2.5], [1, 3]] and fed[0].dtype == np.float32 and fed[1] == 7
        for wrong in ([[1, None]], [[1, "2"]], [[1, [2]]]):
            with pytest.raises(ValueError, match=r"object|inhomogeneous"):
                session.run(x, {x: np.array([*wrong, [0, 0]], object)[:1]})
