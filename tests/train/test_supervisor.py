"""Supervisor: what the chief writes and starts, what others do not, and the names that old scripts use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.summary import SessionLog


def _events(folder: Path) -> list[Any]:
    (name,) = (n for n in os.listdir(folder) if n.startswith("events"))
    return list(tf.train.summary_iterator(str(folder / name)))


def test_what_the_chief_leaves_in_its_folder(graph: Any, tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    add = tf.assign_add(step, 1)
    tf.summary.scalar("twice", 2 * step)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0.05, save_model_secs=0.05)
    with supervisor.managed_session() as session:
        while not {"twice", "global_step/sec"} <= {v.tag for e in _events(tmp_path) for v in e.summary.value}:
            session.run(add)
            supervisor.summary_writer.flush()
        while not tf.train.latest_checkpoint(str(tmp_path)):
            session.run(add)
    assert "graph.pbtxt" in os.listdir(tmp_path)
    logs = [e.session_log.status for e in _events(tmp_path) if e.HasField("session_log")]
    assert logs[0] == SessionLog.START and logs[-1] == SessionLog.STOP and SessionLog.CHECKPOINT in logs
    assert any(e.graph_def for e in _events(tmp_path))


def test_who_is_not_the_chief_writes_nothing(graph: Any, tmp_path: Path) -> None:
    with tf.device("/job:localhost/task:0"):
        tf.get_variable("v", [])
    supervisor = tf.train.Supervisor(is_chief=False, logdir=str(tmp_path))
    assert supervisor.summary_writer is supervisor.save_path is supervisor.save_model_secs is None
    with tf.Session() as session, pytest.raises(RuntimeError, match="Only chief"):
        supervisor.start_standard_services(session)
    assert os.listdir(tmp_path) == []


def test_a_variable_that_no_chief_would_initialize_is_refused(graph: Any) -> None:
    tf.get_variable("v", [])
    with pytest.raises(ValueError, match="device set: 'v'"):
        tf.train.Supervisor(is_chief=False)


def test_ops_come_from_their_collections_and_the_graph_is_final(graph: Any) -> None:
    v = tf.get_variable("v", [])
    tf.add_to_collection(tf.GraphKeys.INIT_OP, tf.assign(v, 7.0).op)
    supervisor = tf.train.Supervisor(save_model_secs=0)
    assert supervisor.init_op is tf.get_collection(tf.GraphKeys.INIT_OP)[0]
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1)
    with supervisor.PrepareSession() as session:
        assert session.run(v) == 7 and not supervisor.ShouldStop()
        supervisor.RequestStop()
        supervisor.WaitForStop()
        supervisor.Stop()
