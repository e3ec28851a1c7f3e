"""Parts of models of one's own: logits of the canned ones, and the end of a training by its checkpoint."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sparkflow as tf

X, fc = tf.estimator.experimental, tf.feature_column
pytestmark = pytest.mark.usefixtures("graph")


def test_logits_of_canned_models_in_the_scope_around() -> None:
    """The names are TensorFlow's."""
    words = fc.categorical_column_with_vocabulary_list("c", ["a", "b"])
    features = {"x": tf.constant([[1.0], [2.0]]), "c": tf.constant([["a"], ["b"]])}
    deep = X.dnn_logit_fn_builder(
        2, [3], [fc.numeric_column("x"), fc.embedding_column(words, 2)], tf.nn.relu, None, None, False
    )
    wide = X.linear_logit_fn_builder(2, [fc.numeric_column("x"), words])
    with tf.variable_scope("s"):
        found = X.call_logit_fn(deep, features, "train", {}, None)
    assert found.shape == wide(features).shape == [2, 2]
    assert [v.op.name for v in tf.global_variables()] == [
        "s/input_from_feature_columns/input_layer/c_embedding/embedding_weights", "s/hiddenlayer_0/kernel",
        "s/hiddenlayer_0/bias", "s/logits/kernel", "s/logits/bias", "linear_model/c/weights", "linear_model/x/weights",
        "linear_model/bias_weights",
    ]  # fmt: skip


def test_what_a_logit_fn_is_given_and_returns() -> None:
    x = tf.constant([1.0])
    named = X.call_logit_fn(
        lambda features, params: {"a": features["x"] * params["k"]}, {"x": x}, "eval", {"k": 2}, None
    )
    with tf.Session() as session:
        assert session.run(named) == {"a": [2.0]}
    with pytest.raises(ValueError, match="logit_fn should return a Tensor or a dictionary"):
        X.call_logit_fn(lambda features: 3, {"x": x}, "eval", {}, None)
    with pytest.raises(ValueError, match="units must be an int"):
        X.dnn_logit_fn_builder(2.0, [3], [], tf.nn.relu, None, None, False)


def test_a_worker_stops_when_the_step_is_in_a_checkpoint(tmp_path: Path) -> None:
    config = SimpleNamespace(is_chief=True)
    estimator: Any = SimpleNamespace(config=config, model_dir=str(tmp_path))
    assert isinstance(X.make_stop_at_checkpoint_step_hook(estimator, 3), tf.train.StopAtStepHook)
    config.is_chief = False
    hook = X.make_stop_at_checkpoint_step_hook(estimator, 3, wait_after_file_check_secs=0)
    step = tf.train.create_global_step()
    more, saver, made = tf.assign_add(step, 1), tf.train.Saver(), 0
    with tf.train.SingularMonitoredSession([hook]) as session:
        while not session.should_stop():
            made = session.run(more)
            if made == 5:
                saver.save(session.raw_session(), str(tmp_path / "model.ckpt"))
    assert made in (5, 6)  # the step is read beside the one that is added
