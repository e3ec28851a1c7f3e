"""Paths may be bytes, as what Estimator.export_saved_model returns is, or of pathlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(params=["bytes", "Path"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Any]:
    return (lambda name: str(tmp_path / name).encode()) if request.param == "bytes" else lambda name: tmp_path / name


def test_checkpoints(given: Any, tmp_path: Path, graph: Any) -> None:
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = str(tmp_path / "model-3")
        assert saver.save(session, given("model"), global_step=3) == prefix
        session.run(v.assign([5.0, 5.0]))
        saver.restore(session, given("model-3"))
        assert session.run(v).tolist() == [1.0, 1.0]
    assert tf.train.latest_checkpoint(given("")) == prefix
    assert tf.train.checkpoint_exists(given("model-3")) and not tf.train.checkpoint_exists(given("model-4"))
    assert tf.train.list_variables(given("model-3")) == tf.train.list_variables(given("")) == [("v", [2])]
    assert tf.train.NewCheckpointReader(given("model-3")).get_tensor("v").tolist() == [1.0, 1.0]
    assert tf.train.load_checkpoint(given("")).has_tensor("v") and tf.train.load_variable(given(""), "v").size == 2
    with tf.Graph().as_default() as other:
        tf.train.import_meta_graph(given("model-3.meta"))
        assert other.get_operation_by_name("v")
        assert Path(tf.train.write_graph(other, given("graphs"), "g.pb")).is_file()
    tf.train.update_checkpoint_state(given(""), given("model-3"))
    assert tf.train.get_checkpoint_state(given("")).model_checkpoint_path == prefix


def test_saved_models(given: Any, graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x * tf.get_variable("two", [], initializer=tf.constant_initializer(2.0))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, given("export"), {"x": x}, {"y": y})
    assert tf.saved_model.loader.maybe_saved_model_directory(given("export"))
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.loader.load(session, ["serve"], given("export"))
    assert tf.contrib.predictor.from_saved_model(given("export"))({"x": [1.0]})["y"].tolist() == [2.0]
    model = tf.local.load_model(given("export"))
    assert model.predict({"x": np.ones(2, np.float32)})["y"].tolist() == [2.0, 2.0]


def test_records_and_events(given: Any, tmp_path: Path, graph: Any) -> None:
    with tf.python_io.TFRecordWriter(given("a.tfrecord")) as writer:
        writer.write(b"one")
    assert list(tf.python_io.tf_record_iterator(given("a.tfrecord"))) == [b"one"]
    one = tf.data.TFRecordDataset(given("a.tfrecord"))
    two = tf.data.TextLineDataset([given("a.txt"), given("a.txt")])
    (tmp_path / "a.txt").write_text("line\n")
    tf.summary.FileWriter(given("events")).close()
    (file,) = (tmp_path / "events").iterdir()
    assert len(list(tf.train.summary_iterator(given(f"events/{file.name}")))) == 1
    with tf.Session() as session:
        assert session.run(one.make_one_shot_iterator().get_next()) == b"one"
        lines = two.make_one_shot_iterator().get_next()
        assert [session.run(lines) for _ in range(2)] == [b"line"] * 2
