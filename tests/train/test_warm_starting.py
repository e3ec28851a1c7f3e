"""warm_start: which variables, from which tensors, and new words in the place of old ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.Variable(np.arange(8.0).reshape(4, 2), name="words")
        tf.Variable([1.0, 2.0], name="dense/bias")
        tf.Variable(7, trainable=False, name="count")
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "model")))


@pytest.fixture(autouse=True)
def _graph(graph: Any) -> None: ...


def _values(*variables: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(variables))


def test_trainable_variables_by_a_pattern_or_all_by_a_list(checkpoint: str) -> None:
    bias, count = tf.Variable([0.0, 0.0], name="dense/bias"), tf.Variable(0, trainable=False, name="count")
    other = tf.Variable([0.0, 0.0], name="mine")
    tf.train.warm_start(checkpoint, "bias", var_name_to_prev_var_name={})
    assert [v.tolist() for v in _values(bias, count, other)] == [[1, 2], 0, [0, 0]]
    tf.train.warm_start(checkpoint, ["count", "mine"], var_name_to_prev_var_name={"mine": "dense/bias"})
    assert [v.tolist() for v in _values(bias, count, other)] == [[1, 2], 7, [1, 2]]
    with pytest.raises(ValueError, match=r"names \['mien'\]"):
        tf.train.warm_start(checkpoint, "bias", var_name_to_prev_var_name={"mien": "dense/bias"})
    with pytest.raises(ValueError, match="mine"):
        tf.train.warm_start(checkpoint)  # the checkpoint has no such tensor


@pytest.mark.parametrize("parts", [None, 2])
def test_new_words(checkpoint: str, tmp_path: Path, parts: int | None) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("a\nb\nc\nd\n")
    new.write_text("d\nx\na\nc\nunused\n")
    divide = None if parts is None else tf.fixed_size_partitioner(parts)
    with tf.variable_scope("", partitioner=divide):
        words = tf.get_variable("words", [5, 2], tf.float64)
    ones = tf.ones_initializer()
    info = tf.train.VocabInfo(str(new), 4, 1, str(old), old_vocab_size=3, backup_initializer=ones)
    tf.train.warm_start(checkpoint, None, {"words": info})
    (got,) = _values(tf.convert_to_tensor(words))
    assert got.tolist() == [[1, 1], [1, 1], [0, 1], [4, 5], [1, 1]]  # "d" is not among the first 3 old words
    with pytest.raises(ValueError, match="size 5 along axis 0"):
        tf.train.warm_start(checkpoint, None, {"words": info._replace(num_oov_buckets=2)})


def test_columns_may_be_words_too(checkpoint: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("yes\nno\n")
    new.write_text("no\nmaybe\nyes\n")
    words = tf.get_variable("words", [4, 3], tf.float64)
    tf.train.warm_start(checkpoint, None, {"words": tf.train.VocabInfo(str(new), 3, 0, str(old), axis=1)})
    (got,) = _values(words)
    assert got.tolist() == [[1, 0, 0], [3, 0, 2], [5, 0, 4], [7, 0, 6]]


def test_settings_of_an_estimator(checkpoint: str, tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        bias = tf.get_variable("renamed", [2], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum(bias * features["x"])
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=tf.train.Scaffold())

    settings = tf.estimator.WarmStartSettings(checkpoint, var_name_to_prev_var_name={"renamed": "dense/bias"})
    estimator = tf.estimator.Estimator(model, str(tmp_path / "dir"), warm_start_from=settings)
    estimator.train(lambda: ({"x": tf.ones([2])}, None), max_steps=1)
    assert estimator.get_variable_value("renamed").tolist() == [1, 2]
    with pytest.raises(ValueError, match="WarmStartSettings"):
        tf.estimator.Estimator(model, warm_start_from=3)
