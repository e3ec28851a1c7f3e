"""Trainings as stages of pyspark.ml: in pipelines, tuned, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F

import sparkflow as tf
from sparkflow_connectors import spark
from sparkflow_connectors.schema import resolve
from sparkflow_connectors.spark_schema import arrow_schema

INVALID = tf.errors.InvalidArgumentError


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    table = tf.get_variable("who", [5, 2], tf.float64)
    rows = tf.nn.embedding_lookup(table, tf.cast(features["id"], tf.int64))
    score = tf.squeeze(tf.layers.dense(tf.concat([rows, features["both"]], 1), 1), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": score})
    loss = tf.losses.sigmoid_cross_entropy(labels, score)
    train = tf.train.AdagradOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


@pytest.fixture(scope="module")
def rows(clusters: Any) -> Any:
    rng = np.random.default_rng(0)
    who, x, y = rng.integers(0, 5, 400), rng.normal(size=400), rng.normal(size=400)
    late = (np.array([-2, -1, 0, 1, 2])[who] + x > 0).astype(float)
    given = [(f"w{w}", float(a), float(b), float(c)) for w, a, b, c in zip(who, x, y, late)]
    return clusters.spark.createDataFrame(given, "who string, x double, y double, late double").cache()


def stages(folder: Path, **options: Any) -> list[Any]:
    options = {"features": ["id", "both"], "epochs": 4, "batch_size": 32, "params": {"rate": 0.3}} | options
    return [
        StringIndexer(inputCol="who", outputCol="id"),
        VectorAssembler(inputCols=["x", "y"], outputCol="both"),
        tf.spark.MLEstimator(model_fn, label="late", checkpoint_dir=str(folder), **options),
    ]


@pytest.mark.slow
def test_a_pipeline_is_fitted_saved_and_loaded(rows: Any, tmp_path: Path) -> None:
    fitted = Pipeline(stages=stages(tmp_path / "run")).fit(rows)
    found = fitted.transform(rows)
    judge = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol="late")
    assert judge.evaluate(found) > 0.95 and found.columns[-1] == "score"
    fitted.write().overwrite().save(f"file://{tmp_path}/saved")
    again = PipelineModel.load(str(tmp_path / "saved"))
    assert isinstance(again.stages[2], tf.spark.MLModel) and again.stages[2].uid == fitted.stages[2].uid
    wanted = [row.score for row in found.select("score").collect()]
    assert [row.score for row in again.transform(rows).select("score").collect()] == wanted
    with pytest.raises(ValueError, match="not MLWritable"):  # code is nothing that is saved
        Pipeline(stages=stages(tmp_path / "run")).write().save(str(tmp_path / "code"))
    with pytest.raises(INVALID, match="every task have mounted"):
        fitted.stages[2].write().save("hdfs://nowhere/saved")


@pytest.mark.slow
def test_every_fit_of_other_rows_or_settings_is_a_training_of_its_own(rows: Any, tmp_path: Path) -> None:
    *before, training = stages(tmp_path / "run", epochs=1)
    ready = Pipeline(stages=before).fit(rows).transform(rows).cache()
    grid = ParamGridBuilder().addGrid(training.model_params, [{"rate": 1e-9}, {"rate": 0.5}]).build()
    judge = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol="late")
    found = CrossValidator(estimator=training, estimatorParamMaps=grid, evaluator=judge, numFolds=2, seed=1).fit(ready)
    assert found.avgMetrics[1] > found.avgMetrics[0] + 0.05, found.avgMetrics
    folders = sorted(p.parent.name for p in (tmp_path / "run").rglob("best"))
    assert len(folders) == 5 and not (tmp_path / "run" / "best").exists()
    first, second = training.fit(ready), training.fit(ready.where("id < 3"))
    assert first.model.checkpoint.startswith(str(tmp_path / "run" / "best"))
    assert "/fits/" in second.model.checkpoint and second.model.figures["examples"] < first.model.figures["examples"]


def test_the_length_of_a_vector_is_told_by_who_made_it(rows: Any) -> None:
    ready = VectorAssembler(inputCols=["x", "y"], outputCol="both").transform(rows)
    assert resolve(arrow_schema(ready), ["both"], None).tensors["both"].shape == (2,)
    said = resolve(arrow_schema(ready), [tf.spark.Column("both", kind="sparse")], None).tensors
    assert said["both"].dtype is tf.float64 and "both/indices" in said
    other = ready.select(F.col("both").alias("both", metadata={}))
    with pytest.raises(INVALID, match=r"of any length: say how long it is, by Column\(\.\.\., shape=\[n\]\)"):
        resolve(arrow_schema(other), ["both"], None)


def test_options_are_params(tmp_path: Path) -> None:
    training = stages(tmp_path, workers=2, sync=False)[2]
    assert training.getOrDefault(training.workers) == 2 and not training.isDefined("ps")
    assert {p.name for p in training.params} >= {"epochs", "model_params", "uneven", "read_files", "label"}
    other = training.copy({training.epochs: 9})
    assert (training.getOrDefault("epochs"), other.getOrDefault("epochs")) == (4, 9)
    assert "batch_size: as of sparkflow's train (current: 32)" in training.explainParams()
    with pytest.raises(INVALID, match="MLEstimator has no option 'epoch'; it has label, features"):
        stages(tmp_path, epoch=3)
    with pytest.raises(AttributeError, match="no attribute 'Estimator'"):
        _ = tf.spark.Estimator


def test_a_fit_that_failed_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, failing = list[Any](), [True]

    def train(rows: Any, model_fn: Any, **options: Any) -> None:
        folders.append(options["checkpoint_dir"])
        if failing:
            raise INVALID("no such column")

    monkeypatch.setattr(spark, "train", train)
    training = stages(tmp_path / "run")[2]
    with pytest.raises(INVALID, match="no such column"):
        training.fit(None)
    failing.clear()
    training.fit(None)
    training.copy().fit(None)
    training.fit(None, {training.epochs: 2})
    assert folders[:2] == [str(tmp_path / "run")] * 2
    assert len({*folders[2:]}) == 2 and all(str(tmp_path / "run" / "fits") in folder for folder in folders[2:])


def test_options_that_are_cleared_are_trains_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(spark, "train", lambda rows, model_fn, **options: given.update(options))
    training = stages(tmp_path)[2]
    for param in (training.model_params, training.checkpoint_dir, training.epochs):
        training.clear(param)
    training.copy({training.batch_size: 8}).fit(None)
    assert given["params"] is None and given["checkpoint_dir"] is None and "epochs" not in given
