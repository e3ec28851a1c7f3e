"""Hooks: when they fire, what they write, and how they end training."""

from __future__ import annotations

import glob
import logging
import os
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

import sparkflow as tf


@pytest.fixture
def model(graph: Any) -> tuple[Any, Any, Any]:
    """(global step, the op that adds 1 to it, a tensor that is the step as float)."""
    step = tf.train.get_or_create_global_step()
    return step, tf.assign_add(step, 1).op, tf.cast(step.value(), tf.float32)


def run_all(session: Any, op: Any, limit: int = 1000) -> int:
    n = 0
    while not session.should_stop() and n < limit:
        session.run(op)
        n += 1
    return n


def events(directory: Any) -> list[Any]:
    return [e for path in sorted(glob.glob(f"{directory}/events*")) for e in LegacyEventFileLoader(path).Load()]


@pytest.mark.parametrize("stop, want", [({"last_step": 7}, 7), ({"num_steps": 3}, 3)])
def test_stop_at_step(model: Any, stop: Any, want: int) -> None:
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(**stop)]) as session:
        assert run_all(session, model[1]) == want
        with pytest.raises(RuntimeError, match="after should_stop"):
            session.run(model[1])


def test_num_steps_count_from_a_restored_checkpoint(model: Any, tmp_path: Any) -> None:
    for want in (3, 6):
        hook = tf.train.StopAtStepHook(num_steps=3)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=[hook]) as session:
            assert run_all(session, model[1]) == 3
        assert tf.train.latest_checkpoint(str(tmp_path)).endswith(f"-{want}")


def test_logging(model: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "sparkflow")
    hooks = [
        tf.train.LoggingTensorHook({"step": model[2]}, every_n_iter=2),
        tf.train.LoggingTensorHook([model[2]], at_end=True, formatter=lambda values: f"end {sorted(values)}"),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        run_all(session, model[1], 5)
    lines = [r.getMessage() for r in caplog.records]
    assert sum(line.startswith("step = ") for line in lines) == 3 and f"end ['{model[2].name}']" in lines


def test_logging_at_the_end_tells_the_seconds_too(model: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "sparkflow")
    hook = tf.train.LoggingTensorHook({"step": model[2]}, every_n_iter=4, at_end=True)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        run_all(session, model[1], 3)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("step = ")]
    assert len(lines) == 2 and lines[1].endswith(" sec)")


def test_nan_ends_training(model: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    hook, nan = tf.train.NanTensorHook(x), tf.train.NanLossDuringTrainingError
    with pytest.raises(nan, match="NaN loss during training"), tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(model[1], {x: 1.0})
        session.run(model[1], {x: np.nan})
    hook = tf.train.NanTensorHook(x, fail_on_nan_loss=False)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(model[1], {x: np.nan})
        assert session.should_stop()


def test_feeds_and_final_ops(model: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    double, final = x * 2.0, tf.train.FinalOpsHook([model[0], x + 1.0], {x: 2.0})
    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: 5.0}), final]) as session:
        assert session.run(double) == 10
        session.run(model[1])
    assert final.final_ops_values == [1, 3]


def test_checkpoints_at_their_steps(model: Any, tmp_path: Any) -> None:
    seen = []

    class Listener(tf.train.CheckpointSaverListener):
        def before_save(self, session: Any, global_step_value: int) -> None:
            seen.append(("before", global_step_value))

        def after_save(self, session: Any, global_step_value: int) -> bool:
            seen.append(("after", global_step_value))
            return global_step_value >= 7

        def end(self, session: Any, global_step_value: int) -> None:
            seen.append(("end", global_step_value))

    saver = tf.train.Saver()
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=3, saver=saver, listeners=[Listener()])
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert run_all(session, model[1]) == 9
    steps = [0, 3, 6, 9]
    assert seen == [(what, s) for s in steps for what in ("before", "after")] + [("end", 9)]
    assert all(os.path.exists(f"{tmp_path}/model.ckpt-{s}.index") for s in steps)
    assert os.path.getsize(tmp_path / "graph.pbtxt") > 0


def test_training_session_writes_its_files(model: Any, tmp_path: Any) -> None:
    tf.summary.scalar("loss", model[2])
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_summaries_steps=5, log_step_count_steps=4, save_checkpoint_steps=100
    ) as session:
        run_all(session, model[1], 12)
    tf.summary.FileWriterCache.clear()
    values = [(v.tag, e.step) for e in events(tmp_path) for v in e.summary.value]
    steps = [step for tag, step in values if tag == "loss"]
    # The step is read somewhere in the run, before or after its own update, so a summary may come one step early.
    assert steps[0] == 1 and len(steps) == 3 and set(np.diff(steps)) <= {4, 5}
    assert [step for tag, step in values if tag == "global_step/sec"] == [5, 9]
    assert sum(e.HasField("graph_def") for e in events(tmp_path)) == 1
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["model.ckpt-0.index", "model.ckpt-12.index"]


def test_timer() -> None:
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(1) and timer.update_last_triggered_step(1) == (None, None)
    assert [s for s in range(1, 6) if timer.should_trigger_for_step(s)] == [4, 5]
    assert timer.update_last_triggered_step(5)[1] == 4 and timer.last_triggered_step() == 5
    by_time = tf.train.SecondOrStepTimer(every_secs=1000)
    by_time.update_last_triggered_step(1)
    assert not by_time.should_trigger_for_step(2)


def test_refusals(graph: Any, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="exactly one of num_steps and last_step"):
        tf.train.StopAtStepHook()
    with pytest.raises(ValueError, match="exactly one of every_secs and every_steps"):
        tf.train.SecondOrStepTimer()
    with pytest.raises(ValueError, match="every_n_iter or every_n_secs"):
        tf.train.LoggingTensorHook([], every_n_iter=1, every_n_secs=1)
    with pytest.raises(ValueError, match="exactly one of scaffold and summary_op"):
        tf.train.SummarySaverHook(save_steps=1)
    with pytest.raises(RuntimeError, match="StopAtStepHook needs a global step"):
        tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(last_step=1)])
    with pytest.raises(TypeError, match="instances of SessionRunHook"):
        tf.train.MonitoredSession(hooks=["hook"])


def test_what_readers_of_events_are_told(model: Any, tmp_path: Any) -> None:
    """A beginning, with which an earlier run's later steps are forgotten; checkpoints; and the graph."""
    tf.summary.scalar("x", model[2])
    for _ in range(2):
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_summaries_steps=1) as session:
            session.run(model[1])
    tf.summary.FileWriterCache.clear()
    starts = [e.step for e in events(tmp_path) if e.session_log.status == tf.SessionLog.START]
    saved = [e.step for e in events(tmp_path) if e.session_log.status == tf.SessionLog.CHECKPOINT]
    kinds = {e.WhichOneof("what") for e in events(tmp_path)}
    assert (starts, saved) == ([1, 2], [0, 1, 1, 2]) and {"graph_def", "meta_graph_def", "summary"} <= kinds


def test_a_hook_may_save_without_the_graph(model: Any, tmp_path: Any) -> None:
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1, saver=tf.train.Saver(), save_graph_def=False)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        session.run(model[1])
    assert (tmp_path / "model.ckpt-1.index").exists()
    assert not [*tmp_path.glob("*.meta"), *tmp_path.glob("graph.pbtxt")]


def test_summaries_keep_their_distance(graph: Any, tmp_path: Any) -> None:
    """Whether a run reads the global step before or after its own update of it."""
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    loss = tf.reduce_sum(weights * weights)
    tf.summary.scalar("loss", loss)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), save_checkpoint_steps=5, save_summaries_steps=3, log_step_count_steps=None
    ) as session:
        for _ in range(11):
            session.run(train_op)
    written = [e.step for e in events(tmp_path) if any(v.tag == "loss" for v in e.summary.value)]
    assert written == [1, 4, 7, 10]


def test_the_callers_hooks_find_what_was_saved(model: Any, tmp_path: Any) -> None:
    """The session's own hooks come before them, after each run and at the end."""

    class Look(tf.train.SessionRunHook):
        found: tuple[str, ...] = ()

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.end(run_context.session)

        def end(self, session: Any) -> None:
            self.found += (os.path.basename(tf.train.latest_checkpoint(str(tmp_path))),)

    look = Look()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=[look], save_checkpoint_steps=2, save_summaries_steps=None
    ) as session:
        run_all(session, model[1], 3)
    assert look.found == ("model.ckpt-0", "model.ckpt-2", "model.ckpt-2", "model.ckpt-3")


def test_no_checkpoint_is_of_a_step_that_found_nan(model: Any, tmp_path: Any) -> None:
    loss = tf.constant(2.0) - model[2]
    watch = tf.train.NanTensorHook(tf.sqrt(loss))
    session = tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=[watch], save_checkpoint_steps=1, save_summaries_steps=None
    )
    with pytest.raises(tf.train.NanLossDuringTrainingError), session:
        run_all(session, model[1], 9)
    last = tf.train.load_variable(str(tmp_path), "global_step")
    assert last <= 2


@pytest.mark.parametrize("saves", [True, False])
def test_summaries_come_with_their_graph(model: Any, tmp_path: Any, saves: bool) -> None:
    """Once in each directory, whether checkpoints are there, elsewhere, or nowhere; and anew for another graph."""
    tf.summary.scalar("x", model[2])
    folders = {"checkpoint_dir": str(tmp_path / "kept")} if saves else {}
    for _ in range(2):
        with tf.train.MonitoredTrainingSession(summary_dir=str(tmp_path / "shown"), **folders) as session:
            session.run(model[1])

    def graphs(name: str) -> int:
        return sum(e.HasField("graph_def") for e in events(tmp_path / name))

    assert graphs("shown") == 1 and graphs("kept") == saves
    with tf.Graph().as_default():
        add = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        with tf.train.MonitoredTrainingSession(summary_dir=str(tmp_path / "shown")) as session:
            session.run(add)
    assert graphs("shown") == 2
