"""Model functions that are wrong: said at the driver, as themselves, before anything starts."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.graphs import check_model, evaluation_graph, prediction_graph, training_graph
from sparkflow_connectors.job import job_of
from sparkflow_connectors.schema import resolve

TABLE = pa.table({"x": np.ones(20, np.float32), "y": np.ones(20, np.float32)})
MODES = tf.estimator.ModeKeys


def _spec(mode: str, features: Any, labels: Any, w: Any) -> Any:
    p = features["x"] * w
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=p)
    loss = tf.reduce_mean(tf.square(p - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _raises_in_training(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.TRAIN:
        raise ValueError("no such optimizer: 'Adamm'")
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _another_variable_in_evaluation(features: Any, labels: Any, mode: str) -> Any:
    return _spec(mode, features, labels, tf.get_variable("v" if mode == MODES.EVAL else "w", []))


def _another_shape_in_evaluation(features: Any, labels: Any, mode: str) -> Any:
    return _spec(mode, features, labels, tf.reduce_sum(tf.get_variable("w", [2] if mode == MODES.EVAL else [1])))


def _another_variable_in_prediction(features: Any, labels: Any, mode: str) -> Any:
    return _spec(mode, features, labels, tf.get_variable("v" if mode == MODES.PREDICT else "w", []))


def _prediction_called_as_a_feature(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"x": features["x"] * tf.get_variable("w", [])})
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _prediction_of_one_row(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=tf.get_variable("w", [1]))
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _no_prediction(features: Any, labels: Any, mode: str) -> Any:
    return tf.estimator.EstimatorSpec(MODES.TRAIN, loss=tf.constant(0.0), train_op=tf.no_op())


def _ragged_prediction(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.PREDICT:
        rows = tf.RaggedTensor.from_row_lengths(features["x"], tf.ones_like(features["x"], tf.int64))
        return tf.estimator.EstimatorSpec(mode, predictions={"rows": rows})
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _prediction_called_by_a_number(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={1: features["x"]})
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _no_variable_in_prediction(features: Any, labels: Any, mode: str) -> Any:
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=features["x"] * 2)
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _holds_a_lock() -> Any:
    lock = threading.Lock()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with lock:
            return _spec(mode, features, labels, tf.get_variable("w", []))

    return model_fn


@pytest.mark.parametrize(
    ("model_fn", "error", "message"),
    [
        (_raises_in_training, ValueError, "no such optimizer: 'Adamm'"),
        (_another_variable_in_evaluation, tf.errors.InvalidArgumentError, "uses variable 'v', which training has not"),
        (
            _another_shape_in_evaluation,
            tf.errors.InvalidArgumentError,
            r"'w' is float32\[2\] in evaluation and float32\[1\] in training",
        ),
        (_another_variable_in_prediction, tf.errors.InvalidArgumentError, "uses variable 'v', which training has not"),
        (_prediction_called_as_a_feature, tf.errors.InvalidArgumentError, "Prediction 'x' has the name of a feature"),
        (_no_prediction, tf.errors.InvalidArgumentError, "gives no predictions where mode is 'infer'"),
        (_ragged_prediction, tf.errors.InvalidArgumentError, r"Prediction 'rows' is a RaggedTensor.*to_tensor\(\)"),
        (_prediction_called_by_a_number, tf.errors.InvalidArgumentError, "Prediction 1: its name must be a string"),
        (_no_variable_in_prediction, tf.errors.InvalidArgumentError, "makes no variable for predictions"),
        (_prediction_of_one_row, tf.errors.InvalidArgumentError, "must have one row an example"),
        (_holds_a_lock(), tf.errors.InvalidArgumentError, "cannot be sent to the workers .*lock"),
    ],
)
def test_one_error_and_nothing_begun(tmp_path: Path, model_fn: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        tf.local.train(TABLE, model_fn, label="y", sync=False, checkpoint_dir=str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


def _plain(features: Any, labels: Any, mode: str) -> Any:
    return _spec(mode, features, labels, tf.get_variable("w", []))


def _by_hand(features: Any, labels: Any, mode: str) -> Any:
    w = tf.get_variable("w", [])
    if mode != MODES.TRAIN:
        return _spec(mode, features, labels, w)
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    with tf.control_dependencies([w.assign_sub(0.1 * tf.gradients(loss, w)[0])]):
        train_op = tf.train.get_global_step().assign_add(1).op
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _wrapped(features: Any, labels: Any, mode: str, config: Any) -> Any:
    w = tf.get_variable("w", [])
    if mode != MODES.TRAIN:
        return _spec(mode, features, labels, w)
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    optimizer = tf.distribute.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1), config.num_worker_replicas)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _synchronous(features: Any, labels: Any, mode: str) -> Any:
    w = tf.get_variable("w", [])
    if mode != MODES.TRAIN:
        return _spec(mode, features, labels, w)
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])


def _without_its_hook(features: Any, labels: Any, mode: str) -> Any:
    spec = _synchronous(features, labels, mode)
    return spec._replace(training_hooks=[]) if mode == MODES.TRAIN else spec


@pytest.mark.parametrize(
    ("model_fn", "options", "message"),
    [
        (_plain, {"sync": True}, "needs a model that trains with tf.train.SyncReplicas"),
        (_by_hand, {"strategy": "all_reduce"}, "trains with an optimizer of tf.train"),
        (_synchronous, {"strategy": "all_reduce"}, "SyncReplicasOptimizer, which collects gradients on parameter ser"),
        (_synchronous, {"sync": False}, "pass sync=True"),
        (_without_its_hook, {}, r"training_hooks=\[optimizer.make_session_run_hook\(config.is_chief"),
    ],
)  # fmt: skip
def test_sync_says_what_the_optimizer_does(tmp_path: Path, model_fn: Any, options: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.local.train(TABLE, model_fn, label="y", workers=2, **options, checkpoint_dir=str(tmp_path / "out"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("numbers", "tokens", "told"),
    [((2, 2), 0, ""), ((2, 2), -1, "num_tokens is -1"), ((1, 2), 0, "replicas_to_aggregate is 1, and there are 2")],
)
def test_an_optimizer_that_leaves_gradients_out_is_told_of(
    tmp_path: Path, caplog: Any, numbers: tuple[int, int], tokens: int, told: str
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = tf.get_variable("w", [])
        if mode != MODES.TRAIN:
            return _spec(mode, features, labels, w)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), *numbers)
        loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
        train_op, hook = (
            optimizer.minimize(loss, tf.train.get_global_step()),
            optimizer.make_session_run_hook(True, tokens),
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    job = job_of(model_fn, resolve(TABLE.schema, None, "y"), tmp_path, {"workers": 2})
    with caplog.at_level("WARNING", "sparkflow"):
        check_model(job, prediction_graph(job))
    assert told in caplog.text and bool(caplog.text) == bool(told)


@pytest.mark.parametrize("uneven", ["join", pytest.param("pad", marks=pytest.mark.slow)])
def test_without_servers_any_optimizer_takes_the_mean(tmp_path: Path, uneven: str) -> None:
    """As the optimizer that does so by itself; workers with other rows have one model."""
    x = np.random.default_rng(0).random(90).astype(np.float32)
    rows, found = pa.table({"x": x, "y": 3 * x}), []
    for name, model_fn in (("plain", _plain), ("wrapped", _wrapped)):
        options = {"workers": 2, "strategy": "all_reduce", "batch_size": 8, "epochs": 9, "seed": 1, "uneven": uneven}
        model = tf.local.train(rows, model_fn, label="y", **options, checkpoint_dir=str(tmp_path / name))
        found.append(tf.train.load_variable(tf.train.latest_checkpoint(str(tmp_path / name)), "w"))
        assert model is not None
    assert found[0] == found[1] and abs(found[0] - 3) < 1


def _notes_how_float32_travels(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    w = tf.get_variable("w", [])
    if mode == MODES.TRAIN and (found := w.op.node_def.attr["_carried_as"].s) != params["wanted"]:
        raise ValueError(f"carried as {found!r}")
    return _spec(mode, features, labels, w)


@pytest.mark.parametrize(("options", "wanted"), [({}, b""), ({"carried_as": "bfloat16"}, b"bfloat16")])
def test_nodes_say_how_they_travel_where_that_is_asked_for(tmp_path: Path, options: Any, wanted: bytes) -> None:
    """An attribute on every node would keep passes from seeing which are alike."""
    options |= {"params": {"wanted": wanted}, "sync": False, "checkpoint_dir": str(tmp_path / "out")}
    assert tf.local.train(TABLE, _notes_how_float32_travels, label="y", **options) is not None


def _counts(features: Any, labels: Any, mode: str) -> Any:
    tf.get_local_variable("counted", [], initializer=tf.zeros_initializer())
    return _spec(mode, features, labels, tf.get_variable("w", []))


def test_local_variables_of_evaluation_are_its_own(tmp_path: Path) -> None:
    """By its name the local step of a synchronous replica, say, would be training's, and begin again."""
    options = {"strategy": "all_reduce", "validation": 0.5, "batch_size": 2}
    job = job_of(_counts, resolve(TABLE.schema, None, "y"), str(tmp_path), options)
    cluster = {"worker": ["localhost:0"]}
    server = tf.train.Server(cluster)
    trained = training_graph(job, 0, cluster).graph
    evaluation = evaluation_graph(job, 0, cluster, trained)
    with tf.Session(server.target, trained) as session, trained.as_default():
        counted = trained.get_tensor_by_name("counted:0")
        session.run(tf.assign(counted, 7))
        with tf.Session(server.target, evaluation.graph) as other:
            other.run(evaluation.init)
            assert other.run("counted:0") == 0
        assert session.run(counted) == 7
