"""Compiled models as Estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.keras.training_programs import X, Y

keras, la = tf.keras, tf.keras.layers


def _input(shuffle: bool = False) -> Any:
    return tf.estimator.inputs.numpy_input_fn(
        {"a": X}, Y, batch_size=25, num_epochs=None if shuffle else 1, shuffle=shuffle
    )


@pytest.mark.parametrize("optimizer", ["adam", "train"])
def test_a_model_is_trained_by_its_estimator(tmp_path: Path, optimizer: str) -> None:
    keras.backend.clear_session()
    a = keras.Input((6,), name="a")
    h = la.BatchNormalization()(la.Dense(5, activation="tanh", kernel_regularizer="l2")(a))
    model = keras.Model(a, la.Dense(1, activation="sigmoid", name="out")(la.Dropout(0.1)(h)))
    rule = keras.optimizers.Adam(0.05) if optimizer == "adam" else tf.train.AdamOptimizer(0.05)
    model.compile(rule, "binary_crossentropy", metrics=["accuracy"])
    want = model.predict(X)
    loss = model.evaluate(X, Y, 25, verbose=0)
    estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "model"))
    estimator.train(_input(True), steps=1)  # begins with the model's own weights
    begun = np.array([p["out"] for p in estimator.predict(_input())])
    assert np.abs(begun - want).max() < 0.3
    estimator.train(_input(True), steps=150)
    found = estimator.evaluate(_input())
    assert found["global_step"] == 151 and found["acc"] > 0.9 and found["loss"] < 0.8 * loss[0]
    moved = [n for n in estimator.get_variable_names() if n.endswith("moving_mean")]
    assert np.abs(estimator.get_variable_value(moved[0])).max() > 0.01
    served = estimator.export_saved_model(
        str(tmp_path / "served"),
        tf.estimator.export.build_raw_serving_input_receiver_fn({"a": tf.placeholder(tf.float32, [None, 6])}),
    )
    with tf.Session(graph=tf.Graph()) as session:
        meta = tf.saved_model.loader.load(session, ["serve"], served.decode())
        signature = meta.signature_def["serving_default"]
        out = session.run(signature.outputs["out"].name, {signature.inputs["a"].name: X})
    np.testing.assert_allclose(out, [p["out"] for p in estimator.predict(_input())], rtol=1e-5)


def test_what_no_estimator_is_made_of(graph: Any) -> None:
    with pytest.raises(ValueError, match="Give either"):
        keras.estimator.model_to_estimator()
    with pytest.raises(ValueError, match="has not been compiled yet"):
        keras.estimator.model_to_estimator(keras.Sequential([la.Dense(1, input_shape=(6,))]))
