"""Signals that ask for a checkpoint."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import sparkflow as tf


def test_a_signal_saves_and_another_ends(tmp_path: Path, graph: tf.Graph) -> None:
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    hook = tf.train.CheckpointOnSignalHook(str(tmp_path), scaffold=(scaffold := tf.train.Scaffold()))
    before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1)}
    with tf.train.SingularMonitoredSession([hook], scaffold) as session:
        session.run(count)
        assert tf.train.latest_checkpoint(str(tmp_path)) is None
        os.kill(os.getpid(), signal.SIGUSR1)
        session.run(count)
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
        assert not session.should_stop()
        session.run(count)
        os.kill(os.getpid(), signal.SIGTERM)
        session.run(count)
        assert session.should_stop()
    assert tf.train.load_variable(str(tmp_path), "global_step") == 4
    assert {s: signal.getsignal(s) for s in before} == before
