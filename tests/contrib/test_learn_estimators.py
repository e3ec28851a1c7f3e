"""tf.contrib.learn's Estimator, SKCompat, MetricSpec and monitors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

learn, layers = tf.contrib.learn, tf.contrib.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = X @ [2.0, -1.0] + 0.5
KINDS = (Y > 0).astype(np.int64)


def line(features: Any, targets: Any, mode: str, params: Any) -> Any:
    """As TF1's own tutorial of Estimators has it: a loss in all modes."""
    assert features.dtype == tf.float32
    predicted = tf.squeeze(layers.linear(features, 1), [1])
    loss = tf.losses.mean_squared_error(targets, predicted)
    train = layers.optimize_loss(loss, tf.train.get_global_step(), params["rate"], "SGD")
    ops = {"rmse": tf.metrics.root_mean_squared_error(targets, predicted)}
    return learn.ModelFnOps(mode, {"ages": predicted}, loss, train, ops)


def test_a_model_function_of_arrays() -> None:
    model = learn.Estimator(line, params={"rate": 0.1})
    assert model.fit(x=X, y=Y, steps=200) is model
    found = model.evaluate(x=X, y=Y, steps=1)
    assert found["loss"] < 1e-3 and found["rmse"] ** 2 == pytest.approx(found["loss"], rel=1e-3)
    rows = list(model.predict(x=X[:3]))
    np.testing.assert_allclose([row["ages"] for row in rows], Y[:3], atol=0.1)
    stacked = model.predict(x=X[:3], outputs=["ages"], as_iterable=False)
    assert stacked["ages"].tolist() == [row["ages"] for row in rows]
    with pytest.raises(ValueError, match=r"at least one output from \['ages'\], provided \['height'\]"):
        list(model.predict(x=X[:3], outputs=["height"]))
    model.partial_fit(input_fn=lambda: (tf.constant(X, tf.float32), tf.constant(Y, tf.float32)))
    assert len(list(model.predict(input_fn=lambda: (tf.constant(X[:7], tf.float32), None)))) == 7
    assert model.evaluate(X, Y)["global_step"] == 201


def test_three_values_and_other_signatures() -> None:
    asked = []

    def model_fn(features: Any, labels: Any, config: Any, model_dir: str) -> Any:
        asked.append((config.model_dir, model_dir))
        w = tf.get_variable("w", [2, 1])
        out = tf.squeeze(tf.matmul(features["a"], w), [1])
        loss = tf.reduce_mean(tf.square(out - labels["b"]))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return out, loss, step

    def halved(features: Any, labels: Any) -> Any:
        return {"a": features["a"] / 2.0}, labels

    model = learn.Estimator(model_fn, feature_engineering_fn=halved)
    model.fit({"a": X}, {"b": Y - 0.5}, steps=400)
    assert asked[0] == (model.model_dir, model.model_dir)
    np.testing.assert_allclose(model.predict({"a": X}, as_iterable=False), Y - 0.5, atol=0.05)
    np.testing.assert_allclose(model.get_variable_value("w")[:, 0], [4, -2], atol=0.05)
    with pytest.raises(ValueError, match="without names"):
        list(model.predict({"a": X}, outputs=["b"]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda f, y: (f, f), r"\(predictions, loss, train_op\), got 2 values"),
        (lambda f, y: None, "got NoneType"),
        (lambda f, y, mode: learn.ModelFnOps(mode, f, tf.reduce_sum(f)), "Missing train_op"),
        (lambda f, y, mode: learn.ModelFnOps(mode, f), "Missing train_op"),
    ],
)
def test_what_a_model_function_must_give(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        learn.Estimator(given).fit(X, Y, steps=1)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="does not have a params argument"):
        learn.Estimator(lambda features, labels: None, params={"a": 1})
    with pytest.raises(ValueError, match="must take features and labels"):
        learn.Estimator(lambda features: None)
    model = learn.Estimator(line, params={"rate": 0.1})
    with pytest.raises(ValueError, match="y must be None"):
        model.fit(y=Y, input_fn=lambda: None)
    with pytest.raises(ValueError, match="should be None or dict"):
        model.evaluate(X, Y, metrics=["accuracy"])
    with pytest.raises(TypeError, match="expected monitors or SessionRunHooks, got 3"):
        model.fit(X, Y, steps=1, monitors=[3])


# ---------------------------------------------------------------------- metrics


def classifier(**named: Any) -> Any:
    columns = learn.infer_real_valued_columns_from_input(X)
    return learn.DNNClassifier(hidden_units=[8], feature_columns=columns, n_classes=2, **named)


def test_metrics_of_a_model_that_is_ready() -> None:
    model = classifier().fit(X, KINDS, steps=100)
    named = {
        "right": learn.MetricSpec(tf.contrib.metrics.streaming_accuracy, learn.PredictionKey.CLASSES),
        "area": learn.MetricSpec(functools.partial(tf.metrics.auc, num_thresholds=500), "logistic"),
        ("mean", "probabilities"): lambda p, y: tf.metrics.mean(p[:, 1] - tf.to_float(y)),
    }
    found = model.evaluate(X, KINDS, metrics=named)
    assert found["right"] == found["accuracy"] == found["accuracy/threshold_0.500000_mean"] > 0.9
    assert found["area"] == pytest.approx(found["auc"], abs=0.01)
    assert found["mean"] == pytest.approx(found["labels/prediction_mean"] - KINDS.mean(), abs=1e-5)
    assert found["labels/actual_label_mean"] == pytest.approx(KINDS.mean())
    chance = model.predict_proba(X, as_iterable=False)[np.arange(len(X)), KINDS]
    assert found["loss"] == pytest.approx(-np.log(chance).mean(), rel=1e-4)  # the mean, where tf.estimator has a sum
    assert "right" not in model.evaluate(X, KINDS)
    with pytest.raises(ValueError, match=r"requires a predictions tensor or single element dict, got \['classes', 'lo"):
        model.evaluate(X, KINDS, metrics={"a": tf.metrics.accuracy})
    with pytest.raises(ValueError, match="prediction_key='x': the predictions are"):
        model.evaluate(X, KINDS, metrics={("a", "x"): tf.metrics.accuracy})


def test_a_metric_of_one_value_is_that_of_the_last_batch() -> None:
    model = classifier().fit(X, KINDS, steps=2)
    named = {
        ("ones", "classes"): lambda predictions, labels: tf.reduce_sum(labels),
        ("rows", "classes"): lambda p, y: tf.boolean_mask(y, tf.greater(y, -1)),  # as many as it finds
    }
    found = model.evaluate(X, KINDS, batch_size=50, metrics=named)  # to the end of the rows
    assert found["ones"] == KINDS[100:].sum() and found["rows"].tolist() == KINDS[100:].tolist()
    assert model.evaluate(X, KINDS, batch_size=50, steps=1, metrics=named)["ones"] == KINDS[:50].sum()


def test_a_metric_with_weights() -> None:
    spec = learn.MetricSpec(tf.metrics.mean_absolute_error, "p", "y", "w")
    assert str(spec) == "MetricSpec(metric_fn=mean_absolute_error, prediction_key=p, label_key=y, weight_key=w)"
    with tf.Graph().as_default(), tf.Session() as session:
        ops = spec.create_metric_ops({"w": tf.constant([1.0, 0.0])}, {"y": tf.constant([1.0, 2.0]), "z": None},
                                     {"p": tf.constant([4.0, 9.0])})  # fmt: skip
        session.run(tf.local_variables_initializer())
        assert session.run(ops[1]) == 3.0

        def of(fn: Any) -> Any:
            return learn.MetricSpec(fn).create_metric_ops({}, 1, 2)

        assert of(lambda p, *, k=0: p) == of(lambda prediction: prediction) == of(lambda logits, label: logits) == 2
        assert of(lambda labels, p: (labels, p)) == of(lambda p, label: (label, p)) == (1, 2)
    with pytest.raises(ValueError, match="takes no weights, but weight_key is 'w'"):
        learn.MetricSpec(lambda predictions, labels: None, weight_key="w")
    with pytest.raises(ValueError, match="takes no labels, but label_key is 'y'"):
        learn.MetricSpec(lambda predictions: None, label_key="y")
    with pytest.raises(ValueError, match=r"ambiguous arguments \['label', 'target'\]"):
        learn.MetricSpec(lambda label, target: None)
    with pytest.raises(ValueError, match="label_key='y' requires a dict of labels"):
        learn.MetricSpec(tf.metrics.accuracy, label_key="y").create_metric_ops({}, 1, 2)


def test_as_scikit_learn_asks() -> None:
    model = learn.SKCompat(classifier())
    model.fit(X, KINDS, batch_size=50, steps=200)
    found = model.predict(X)
    assert set(found) == {"classes", "probabilities", "logits", "logistic"}
    assert found["classes"].shape == (120,) and found["probabilities"].shape == (120, 2)
    assert model.score(X, KINDS)["accuracy"] == pytest.approx((found["classes"] == KINDS).mean())
    assert list(model.predict(X, outputs=["classes"])) == ["classes"]
    with pytest.raises(ValueError, match=r"got tf\.estimator's, which has no fit"):
        learn.SKCompat(tf.estimator.Estimator(lambda features: None))


def test_classes_by_their_names() -> None:
    model = classifier(label_keys=["no", "yes"]).fit(X, np.where(KINDS, "yes", "no"), steps=100)
    assert list(model.predict(X[:4])) == [b"yes" if k else b"no" for k in KINDS[:4]]


def test_features_of_an_input_fn_without_names() -> None:
    model = classifier().fit(input_fn=lambda: (tf.constant(X, tf.float32), tf.constant(KINDS)), steps=100)
    assert model.evaluate(X, KINDS)["accuracy"] > 0.9
    asked = model.predict(input_fn=lambda: tf.constant(X, tf.float32), as_iterable=False)
    assert asked.tolist() == model.predict(X, as_iterable=False).tolist()


def test_features_are_made_first() -> None:
    def made(features: Any, labels: Any) -> Any:
        return {"sum": tf.reduce_sum(features, 1)}, None if labels is None else 2.0 * labels

    columns, optimizer = [layers.real_valued_column("sum")], tf.train.GradientDescentOptimizer(0.1)
    model = learn.LinearRegressor(columns, optimizer=optimizer, feature_engineering_fn=made)
    model.fit(X, X.sum(1), steps=200)
    np.testing.assert_allclose(model.predict(X, as_iterable=False), 2 * X.sum(1), atol=0.05)
    net = classifier(feature_engineering_fn=lambda features, labels: (features * 0.0, labels)).fit(X, KINDS, steps=2)
    assert len({*net.predict_proba(X, as_iterable=False)[:, 0]}) == 1


def test_a_model_that_was_not_fitted() -> None:
    for ask in (lambda m: m.predict(X), lambda m: m.predict_proba(X), lambda m: m.evaluate(X, KINDS)):
        with pytest.raises(learn.NotFittedError, match=r"Couldn't find trained model at .*: call fit first"):
            ask(classifier())


def test_variables_by_their_old_names() -> None:
    net = classifier().fit(X, KINDS, steps=1)
    for old, new in {"hiddenlayer_0/weights": "hiddenlayer_0/kernel", "logits/biases": "logits/bias"}.items():
        found = net.get_variable_value(f"dnn/{old}")
        np.testing.assert_array_equal(found, net.get_variable_value(f"dnn/{new}"))
    model = learn.LinearRegressor(learn.infer_real_valued_columns_from_input(X)).fit(X, Y, steps=1)
    assert model.get_variable_value("linear//weight").shape == (2, 1)
    assert model.get_variable_value("linear/bias_weight").shape == (1,)
    model = learn.LinearRegressor([layers.real_valued_column("a", 2)]).fit({"a": X}, Y, steps=1)
    assert model.get_variable_value("linear/a/weight").shape == (2, 1)
    with pytest.raises(tf.errors.NotFoundError, match="linear/b/weight"):
        model.get_variable_value("linear/b/weight")


def test_where_tensorflow_kept_the_names() -> None:
    assert learn.estimators.model_fn.ModelFnOps is learn.ModelFnOps
    assert learn.estimators.run_config.RunConfig is learn.estimators.RunConfig is learn.RunConfig
    assert learn.prediction_key.PredictionKey is learn.estimators.prediction_key.PredictionKey is learn.PredictionKey
    assert learn.estimators.constants.ProblemType is learn.ProblemType
    assert learn.metric_spec.MetricSpec is learn.MetricSpec
    inner = learn.python.learn
    assert inner.estimators.estimator.SKCompat is inner.estimators.SKCompat is learn.SKCompat
    assert inner.learn_io.generator_io.generator_input_fn is learn.io.generator_input_fn
    assert inner.preprocessing.text.VocabularyProcessor is learn.preprocessing.VocabularyProcessor
    assert inner.session_run_hook.SessionRunHook is tf.train.SessionRunHook


def test_a_config_of_sessions(monkeypatch: Any) -> None:
    config = learn.RunConfig(num_cores=2, log_device_placement=True, gpu_memory_fraction=0.5, save_checkpoints_steps=7)
    assert config.session_config.intra_op_parallelism_threads == 2 and config.session_config.log_device_placement
    assert config.tf_config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert config.save_checkpoints_steps == 7 and config.save_checkpoints_secs is None
    assert learn.RunConfig().session_config is None and learn.RunConfig().save_checkpoints_secs == 600
    assert learn.RunConfig("grpc://a:1", evaluation_master="grpc://b:1").master == "grpc://a:1"
    assert learn.RunConfig(model_dir="a").uid() == learn.RunConfig(model_dir="b").uid() != config.uid()
    assert learn.RunConfig(model_dir="a").uid([]) != learn.RunConfig(model_dir="b").uid([])
    given = tf.ConfigProto(allow_soft_placement=True)
    assert learn.RunConfig(num_cores=4, session_config=given).session_config is given
    assert config.environment == "local" and learn.RunConfig.get_task_id() == 0
    monkeypatch.setenv("TF_CONFIG", '{"environment": "cloud", "task": {"type": "worker", "index": 3}}')
    assert learn.RunConfig().environment == "cloud" and learn.RunConfig.get_task_id() == 3
    learn.Estimator(line, config=config.replace(model_dir=None), params={"rate": 0.1}).fit(X, Y, steps=1)


# ---------------------------------------------------------------------- monitors


class Steps(learn.monitors.EveryN):
    def __init__(self, tensor: str):
        super().__init__(every_n_steps=4, first_n_steps=2)
        self.tensor, self.seen, self.posted = tensor, dict[int, float](), list[int]()

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [self.tensor]

    def every_n_step_end(self, step: int, outputs: Any) -> bool:
        self.seen[step] = outputs[f"{self.tensor}:0"]
        return step == 10

    def every_n_post_step(self, step: int, session: Any) -> None:
        self.posted.append(step)


def test_monitors_see_the_steps_and_end_them() -> None:
    monitors = learn.monitors
    every, kept = Steps("loss/value"), monitors.CaptureVariable("w:0", every_n=3)
    hook = tf.train.StopAtStepHook(last_step=100)

    def model_fn(features: Any, labels: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.identity(tf.reduce_mean(tf.square(w - labels)), "loss/value")
        return w, loss, tf.group(tf.assign_add(w, 1.0), tf.assign_add(tf.train.get_global_step(), 1))

    model = learn.Estimator(model_fn)
    logged = monitors.PrintTensor(["loss/value:0"])
    model.fit(X, Y, monitors=[every, hook, kept, logged, monitors.LoggingTrainable()])
    assert list(every.seen) == every.posted == [1, 2, 6, 10] and list(kept.values) == [1, 4, 7, 10]
    assert model.get_variable_value("w") == 10
    model.fit(X, Y, monitors=[monitors.StopAtStep(last_step=12)])
    model.fit(X, Y, monitors=monitors.StopAtStep(num_steps=3))
    assert model.get_variable_value("w") == 15
    with pytest.raises(ValueError, match="begin called twice"):
        [every.begin() for _ in range(2)]


def test_training_ends_where_validation_becomes_no_better() -> None:
    config = learn.RunConfig(save_checkpoints_steps=10, tf_random_seed=1)
    monitor = learn.monitors.ValidationMonitor(
        X[:20], -Y[:20], every_n_steps=10, early_stopping_rounds=30, check_interval_secs=0, name="other"
    )
    model = learn.Estimator(line, config=config, params={"rate": 0.05})
    model.fit(X, Y, steps=1000, monitors=[monitor])
    assert monitor.early_stopped and monitor.best_metrics["loss"] == monitor.best_value
    assert model.evaluate(X, Y)["global_step"] == monitor.best_step + 30 < 100
    wrong = learn.monitors.ValidationMonitor(
        X, Y, every_n_steps=1, early_stopping_rounds=1, early_stopping_metric="auc"
    )
    with pytest.raises(ValueError, match="Metric auc missing from outputs"):
        model.fit(X, Y, steps=20, monitors=[wrong])
    with pytest.raises(ValueError, match="Either x or input_fn"):
        learn.monitors.ValidationMonitor()


def test_a_loss_of_nan(tmp_path: Any) -> None:
    with pytest.raises(learn.NanLossDuringTrainingError):
        monitor = learn.monitors.NanLoss("loss:0")
        monitor.step_begin(1)
        monitor.step_end(1, {"loss:0": np.nan})
    quiet = learn.monitors.NanLoss("loss", fail_on_nan_loss=False)
    quiet.step_begin(1)
    assert quiet.step_end(1, {"loss:0": np.nan}) is True
    with tf.Graph().as_default():
        loss = tf.constant(2.0, name="loss")
        made = learn.monitors.get_default_monitors(loss, tf.summary.scalar("a", loss), 1, str(tmp_path))
        tf.train.get_or_create_global_step()
        with tf.train.MonitoredSession(hooks=[learn.monitors.RunHookAdapterForMonitors(made)]) as session:
            session.run(loss)
    (event,) = [e for f in tmp_path.iterdir() for e in tf.train.summary_iterator(str(f)) if e.summary.value]
    assert event.step == 1 and event.summary.value[0].simple_value == 2.0
