"""Canned estimators reach what TensorFlow 1.15's reach: the metrics below are its own, after as many steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

E, fc = tf.estimator, tf.feature_column
N = 60
X = np.cos(np.arange(N * 2)).reshape(N, 2).astype(np.float32)
WORDS = np.array(["a", "b", "c"], object)[np.arange(N) % 3]
WEIGHTS = (np.arange(N) % 4).astype(np.float32)
BINARY = (X[:, 0] + 0.3 * np.sin(np.arange(N) * 7) > 0).astype(np.int64)
NUMBER = (X[:, 0] - 2 * X[:, 1] + 0.5).astype(np.float32)
THREE = (np.arange(N) // 2 % 3).astype(np.int64)


def inputs(y: Any, epochs: int | None = 1) -> Any:
    features = {"x": X, "c": WORDS, "w": WEIGHTS}
    return E.inputs.numpy_input_fn(features, y, batch_size=20, shuffle=False, num_epochs=epochs)


class SameStart(tf.train.SessionRunHook):
    """Kernels are what no generator of random numbers decides."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        for v in tf.trainable_variables():
            if "kernel" in v.op.name:
                shape = v.shape.as_list()
                v.load((np.cos(np.arange(np.prod(shape))) * 0.5).reshape(shape).astype(np.float32), session)


def columns() -> tuple[list[Any], list[Any]]:
    """(linear ones, dense ones)"""
    x, c = fc.numeric_column("x", shape=2), fc.categorical_column_with_vocabulary_list("c", ["a", "b", "c"])
    buckets = fc.bucketized_column(fc.numeric_column("w"), [1.0, 3.0])
    table = fc.embedding_column(c, 2, initializer=tf.constant_initializer(0.1))
    return [x, c, buckets], [x, table, fc.indicator_column(c)]


def wide_and_deep(kind: Any) -> Any:
    wide, deep = columns()
    return kind(linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[4])


MODELS: dict[str, tuple[Callable[[], Any], Any, dict[str, float]]] = {
    "linear classifier": (
        lambda: E.LinearClassifier(columns()[0]),
        BINARY,
        {
            "accuracy": 0.883333,
            "accuracy_baseline": 0.55,
            "auc": 0.965769,
            "auc_precision_recall": 0.962008,
            "average_loss": 0.374518,
            "label/mean": 0.45,
            "loss": 7.49036,
            "precision": 0.884615,
            "prediction/mean": 0.449779,
            "recall": 0.851852,
        },
    ),
    "weighted classes": (
        lambda: E.LinearClassifier(columns()[0], n_classes=3, weight_column="w"),
        THREE,
        {"accuracy": 0.666667, "average_loss": 0.760705, "loss": 22.8212},
    ),
    "linear regressor": (
        lambda: E.LinearRegressor(columns()[0]),
        NUMBER,
        {"average_loss": 0.389281, "label/mean": 0.493155, "loss": 7.78561, "prediction/mean": 0.478467},
    ),
    "network": (
        lambda: E.DNNClassifier([4, 3], columns()[1]),
        BINARY,
        {
            "accuracy": 0.866667,
            "accuracy_baseline": 0.55,
            "auc": 0.954545,
            "auc_precision_recall": 0.952415,
            "average_loss": 0.509249,
            "label/mean": 0.45,
            "loss": 10.185,
            "precision": 0.806452,
            "prediction/mean": 0.522353,
            "recall": 0.925926,
        },
    ),
    "words": (
        lambda: E.DNNClassifier([4], columns()[1], n_classes=3, label_vocabulary=["u", "v", "w"], batch_norm=True),
        np.array(["u", "v", "w"], object)[THREE],
        {"accuracy": 0.5, "average_loss": 0.990803, "loss": 19.8161},
    ),
    "network regressor": (
        lambda: E.DNNRegressor([4], columns()[1], optimizer="Adam"),
        NUMBER,
        {"average_loss": 0.978037, "label/mean": 0.493155, "loss": 19.5607, "prediction/mean": 0.292667},
    ),
    "wide and deep": (
        lambda: wide_and_deep(E.DNNLinearCombinedClassifier),
        BINARY,
        {
            "accuracy": 0.616667,
            "accuracy_baseline": 0.55,
            "auc": 0.764871,
            "auc_precision_recall": 0.747222,
            "average_loss": 0.625427,
            "label/mean": 0.45,
            "loss": 12.5085,
            "precision": 0.576923,
            "prediction/mean": 0.493101,
            "recall": 0.555556,
        },
    ),
    "wide and deep regressor": (
        lambda: wide_and_deep(E.DNNLinearCombinedRegressor),
        NUMBER,
        {"average_loss": 1.84333, "label/mean": 0.493155, "loss": 36.8666, "prediction/mean": 0.0774209},
    ),
    "baseline": (
        lambda: E.BaselineClassifier(n_classes=3),
        THREE,
        {"accuracy": 0.333333, "average_loss": 1.09949, "loss": 21.9897},
    ),
    "baseline regressor": (
        lambda: E.BaselineRegressor(),
        NUMBER,
        {"average_loss": 1.41851, "label/mean": 0.493155, "loss": 28.3703, "prediction/mean": 0.468839},
    ),
}


def trained(make: Callable[[], Any], y: Any) -> Any:
    model = make()
    model.train(inputs(y, None), hooks=[SameStart()], steps=12)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_metrics_are_tensorflows(name: str) -> None:
    make, y, expected = MODELS[name]
    found = trained(make, y).evaluate(inputs(y))
    assert {key: float(value) for key, value in found.items()} == pytest.approx({**expected, "global_step": 12}, 1e-4)


def test_variables_bear_tensorflows_names() -> None:
    model = trained(lambda: wide_and_deep(E.DNNLinearCombinedRegressor), NUMBER)
    names = {n for n in model.get_variable_names() if not n.endswith(("Ftrl", "Ftrl_1", "Adagrad"))}
    assert names == {
        "global_step",
        "dnn/hiddenlayer_0/bias",
        "dnn/hiddenlayer_0/kernel",
        "dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights",
        "dnn/logits/bias",
        "dnn/logits/kernel",
        "linear/linear_model/bias_weights",
        "linear/linear_model/c/weights",
        "linear/linear_model/w_bucketized/weights",
        "linear/linear_model/x/weights",
    }


def test_predictions_are_one_example_each() -> None:
    model = trained(lambda: E.LinearClassifier(columns()[0], n_classes=3), THREE)
    found = list(model.predict(inputs(None)))
    assert len(found) == N
    assert found[0]["class_ids"].shape == (1,) and found[0]["classes"].tolist() == [b"%d" % found[0]["class_ids"][0]]
    assert found[0]["all_classes"].tolist() == [b"0", b"1", b"2"]
    np.testing.assert_allclose(found[0]["probabilities"].sum(), 1, 1e-6)


@pytest.mark.parametrize(
    ("make", "y", "message"),
    [
        (lambda: E.LinearClassifier(columns()[0]), None, "labels"),
        (lambda: E.LinearClassifier(columns()[0]), WORDS, "label_vocabulary"),
        (lambda: E.LinearClassifier(columns()[0], optimizer="Best"), BINARY, "Unsupported optimizer"),
        (lambda: E.LinearClassifier(columns()[0], n_classes=1), BINARY, "n_classes"),
        (lambda: E.LinearClassifier(columns()[0], n_classes=3), NUMBER, "integer"),
        (lambda: E.DNNLinearCombinedRegressor(), NUMBER, "must be provided"),
        (lambda: E.BinaryClassHead(thresholds=[1.5]), None, "thresholds"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make().train(inputs(y, None), steps=1)


def test_a_label_out_of_range_is_an_error_in_the_step() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="n_classes - 1"):
        E.LinearClassifier(columns()[0], n_classes=3).train(inputs(THREE + 1), steps=3)


def test_a_head_of_ones_own_network(tmp_path: Path) -> None:
    head = E.MultiClassHead(3)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = tf.layers.dense(features["x"], 3)
        return head.create_estimator_spec(features, mode, logits, labels, tf.train.GradientDescentOptimizer(0.1))

    model = E.Estimator(model_fn, str(tmp_path))
    model.train(inputs(THREE, None), steps=3)
    assert set(model.evaluate(inputs(THREE))) == {"accuracy", "average_loss", "loss", "global_step"}
