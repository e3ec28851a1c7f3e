"""basic_train_loop, event files read again, the age of checkpoints, and layers of separable rows."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_a_loop_over_a_supervisors_session(graph: Any, tmp_path: Path) -> None:
    """To its end, in a new session after AbortedError."""
    step = tf.train.get_or_create_global_step()
    add = tf.assign_add(step, 1)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    aborted: list[int] = []

    def train(session: Any, most: int, stop: Any) -> None:
        found = session.run(add)
        if not aborted:
            aborted.append(found)
            raise tf.errors.AbortedError(None, None, "a task went away")
        if found >= most:
            stop()

    tf.train.basic_train_loop(supervisor, train, (3,), {"stop": supervisor.request_stop})
    assert aborted == [1]


def test_events_are_read_in_their_order(graph: Any, tmp_path: Path) -> None:
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(3):
            value = tf.Summary.Value(tag="loss", simple_value=step * 0.5)
            writer.add_summary(tf.Summary(value=[value]), step)
    (name,) = os.listdir(tmp_path)
    events = list(tf.train.summary_iterator(str(tmp_path / name)))
    assert events[0].file_version == "brain.Event:2"
    assert [(e.step, e.summary.value[0].simple_value) for e in events[1:]] == [(0, 0), (1, 0.5), (2, 1)]
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.train.summary_iterator(str(tmp_path / "none")))


def test_the_age_of_checkpoints(graph: Any, tmp_path: Path) -> None:
    v = tf.get_variable("v", [])
    with tf.Session() as session:
        session.run(v.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "m"), 1)
    (written,) = tf.train.get_checkpoint_mtimes([path, str(tmp_path / "none")])
    assert abs(written - time.time()) < 60


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_a_separable_layer_of_rows(graph: Any, data_format: str) -> None:
    """Each channel by its own filter, then a matrix of the channels."""
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    given = x if data_format == "channels_last" else x.transpose(0, 2, 1)
    layer = tf.layers.SeparableConv1D(4, 3, data_format=data_format, name="s")
    out = layer(tf.constant(given))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, deep, flat = session.run([out, layer.depthwise_kernel, layer.pointwise_kernel])
    each = sum(x[:, k : k + 5] * deep[k, :, 0] for k in range(3))
    rows = found if data_format == "channels_last" else found.transpose(0, 2, 1)
    np.testing.assert_allclose(rows, each @ flat[0], rtol=1e-4, atol=1e-5)
    assert [v.name for v in tf.trainable_variables()] == ["s/depthwise_kernel:0", "s/pointwise_kernel:0", "s/bias:0"]
