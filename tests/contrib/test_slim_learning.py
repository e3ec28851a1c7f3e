"""Training loops and evaluations of tf.contrib.slim and tf.contrib.training."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

slim = tf.contrib.slim


def regression() -> Any:
    """The loss of a slope and a bias to be learned, 2 and 1."""
    x = tf.constant(np.linspace(-1, 1, 8, dtype=np.float32)[:, None])
    predictions = slim.fully_connected(x, 1, activation_fn=None, scope="line")
    slim.losses.mean_squared_error(predictions, 2 * x + 1)
    return slim.losses.get_total_loss()


def test_train_runs_to_the_step_and_goes_on_from_its_checkpoint(graph: Any, tmp_path: Path) -> None:
    losses = []
    for steps, more in ((30, {"log_every_n_steps": 10}), (60, {"save_summaries_secs": 60})):
        with tf.Graph().as_default():  # the Supervisor makes the first final
            loss = regression()
            op = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.3))
            tf.summary.scalar("loss", loss)  # not of `op`: the thread of summaries would make a step more
            losses.append(slim.learning.train(op, str(tmp_path), number_of_steps=steps, **more))
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / f"model.ckpt-{steps}")
    assert losses[1] < losses[0] < 0.1
    assert any("tfevents" in name for name in os.listdir(tmp_path))


def test_train_without_a_folder_saves_nothing(graph: Any) -> None:
    op = slim.learning.create_train_op(regression(), tf.train.GradientDescentOptimizer(0.3))
    steps: list[int] = []

    def step(sess: Any, *args: Any) -> Any:
        steps.append(1)
        return slim.learning.train_step(sess, *args)

    assert slim.learning.train(op, None, train_step_fn=step, number_of_steps=5) > 0 and len(steps) == 5


def test_train_ends_with_the_data(graph: Any, tmp_path: Path) -> None:
    number = tf.train.limit_epochs(tf.constant(1.0), 3)
    loss = tf.square(tf.get_variable("v", [], initializer=tf.zeros_initializer()) - number)
    op = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.25))
    assert slim.learning.train(op, str(tmp_path)) == 0.0625
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-3")


def test_train_says_what_is_wrong(graph: Any) -> None:
    op = slim.learning.create_train_op(regression(), tf.train.GradientDescentOptimizer(0.3))
    with pytest.raises(ValueError, match="train_op cannot be None"):
        slim.learning.train(None, None)
    with pytest.raises(ValueError, match="saver because logdir=None"):
        slim.learning.train(op, None, saver=tf.train.Saver())
    with pytest.raises(ValueError, match="a positive number, got 0"):
        slim.learning.train(op, None, number_of_steps=0)
    with pytest.raises(ValueError, match=r"must be a tf\.train\.SyncReplicasOptimizer"):
        slim.learning.train(op, None, sync_optimizer=tf.train.AdamOptimizer())


def test_gradients_are_multiplied_and_clipped_one_by_one(graph: Any) -> None:
    a, b = (tf.get_variable(n, [2], initializer=tf.zeros_initializer()) for n in "ab")
    rows = tf.get_variable("rows", [3, 1], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(3 * a + 4 * b) + tf.reduce_sum(tf.nn.embedding_lookup(rows, [1]) * 5)
    op = slim.learning.create_train_op(
        loss, tf.train.GradientDescentOptimizer(1.0), clip_gradient_norm=1.0, gradient_multipliers={"a": 0.1}
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(op)
        found = session.run([a, b, rows])
        assert session.run(tf.train.get_global_step()) == 1
    np.testing.assert_allclose(found[0], -0.3)
    np.testing.assert_allclose(found[1], -np.sqrt(0.5), rtol=1e-6)
    np.testing.assert_allclose(found[2], [[0], [-1], [0]])


def test_a_train_op_runs_updates_and_refuses_losses_that_are_no_numbers(graph: Any) -> None:
    counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer(), trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(counter, 1.0))
    given = tf.placeholder(tf.float32, [])
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    op = tf.contrib.training.create_train_op(
        v * given, tf.train.GradientDescentOptimizer(1.0), summarize_gradients=True
    )
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP)[-1] is op and len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(op, {given: 1.0})
        assert session.run(counter) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
            session.run(op, {given: np.nan})


def test_multiply_gradients_says_what_is_wrong(graph: Any) -> None:
    v = tf.get_variable("v", [])
    for pairs, factors, text in (
        (((v, v),), {v: 1.0}, "must be a list"), ([(v, v)], {}, "must be a dict"), ([(None, v)], {v: 1.0}, "None"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            tf.contrib.training.multiply_gradients(pairs, factors)


def test_contrib_training_trains_with_hooks_and_evaluates_what_it_saved(graph: Any, tmp_path: Path) -> None:
    op = tf.contrib.training.create_train_op(regression(), tf.train.GradientDescentOptimizer(0.3))
    hooks = [tf.train.StopAtStepHook(20)]
    last = tf.contrib.training.train(op, str(tmp_path), hooks=hooks, save_checkpoint_secs=60)
    with tf.Graph().as_default():
        loss = regression()
        mean, update = slim.metrics.streaming_mean(loss)
        tf.summary.scalar("eval_loss", mean)
        for found in (
            slim.evaluation.evaluation_loop(
                "", str(tmp_path), str(tmp_path / "eval"), num_evals=4, eval_op=update, final_op=mean,
                max_number_of_evaluations=1,
            ),
            tf.contrib.training.evaluate_once(
                tf.train.latest_checkpoint(str(tmp_path)), eval_ops=[update], final_ops=mean,
                hooks=[tf.contrib.training.StopAfterNEvalsHook(2)],
            ),
        ):  # fmt: skip
            assert 0 < found < last
    assert any("tfevents" in name for name in os.listdir(tmp_path / "eval"))
    with pytest.raises(ValueError, match="logdir cannot be None"):
        tf.contrib.training.train(op, None)


def test_checkpoints_are_found_once_each(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [])
        session.run(v.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "m"), 7)
    assert list(tf.train.checkpoints_iterator(str(tmp_path), timeout=0)) == [path]
    ends = iter([False, True])
    assert list(tf.train.checkpoints_iterator(str(tmp_path / "none"), timeout=0, timeout_fn=lambda: next(ends))) == []


def test_steps_are_traced_into_files(graph: Any, tmp_path: Path) -> None:
    op = slim.learning.create_train_op(regression(), tf.train.GradientDescentOptimizer(0.3))
    slim.learning.train(op, str(tmp_path), number_of_steps=5, trace_every_n_steps=2)
    traces = sorted(name for name in os.listdir(tmp_path) if name.startswith("tf_trace-"))
    assert len(traces) == 3 and all("traceEvents" in json.loads((tmp_path / name).read_text()) for name in traces)


def test_summaries_at_the_end_come_with_the_graph(graph: Any, tmp_path: Path) -> None:
    tf.summary.scalar("bread", 3.5)
    hook = tf.contrib.training.SummaryAtEndHook(log_dir=str(tmp_path))
    hook.begin()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        hook.after_create_session(session, None)
        hook.end(session)
    events = [e for path in tmp_path.iterdir() for e in tf.train.summary_iterator(str(path))]
    assert any(e.graph_def for e in events) and [v.tag for e in events for v in e.summary.value] == ["bread"]
