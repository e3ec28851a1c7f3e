"""tf.xla and tf.contrib.compiler: scopes that change nothing, and functions called through them."""

from __future__ import annotations

import pytest

import sparkflow as tf


def test_scopes_change_nothing(graph: tf.Graph) -> None:
    with tf.xla.experimental.jit_scope(), tf.contrib.compiler.jit.experimental_jit_scope(compile_ops=False):
        total = tf.add(tf.constant(1.0), 2.0)
    with tf.Session() as session:
        assert total.op.name == "Add" and session.run(total) == 3


def test_a_compiled_function_gives_tensors(graph: tf.Graph) -> None:
    variable = tf.Variable(1.0)
    both = tf.xla.experimental.compile(lambda x, y: (x + y, variable.assign_add(x).op), [2.0, tf.constant(5.0)])
    pair = tf.contrib.compiler.xla.compile(lambda: {"a": tf.constant(1)})
    assert tf.xla.experimental.compile(lambda: None).type == "NoOp"
    assert isinstance(tf.xla.experimental.compile(lambda: (tf.constant(1), 2)), list)
    nested = tf.xla.experimental.compile(lambda: {"a": (tf.constant(1), tf.no_op())})
    assert nested["a"][1].type == "NoOp" and nested["a"][0].shape == ()
    (one,) = tf.xla.experimental.compile(lambda x: x * 2, inputs=[tf.constant(4)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(both) == [7] and session.run(variable) == 3
        assert session.run(pair) == {"a": 1} and session.run(one) == 8
    with pytest.raises(TypeError, match="must be a list"):
        tf.xla.experimental.compile(lambda x: x, 3)


def test_what_is_no_function_or_op_type_is_refused(graph: tf.Graph) -> None:
    with pytest.raises(ValueError, match="func to be callable, got 3"):
        tf.py_func(3, [], tf.float32)
    for register in (tf.RegisterGradient, tf.NotDifferentiable):
        with pytest.raises(TypeError, match="op_type must be a string"):
            register(3)


def test_types_have_their_functions(graph: tf.Graph) -> None:
    assert tf.dtypes.complex is tf.complex and tf.quint8 in tf.dtypes.QUANTIZED_DTYPES
