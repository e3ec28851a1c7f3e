"""Estimator: trained, evaluated, asked, and gone on with."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.stand_in_cupy import gpus

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5], np.float32) + 0.3).astype(np.float32)


def _model(features: Any, labels: Any, mode: str, params: Any) -> Any:
    x = features["x"]
    out = tf.layers.dense(x, 1, name="line")[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": out, "twice": out * 2})
    loss = tf.losses.mean_squared_error(labels, out)
    step = tf.train.get_global_step()
    train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, step)
    metrics = {"error": tf.metrics.mean_absolute_error(labels, out)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def _inputs(**options: Any) -> Any:
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=50, shuffle=False, **options)


def test_train_evaluate_predict(tmp_path: Path) -> None:
    config = tf.estimator.RunConfig(tf_random_seed=1)
    estimator = tf.estimator.Estimator(_model, str(tmp_path), config, {"rate": 0.1})
    with pytest.raises(ValueError, match="trained model"):
        estimator.get_variable_names()
    estimator.train(_inputs(num_epochs=None), steps=30)
    first = estimator.evaluate(_inputs())
    assert first["global_step"] == 30
    estimator.train(_inputs(num_epochs=None), max_steps=120)
    estimator.train(_inputs(num_epochs=None), max_steps=120)  # nothing is left to do
    last = estimator.evaluate(_inputs(), name="again")
    assert last["global_step"] == 120 and last["loss"] < first["loss"] and last["error"] < 0.05
    found = list(estimator.predict(_inputs(), predict_keys="y"))
    assert len(found) == 200 and set(found[0]) == {"y"}
    np.testing.assert_allclose([f["y"] for f in found], Y, atol=0.1)
    np.testing.assert_allclose(estimator.get_variable_value("line/bias"), [0.3], atol=0.05)
    assert "line/kernel" in estimator.get_variable_names()
    assert list(tmp_path.glob("eval_again/*tfevents*"))


def test_an_untrained_model_is_initialized(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in TensorFlow: programs ask models so whose variables init_from_checkpoint fills."""
    caplog.set_level("INFO", logger="sparkflow")
    source = tf.estimator.Estimator(_model, str(tmp_path / "source"), params={"rate": 0.1})
    source.train(_inputs(num_epochs=None), steps=120)

    def filled(features: Any, labels: Any, mode: str, params: Any) -> Any:
        spec = _model(features, labels, mode, params)
        tf.train.init_from_checkpoint(str(tmp_path / "source"), {"line/": "line/"})
        return spec

    estimator = tf.estimator.Estimator(filled, str(tmp_path / "model"), params={"rate": 0.1})
    found = estimator.evaluate(_inputs())
    assert found["global_step"] == 0 and found["error"] == source.evaluate(_inputs())["error"] < 0.05
    np.testing.assert_allclose([f["y"] for f in estimator.predict(_inputs())], Y, atol=0.1)
    said = [record.getMessage() for record in caplog.records]
    for to in ("evaluate", "predict"):
        assert f"Could not find trained model in model_dir: {tmp_path}/model, running initialization to {to}." in said
    assert estimator.latest_checkpoint() is None


def test_what_came_of_it_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where train_and_evaluate runs in a cluster, the log is the only place that shows what an evaluator found."""
    caplog.set_level("INFO", logger="sparkflow")
    estimator = tf.estimator.Estimator(_model, str(tmp_path), params={"rate": 0.1})
    estimator.train(_inputs(num_epochs=None), max_steps=3)
    found = estimator.evaluate(_inputs())
    estimator.train(_inputs(num_epochs=None), max_steps=3)
    text = f"Saving dict for global step 3: error = {found['error']}, global_step = 3, loss = {found['loss']}"
    said = [record.getMessage() for record in caplog.records]
    assert f"Restoring parameters from {tmp_path}/model.ckpt-3" in said
    assert text in said and any(line.startswith("Loss for final step: ") for line in said)
    assert said[-1] == "Skipping training since max_steps has already saved."


def test_the_end_of_the_data_ends_training(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(_model, str(tmp_path), params={"rate": 0.01})
    estimator.train(_inputs(num_epochs=2))
    assert estimator.evaluate(_inputs(), steps=1)["global_step"] == 8


def test_hooks_may_be_none(graph: Any) -> None:
    loss, none = tf.constant(1.0), dict.fromkeys(("training_chief_hooks", "training_hooks", "evaluation_hooks"))
    spec = tf.estimator.EstimatorSpec("train", loss=loss, train_op=tf.no_op(), prediction_hooks=None, **none)
    assert spec.training_chief_hooks == spec.training_hooks == spec.evaluation_hooks == spec.prediction_hooks == ()


def test_warm_start(tmp_path: Path) -> None:
    first = tf.estimator.Estimator(_model, str(tmp_path / "a"), params={"rate": 0.1})
    first.train(_inputs(num_epochs=None), steps=60)
    second = tf.estimator.Estimator(_model, str(tmp_path / "b"), params={"rate": 0.0}, warm_start_from=first.model_dir)
    second.train(_inputs(), steps=1)
    np.testing.assert_array_equal(second.get_variable_value("line/kernel"), first.get_variable_value("line/kernel"))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="features"):
        tf.estimator.Estimator(lambda x: None)
    with pytest.raises(ValueError, match="shuffle"):
        tf.estimator.inputs.numpy_input_fn({"x": X}, Y)
    with pytest.raises(ValueError, match="mismatched"):
        tf.estimator.inputs.numpy_input_fn({"x": X}, Y[:3], shuffle=True)
    wrong = tf.estimator.Estimator(lambda features: None)
    with pytest.raises(ValueError, match="EstimatorSpec"):
        wrong.train(tf.estimator.inputs.numpy_input_fn(X, shuffle=True), steps=1)


@pytest.mark.parametrize("count", [0, -1])
def test_counts_of_steps_that_are_none(tmp_path: Path, count: int) -> None:
    """train(steps=0) went on for ever, evaluate(steps=0) gave metrics of nothing."""
    estimator = tf.estimator.Estimator(_model, str(tmp_path), params={"rate": 0.1})
    with pytest.raises(ValueError, match=f"steps > 0, given: {count}"):
        estimator.train(_inputs(num_epochs=1), steps=count)
    with pytest.raises(ValueError, match=f"max_steps > 0, given: {count}"):
        estimator.train(_inputs(num_epochs=1), max_steps=count)
    estimator.train(_inputs(num_epochs=1), steps=1)
    with pytest.raises(ValueError, match=f"steps > 0, given: {count}"):
        estimator.evaluate(_inputs(num_epochs=1), steps=count)


def test_data_frames(graph: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "s": ["x", "y", "z"]})
    features, labels = tf.estimator.inputs.pandas_input_fn(frame, frame["a"], batch_size=2, shuffle=False)()
    with tf.train.MonitoredSession() as session:
        found, wanted = session.run([features, labels])
    assert found["s"].tolist() == [b"x", b"y"] and wanted.tolist() == [1.0, 2.0]


def test_functions_are_given_copies_of_params(tmp_path: Path) -> None:
    seen: list[Any] = []

    def inputs(params: Any) -> Any:
        seen.append(params.setdefault("added", 3))
        return tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.ones([1, 1])))

    def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
        seen.append(dict(params))
        loss = tf.reduce_mean(tf.get_variable("w", ()) * features)
        step = tf.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.assign_add(step, 1))

    estimator = tf.estimator.Estimator(model, str(tmp_path))
    estimator.train(inputs)
    estimator.params["other"] = 1
    assert seen == [3, {}] and estimator.params == {}


def test_older_names(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", (), initializer=tf.ones_initializer())
        spec = tf.estimator.EstimatorSpec(mode, {"y": features["x"] * w}, loss=w, train_op=tf.assign_add(w, 1))
        assert spec._asdict()["mode"] == mode and spec._replace(loss=None if mode == "infer" else w).mode == mode
        return spec._replace(train_op=tf.group(spec.train_op, tf.assign_add(tf.train.get_global_step(), 1)))

    estimator = tf.estimator.Estimator(model, str(tmp_path))
    estimator.train(lambda: ({"x": tf.ones([2])}, None), steps=1)
    assert estimator.eval_dir() == str(tmp_path / "eval") and estimator.eval_dir("b") == str(tmp_path / "eval_b")

    def serving() -> Any:
        x = tf.placeholder(tf.float32, [None])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    path = estimator.export_savedmodel(str(tmp_path / "out"), serving, strip_default_attrs=True)
    assert Path(path.decode()).exists()


@pytest.mark.parametrize("count", [0, 1])
def test_a_model_on_a_gpu(tmp_path: Path, count: int) -> None:
    """It is there, or it is not: the default session does not mind, as in TensorFlow."""

    def model(features: Any, labels: Any, mode: str, params: Any) -> Any:
        with tf.device("/gpu:0"):
            return _model(features, labels, mode, params)

    with gpus(count):
        estimator = tf.estimator.Estimator(model, str(tmp_path), params={"rate": 0.1})
        estimator.train(_inputs(num_epochs=None), steps=60)
        assert estimator.evaluate(_inputs())["error"] < 0.1
        assert len(list(estimator.predict(_inputs()))) == 200
        strict = tf.estimator.RunConfig(session_config=tf.ConfigProto())
        refusing = tf.estimator.Estimator(model, str(tmp_path), strict, {"rate": 0.1})
        with nullcontext() if count else pytest.raises(tf.errors.InvalidArgumentError, match="GPU:0"):
            refusing.evaluate(_inputs())


def _spec(mode: str, loss: Any, **more: Any) -> Any:
    step = tf.train.get_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1).op, **more)


def _once() -> Any:
    return tf.data.Dataset.from_tensors(({"x": [1.0, 3.0]}, [0.0, 0.0])).repeat(2)


def test_the_config_says_the_folder(tmp_path: Path) -> None:
    """Hooks of model functions write there."""
    seen: list[Any] = []

    def model(features: Any, labels: Any, mode: str, config: Any) -> Any:
        seen.append(config.model_dir)
        return _spec(mode, tf.reduce_sum(features["x"]))

    config = tf.estimator.RunConfig(tf_random_seed=3)
    for given in (config, {"tf_random_seed": 3}):
        estimator = tf.estimator.Estimator(model, str(tmp_path), given)  # type: ignore[arg-type]
        estimator.train(_once, steps=1)
        assert estimator.config.model_dir == estimator.model_dir == str(tmp_path) == seen.pop()
        assert estimator.config.tf_random_seed == 3
    assert config.model_dir is None and tf.estimator.Estimator(model).config.model_dir
    with pytest.raises(ValueError, match="different values"):
        tf.estimator.Estimator(model, str(tmp_path), config.replace(model_dir="elsewhere"))
    with pytest.raises(ValueError, match="must be an instance of `RunConfig`"):
        tf.estimator.Estimator(model, str(tmp_path), tf.ConfigProto())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not include params argument"):
        tf.estimator.Estimator(model, str(tmp_path), params={"rate": 1})


def test_a_model_may_show_its_loss_itself(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_sum(features["x"], keepdims=True)  # of one element: made a scalar
        tf.summary.scalar("loss", tf.squeeze(loss))
        return _spec(mode, loss)

    tf.estimator.Estimator(model, str(tmp_path)).train(_once)
    events = [e for path in tmp_path.glob("*tfevents*") for e in tf.train.summary_iterator(str(path))]
    assert {v.tag for e in events for v in e.summary.value} - {"global_step/sec"} == {"loss"}


def test_metrics_of_any_kind_are_written(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        counts = tf.get_variable("counts", [2], trainable=False, collections=["local_variables"])
        drawn = tf.summary.merge([tf.summary.scalar("a", 2.0), tf.summary.scalar("b", 3.0)])
        metrics = {
            "drawn": (drawn, tf.no_op()), "counts": (counts, counts.assign_add(features["x"]).op),
            "text": (tf.constant("no summary"), tf.no_op()), "whole": (tf.constant(7), tf.no_op()),
        }  # fmt: skip
        return _spec(mode, tf.reduce_sum(features["x"]), eval_metric_ops=metrics if mode == "eval" else None)

    estimator = tf.estimator.Estimator(model, str(tmp_path))
    estimator.train(_once)
    found = estimator.evaluate(_once)
    assert found["text"] == b"no summary" and found["whole"] == 7
    [path] = tmp_path.glob("eval/*tfevents*")
    values = {v.tag: v for e in tf.train.summary_iterator(str(path)) for v in e.summary.value}
    assert set(values) == {"drawn/0", "drawn/1", "counts", "whole", "loss"}
    assert values["drawn/1"].simple_value == 3 and values["whole"].simple_value == 7
    np.testing.assert_array_equal(tf.make_ndarray(values["counts"].tensor), found["counts"])


@pytest.mark.parametrize(
    ("metrics", "error", "said"),
    [
        ({"loss": (tf.no_op, tf.no_op)}, ValueError, '"loss" is not allowed'),
        ({"m": [1, 2]}, TypeError, "must be .metric_value, update_op. tuples"),
    ],
)
def test_metrics_that_are_none(tmp_path: Path, metrics: Any, error: type[Exception], said: str) -> None:
    def model(features: Any, labels: Any, mode: str) -> Any:
        made = {k: tuple(f() for f in m) if isinstance(m, tuple) else m for k, m in metrics.items()}
        return _spec(mode, tf.reduce_sum(features["x"]), eval_metric_ops=made if mode == "eval" else None)

    estimator = tf.estimator.Estimator(model, str(tmp_path))
    estimator.train(_once, steps=1)
    with pytest.raises(error, match=said):
        estimator.evaluate(_once)


def test_listeners_go_to_the_hook_that_saves(tmp_path: Path) -> None:
    saved: list[int] = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            saved.append(global_step_value)

    def model(features: Any, labels: Any, mode: str) -> Any:
        return _spec(mode, tf.reduce_sum(features["x"]))

    unsaved = tf.estimator.RunConfig(save_checkpoints_secs=None, save_checkpoints_steps=None)
    estimator = tf.estimator.Estimator(model, str(tmp_path), unsaved)
    with pytest.raises(ValueError, match="There should be a CheckpointSaverHook"):
        estimator.train(_once, saving_listeners=[Listener()])
    own = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    for config in (unsaved, None):
        estimator = tf.estimator.Estimator(model, str(tmp_path), config)
        estimator.train(_once, [own], saving_listeners=[Listener()])
        own._listeners.clear()
    assert saved == [0, 1, 2, 2, 3, 4]


def test_input_functions_may_return_lists(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(_model, str(tmp_path), params={"rate": 0.1})
    pair = _inputs(num_epochs=None)
    estimator.train(lambda: list(pair()), steps=1)
    with pytest.raises(ValueError, match="len 2 tuple"):
        estimator.train(lambda: (*pair(), 3), steps=1)
    assert len(next(estimator.predict(lambda: (*_inputs()(), 3), yield_single_examples=False))["y"]) == 50
