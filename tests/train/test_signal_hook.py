"""Signals that ask for a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import sparkflow as tf

WAITS_WITHOUT_END = """
import sys
import threading
import sparkflow as tf

count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
never = tf.FIFOQueue(1, tf.int32).dequeue()
hook = tf.train.CheckpointOnSignalHook(sys.argv[1], patience_s=0.1, scaffold=(scaffold := tf.train.Scaffold()))
with tf.train.SingularMonitoredSession([hook], scaffold) as session:
    session.run(count)
    print("waits", flush=True)
    session.run(never)
"""


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
    for thread in threading.enumerate():
        if thread.name == "sparkflow-save-on-signal":
            thread.join(10)
            assert not thread.is_alive()


def test_a_step_that_does_not_end_keeps_nobody_from_saving(tmp_path: Path) -> None:
    """As a synchronous chief's, when a scheduler ends all workers at once."""
    command = [sys.executable, "-c", WAITS_WITHOUT_END, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "waits\n"
            process.terminate()
            assert process.wait(20) == -signal.SIGTERM
        finally:
            process.kill()
    assert tf.train.load_variable(str(tmp_path), "global_step") == 1
