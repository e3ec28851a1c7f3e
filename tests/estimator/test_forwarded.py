"""forward_features and predictors of Estimators: what scripts that score by batches call."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.arange(6, dtype=np.float32).reshape(6, 1)
SPARSE = tf.SparseTensorValue([[0, 0], [2, 1]], np.array([7, 8], np.int64), [6, 2])


def input_fn() -> Any:
    words = tf.SparseTensor(*SPARSE)
    features = {"x": tf.constant(X), "key": tf.constant([f"row {i}" for i in range(6)]), "words": words}
    return features, tf.constant(2 * X)


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    y = tf.layers.dense(features["x"], 1, name="y")
    predictions = {"y": y} if params["dict"] else y
    outputs = {
        name: tf.estimator.export.PredictOutput({"y": value}) for name, value in (("predict", y), ("twice", 2 * y))
    }
    outputs[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY] = outputs["predict"]
    loss = step = None
    if mode != tf.estimator.ModeKeys.PREDICT:
        loss = tf.losses.mean_squared_error(labels, y)
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, step, export_outputs=outputs)


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> Any:
    return tf.estimator.Estimator(model_fn, str(tmp_path / "model"), params={"dict": True}).train(input_fn, steps=3)


def receiver_fn() -> Any:
    features = {"x": tf.placeholder(tf.float32, [None, 1]), "key": tf.placeholder(tf.string, [None])}
    return tf.estimator.export.ServingInputReceiver(features, features)


@pytest.mark.parametrize("keys", ["key", ["key"]])
def test_rows_by_their_keys(trained: Any, tmp_path: pathlib.Path, keys: Any) -> None:
    forwarded = tf.contrib.estimator.forward_features(trained, keys)
    rows = list(forwarded.predict(input_fn))
    assert [row["key"] for row in rows] == [f"row {i}".encode() for i in range(6)]
    assert [row["y"].tolist() for row in rows] == [row["y"].tolist() for row in trained.predict(input_fn)]
    path = forwarded.export_saved_model(str(tmp_path / "exported"), receiver_fn).decode()
    for signature, wanted in (("predict", {"y", "key"}), (None, {"y", "key"}), ("twice", {"y"})):
        predict = tf.contrib.predictor.from_saved_model(path, signature)
        found = predict({"x": X[:2], "key": ["a", "b"]} if "key" in wanted else {"x": X[:2]})
        assert set(found) == wanted
    forwarded.train(input_fn, steps=1)
    assert forwarded.evaluate(input_fn, steps=1)["global_step"] == 4


def test_all_features_with_dense_words(trained: Any) -> None:
    forwarded = tf.contrib.estimator.forward_features(trained, sparse_default_values={"words": -1})
    rows = list(forwarded.predict(input_fn))
    assert [row["words"].tolist() for row in rows[:3]] == [[7, -1], [-1, -1], [-1, 8]]
    assert set(rows[0]) == {"x", "key", "words", "y"}


@pytest.mark.parametrize(
    ("keys", "fill", "says"),
    [
        (None, None, "sparse_default_values what fills it"),
        (["nope"], None, "'nope' is not there"),
        (["y"], None, r"Cannot forward feature key \(y\)"),
        (["x"], {"x": 0}, "expected to be a `SparseTensor`"),
    ],
)
def test_what_cannot_be_forwarded(trained: Any, keys: Any, fill: Any, says: str) -> None:
    def with_y() -> Any:
        features, labels = input_fn()
        return {**features, "y": features["x"]}, labels

    source = with_y if keys == ["y"] else input_fn
    with pytest.raises(ValueError, match=says):
        next(tf.contrib.estimator.forward_features(trained, keys, fill).predict(source))


def test_keys_and_predictions_of_other_types(trained: Any, tmp_path: pathlib.Path) -> None:
    for keys in (3, [1]):
        with pytest.raises(TypeError, match="a string or a list of strings"):
            tf.contrib.estimator.forward_features(trained, keys)
    other = tf.estimator.Estimator(model_fn, str(tmp_path / "other"), params={"dict": False}).train(input_fn, steps=1)
    with pytest.raises(ValueError, match="should be a dict to be able to forward features"):
        next(tf.contrib.estimator.forward_features(other).predict(input_fn))


def test_predictor_of_an_estimator(trained: Any, tmp_path: pathlib.Path) -> None:
    predict = tf.contrib.predictor.from_estimator(trained, receiver_fn)
    wanted = [row["y"] for row in trained.predict(input_fn)]
    for _ in range(2):
        np.testing.assert_array_equal(predict({"x": X})["y"], wanted)
    assert set(predict.fetch_tensors) == {"y"} and set(predict.feed_tensors) == {"x", "key"}
    twice = tf.contrib.predictor.from_estimator(trained, receiver_fn, output_key="twice", graph=tf.Graph())
    np.testing.assert_array_equal(twice({"x": X})["y"], 2 * np.array(wanted))
    with pytest.raises(KeyError, match=r"output_key must be one of \['predict', 'serving_default', 'twice'\]"):
        tf.contrib.predictor.from_estimator(trained, receiver_fn, output_key="nope")
    with pytest.raises(ValueError, match="Could not find trained model"):
        empty = tf.estimator.Estimator(model_fn, str(tmp_path / "empty"), params={"dict": True})
        tf.contrib.predictor.from_estimator(empty, receiver_fn)
    with pytest.raises(TypeError, match=r"instance of `tf\.estimator\.Estimator`"):
        tf.contrib.predictor.from_estimator(model_fn, receiver_fn)


def test_names_that_moved_from_contrib() -> None:
    for name in (
        "call_logit_fn",
        "dnn_logit_fn_builder",
        "linear_logit_fn_builder",
        "make_stop_at_checkpoint_step_hook",
    ):
        assert getattr(tf.contrib.estimator, name) is getattr(tf.estimator.experimental, name)
