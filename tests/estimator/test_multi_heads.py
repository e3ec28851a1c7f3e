"""Heads with several answers, losses of one's own, and estimators with more metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

E = tf.estimator
LOGITS = np.array([[0.5, -1.0, 2.0], [0.0, 1.5, -0.5]], np.float32)
WEIGHTS = np.array([[1.0], [3.0]], np.float32)
MANY = np.array([[1, 0, 1], [0, 1, 0]], np.int64)


def spec_of(head: Any, logits: Any, labels: Any, mode: str = "eval", reg: float | None = None) -> dict[str, Any]:
    """What a head makes of constants: loss, metrics after the batch, and predictions."""
    constants = lambda given: (  # noqa: E731
        {key: constants(value) for key, value in given.items()}
        if isinstance(given, dict)
        else tf.convert_to_tensor(given)
    )
    labels = labels() if callable(labels) else constants(labels)
    with tf.Session() as session:
        spec = head.create_estimator_spec(
            {"w": tf.constant(WEIGHTS)}, mode, constants(logits), labels, train_op_fn=lambda loss: tf.no_op(),
            regularization_losses=None if reg is None else [tf.constant(reg)],
        )  # fmt: skip
        session.run([tf.local_variables_initializer(), tf.tables_initializer()])
        made = {"predictions": session.run(spec.predictions), "loss": session.run(spec.loss)}
        if mode == "eval":
            session.run([update for _, update in spec.eval_metric_ops.values()])
            made["metrics"] = session.run({key: value for key, (value, _) in spec.eval_metric_ops.items()})
        return made


def crossed(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-logits)) + (1 - labels) * logits


pytestmark = pytest.mark.usefixtures("graph")


def sparse(values: Any) -> Callable[[], Any]:
    return lambda: tf.SparseTensor(np.argwhere(MANY == 1), tf.constant(values), [2, 3])


@pytest.mark.parametrize(
    "more, labels",
    [({}, MANY), ({}, sparse([0, 2, 1])), ({"label_vocabulary": ["a", "b", "c"]}, sparse(["a", "c", "b"]))],
)
def test_labels_that_do_not_exclude_one_another(more: Any, labels: Any) -> None:
    head = E.MultiLabelHead(3, "w", [0.4], classes_for_class_based_metrics=[1], name="m", **more)
    made = spec_of(head, LOGITS, labels, reg=0.5)
    each = crossed(MANY, LOGITS).mean(1, keepdims=True)
    assert made["loss"] == pytest.approx((each * WEIGHTS).sum() / 2 + 0.5, rel=1e-5)
    np.testing.assert_allclose(made["predictions"]["probabilities"], 1 / (1 + np.exp(-LOGITS)), rtol=1e-5)
    word = "b" if more else "class1"
    found = made["metrics"]
    assert {"auc/m", f"auc/{word}/m", "auc_precision_recall/m", "regularization_loss/m"} <= {*found}
    assert found["average_loss/m"] == pytest.approx((each * WEIGHTS).sum() / 4, rel=1e-5)
    right = ((1 / (1 + np.exp(-LOGITS)) >= 0.4) == MANY) * WEIGHTS
    assert found["accuracy/positive_threshold_0.4/m"] == pytest.approx(right.sum() / 12)
    assert found[f"probability_mean/{word}/m"] == pytest.approx((0.26894143 + 3 * 0.81757447) / 4, rel=1e-5)


def test_counts_and_probabilities() -> None:
    counts, x = np.array([[3.0], [0.0]], np.float32), LOGITS[:, :1]
    made = spec_of(E.PoissonRegressionHead(compute_full_loss=False), x, counts)
    assert made["loss"] == pytest.approx((np.exp(x) - counts * x).mean(), rel=1e-5)
    np.testing.assert_allclose(made["predictions"]["predictions"], np.exp(x), rtol=1e-6)
    chance = np.array([[0.25], [1.0]], np.float32)
    made = spec_of(E.LogisticRegressionHead("w"), x, chance)
    assert made["loss"] == pytest.approx((crossed(chance, x) * WEIGHTS).mean(), rel=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Labels must be in range \[0, 1\]"):
        spec_of(E.LogisticRegressionHead(), x, chance + 1)


def tasks(**more: Any) -> Any:
    return E.MultiHead([E.BinaryClassHead("w", name="click"), E.RegressionHead(2, name="spend")], **more)


LABELS = {"click": np.array([[1], [0]]), "spend": np.array([[1.0, 2.0], [0.0, 1.0]], np.float32)}


@pytest.mark.parametrize("logits", [LOGITS, {"click": LOGITS[:, :1], "spend": LOGITS[:, 1:]}])
def test_several_tasks(logits: Any) -> None:
    made = spec_of(tasks(head_weights=[1.0, 0.5]), logits, LABELS, reg=0.25)
    click = (crossed(LABELS["click"], LOGITS[:, :1]) * WEIGHTS).mean()
    spend = np.square(LOGITS[:, 1:] - LABELS["spend"]).mean()
    assert made["loss"] == pytest.approx(click + spend / 2 + 0.25, rel=1e-5)
    assert made["metrics"]["loss/click"] == pytest.approx(click, rel=1e-5)
    assert made["metrics"]["loss/spend"] == pytest.approx(spend, rel=1e-5)
    assert {"auc/click", "label/mean/spend", "regularization_loss/click_spend"} <= {*made["metrics"]}
    np.testing.assert_allclose(made["predictions"]["spend", "predictions"], LOGITS[:, 1:])
    assert tasks().logits_dimension == 3 and tasks().name == "click_spend"


def test_what_a_served_model_of_several_tasks_answers() -> None:
    spec = tasks().create_estimator_spec({}, "infer", tf.constant(LOGITS))
    assert {"serving_default", "click", "spend", "click/predict", "spend/regression", "predict"} <= {
        *spec.export_outputs
    }
    assert spec.export_outputs["serving_default"] is spec.export_outputs["click"]
    assert "spend/predictions" in spec.export_outputs["predict"].outputs


def test_an_estimator_trains_several_tasks(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    labels = {"click": (x > 0).astype(np.int64), "spend": np.stack([x, -x], 1)}
    given = E.inputs.numpy_input_fn({"x": x, "w": np.ones_like(x)}, labels, 32, None, True)
    model = E.DNNEstimator(
        tasks(), [8], [tf.feature_column.numeric_column("x")], str(tmp_path), tf.train.AdamOptimizer(0.05)
    )
    model.train(given, steps=120)
    once = E.inputs.numpy_input_fn({"x": x, "w": np.ones_like(x)}, labels, 32, 1, False)
    more = E.add_metrics(model, lambda labels, predictions: {
        "mine": tf.metrics.accuracy(labels["click"], predictions["click", "class_ids"])
    })  # fmt: skip
    found = more.evaluate(once)
    assert found["mine"] > 0.9 and found["mine"] == found["accuracy/click"] and found["average_loss/spend"] < 0.1
    assert next(iter(model.predict(once)))["spend", "predictions"].shape == (2,)
    with pytest.raises(ValueError, match="not expected args: \\['other'\\]"):
        E.add_metrics(model, lambda other: {})


def squared(labels: Any, logits: Any, features: Any) -> Any:
    return tf.square(tf.to_float(labels) - logits) * features["w"]


def test_a_loss_of_ones_own() -> None:
    made = spec_of(E.BinaryClassHead(loss_fn=squared), LOGITS[:, :1], LABELS["click"])
    assert made["loss"] == pytest.approx((np.square(LABELS["click"] - LOGITS[:, :1]) * WEIGHTS).mean(), rel=1e-5)
    made = spec_of(
        E.RegressionHead(2, loss_fn=lambda labels, logits: tf.abs(labels - logits)), LOGITS[:, 1:], LABELS["spend"]
    )
    assert made["loss"] == pytest.approx(np.abs(LABELS["spend"] - LOGITS[:, 1:]).mean(), rel=1e-5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: E.MultiHead([]), "Must specify heads"),
        (lambda: E.MultiHead([E.BinaryClassHead()]), "must have name specified"),
        (lambda: tasks(head_weights=[1.0]), "must have the same size"),
        (lambda: spec_of(tasks(), LOGITS[:, :2], LABELS), "Could not split logits"),
        (lambda: spec_of(tasks(), LOGITS, LABELS["click"]), "labels must be a dict"),
        (lambda: spec_of(tasks(), LOGITS, {"click": LABELS["click"]}), r"missing values for head\(s\): \['spend'\]"),
        (lambda: E.MultiLabelHead(1), "n_classes must be > 1"),
        (lambda: E.MultiLabelHead(3, classes_for_class_based_metrics=["a"]), "label_vocabulary must be provided"),
        (lambda: E.BinaryClassHead(loss_fn=lambda a, b: a), "loss_fn must contain argument: labels"),
        (lambda: spec_of(E.BinaryClassHead(loss_fn=lambda labels, logits: tf.constant(1.0)), LOGITS[:, :1],
                         LABELS["click"]), "loss_fn must return Tensor of shape"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_examples_are_parsed_by() -> None:
    x = tf.feature_column.numeric_column("x")
    spec = E.classifier_parse_example_spec([x], "y", weight_column="w")
    assert sorted(spec) == ["w", "x", "y"] and spec["y"] == tf.FixedLenFeature((1,), tf.int64)
    spec = E.regressor_parse_example_spec([x], "y", label_dimension=2, label_default=[0.0, 1.0])
    assert spec["y"] == tf.FixedLenFeature((2,), tf.float32, [0.0, 1.0])
    with pytest.raises(ValueError, match="label should not be used as feature"):
        E.classifier_parse_example_spec([x], "x")
    with pytest.raises(ValueError, match="weight_column should not be used as feature"):
        E.classifier_parse_example_spec([x], "y", weight_column="x")


def test_contribs_heads_and_clipped_gradients() -> None:
    c = tf.contrib.estimator
    heads = [
        c.binary_classification_head(name="a"), c.multi_class_head(3, name="b"), c.multi_label_head(3, name="c"),
        c.regression_head(label_dimension=2, name="d"), c.poisson_regression_head(name="e"),
        c.logistic_regression_head(name="f"),
    ]  # fmt: skip
    assert c.multi_head(heads).logits_dimension == 11
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    step = c.clip_gradients_by_norm(tf.train.GradientDescentOptimizer(1.0), 0.5).minimize(-3.0 * v[0] - 4.0 * v[1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(v), [0.3, 0.4], rtol=1e-6)


def test_parts_of_a_model_that_is_built_inside_another() -> None:
    """As an ensemble of estimators does: each part still changes its own variables only."""
    x = tf.feature_column.numeric_column("x")
    model = E.DNNLinearCombinedRegressor(
        linear_feature_columns=[x], linear_optimizer=tf.train.GradientDescentOptimizer(0.1), dnn_feature_columns=[x],
        dnn_hidden_units=[2], dnn_optimizer=tf.train.GradientDescentOptimizer(0.0),
    )  # fmt: skip
    tf.train.create_global_step()
    with tf.variable_scope("outer"):
        spec = model.model_fn({"x": tf.constant([1.0, 2.0])}, tf.constant([5.0, 7.0]), "train", model.config)
    names = [v.op.name for v in tf.trainable_variables()]
    assert {name.split("/")[1] for name in names} == {"dnn", "linear"} and names[0].startswith("outer/")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.trainable_variables())
        session.run(spec.train_op)
        changed = [
            n for n, b, a in zip(names, before, session.run(tf.trainable_variables())) if not np.array_equal(a, b)
        ]
        assert changed and all("linear" in name for name in changed)
