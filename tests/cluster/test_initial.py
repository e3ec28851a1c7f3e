"""What a model function needs initialized beside its variables: look-up tables, local variables, a Scaffold's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkflow as tf

MODES = tf.estimator.ModeKeys
USERS = np.arange(1200) % 100
TABLE = pd.DataFrame({"user": USERS + 7, "click": (USERS % 3 == 0).astype(np.float32)})
GIVEN = np.arange(100, dtype=np.float32)


def _spec(features: Any, labels: Any, mode: str, ids: Any, **more: Any) -> Any:
    score = tf.squeeze(tf.layers.dense(tf.nn.embedding_lookup(tf.get_variable("e", [100, 4]), ids), 1), 1)
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": score, "id": ids})
    loss = tf.losses.sigmoid_cross_entropy(labels, score)
    if mode == MODES.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    right = tf.metrics.accuracy(labels, score > 0)[1]  # its sums are local variables
    train_op = tf.train.AdagradOptimizer(0.5).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, right), **more)


def _by_table(features: Any, labels: Any, mode: str) -> Any:
    keys = tf.range(7, 107, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys - 7), -1)
    return _spec(features, labels, mode, table.lookup(features["user"]))


def _by_scaffold(features: Any, labels: Any, mode: str) -> Any:
    """Begins with a variable that is fed, one that a function assigns, and a local one of an op of its own."""
    if mode != MODES.TRAIN:
        return _spec(features, labels, mode, features["user"] - 7)
    rows = tf.placeholder(tf.float32, [100])
    fed = tf.get_variable("fed", initializer=rows, trainable=False)
    other = tf.get_variable("other", [100], trainable=False)
    assign = tf.assign(other, fed + 1)
    own = tf.get_variable("own", [], tf.int64, tf.zeros_initializer(), collections=[tf.GraphKeys.LOCAL_VARIABLES])
    start = tf.group(tf.local_variables_initializer(), own.initializer)
    with tf.control_dependencies([start]):
        start = tf.assign(own, 7).op

    def init(scaffold: Any, session: Any) -> None:
        session.run(assign)

    scaffold = tf.train.Scaffold(init_feed_dict={rows: GIVEN}, init_fn=init, local_init_op=start)
    spec = _spec(features, labels, mode, features["user"] - own, scaffold=scaffold)
    metric = tf.get_collection(tf.GraphKeys.LOCAL_VARIABLES)[-2:]
    return spec._replace(scaffold=tf.train.Scaffold(
        local_init_op=tf.group(start, *(v.initializer for v in metric)), copy_from_scaffold=scaffold
    ))  # fmt: skip


def _trained(model_fn: Any, path: Path, epochs: int = 3) -> Any:
    options = {"label": "click", "workers": 2, "sync": False, "epochs": epochs, "batch_size": 32}
    return tf.local.train(TABLE, model_fn, checkpoint_dir=str(path), **options)


@pytest.mark.parametrize("model_fn", [_by_table, _by_scaffold])
def test_what_a_model_function_needs_is_initialized(tmp_path: Path, none_left: Any, model_fn: Any) -> None:
    model = _trained(model_fn, tmp_path)
    found = model.transform(TABLE)
    assert (found["id"] == USERS).all() and ((found["score"] > 0) == (found["click"] > 0)).mean() > 0.95
    assert model.figures["history"][-1]["validation_loss"] < 0.2
    none_left()


@pytest.mark.slow
def test_a_scaffold_says_how_a_training_begins_and_not_how_it_goes_on(tmp_path: Path) -> None:
    _trained(_by_scaffold, tmp_path, 1)
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert (reader.get_tensor("fed") == GIVEN).all() and (reader.get_tensor("other") == GIVEN + 1).all()

    def again(features: Any, labels: Any, mode: str) -> Any:
        spec = _by_scaffold(features, labels, mode)
        if mode != MODES.TRAIN:
            return spec

        def refuse(scaffold: Any, session: Any) -> None:
            raise ValueError("it goes on")

        return spec._replace(scaffold=tf.train.Scaffold(init_fn=refuse, copy_from_scaffold=spec.scaffold))

    _trained(again, tmp_path, 2)
    with pytest.raises(tf.errors.OpError, match="it goes on"):
        _trained(again, tmp_path / "anew", 1)
