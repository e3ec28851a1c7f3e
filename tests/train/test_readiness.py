"""What a session asks before it trains is one part of the graph, whoever asks first."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf
from sparkflow.train import readiness


def test_without_local_variables_both_questions_are_one(graph: Any) -> None:
    v = tf.Variable(1.0, name="v")
    scaffold = tf.train.Scaffold().finalize()
    assert scaffold.ready_op is scaffold.ready_for_local_init_op
    assert [op.type for op in graph.get_operations()].count("IsVariableInitialized") == 1
    with tf.Session() as session:
        assert session.run(scaffold.ready_op).tolist() == [b"v"]
        session.run(v.initializer)
        assert session.run(scaffold.ready_op).tolist() == []


def test_local_variables_are_asked_about_besides(graph: Any) -> None:
    v = tf.Variable(1.0, name="v")
    tf.Variable(1.0, name="mine", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    scaffold = tf.train.Scaffold().finalize()
    assert [op.type for op in graph.get_operations()].count("IsVariableInitialized") == 2
    with tf.Session() as session:
        assert session.run(scaffold.ready_op).tolist() == [b"v", b"mine"]
        session.run(v.initializer)
        assert session.run(scaffold.ready_for_local_init_op).tolist() == []
        session.run(scaffold.local_init_op)
        assert session.run(scaffold.ready_op).tolist() == []


def test_a_variable_made_later_is_asked_about(graph: Any) -> None:
    tf.Variable(1.0, name="v")
    with tf.control_dependencies([tf.no_op()]):
        first = readiness.global_variables_missing()
    assert readiness.global_variables_missing() is first
    assert not any(op.control_inputs for op in graph.get_operations())
    tf.Variable(1.0, name="w")
    with tf.Session() as session:
        assert session.run(readiness.global_variables_missing()).tolist() == [b"v", b"w"]


def test_who_waits_for_the_chief_says_for_what(graph: Any, caplog: Any) -> None:
    """A chief that never begins, or a ring whose workers are not all chiefs, would look like one that hangs."""
    tf.Variable(1.0, name="v")
    scaffold = tf.train.Scaffold().finalize()
    manager = tf.train.SessionManager(ready_op=scaffold.ready_op, recovery_wait_secs=0.05)
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after waiting"):
        manager.wait_for_session("", max_wait_secs=0.5)
    said = [r.getMessage() for r in caplog.records if "that the chief initializes" in r.getMessage()]
    assert 1 <= len(said) <= 4 and "Variables not initialized: v" in said[0]
