"""Variables as tables of the real Spark and Dask, and back into checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf

INVALID = tf.errors.InvalidArgumentError


def _save(folder: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("users", initializer=tf.reshape(tf.range(30, dtype=tf.float32), [15, 2]))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, f"{folder}/model")


@pytest.mark.parametrize("engine", ["spark", "dask"])
def test_a_variable_as_a_table_and_back(clusters: Any, engine: str, tmp_path: Path) -> None:
    connector, prefix = getattr(tf, engine), str(tmp_path / "checkpoint")
    _save(prefix)
    if engine == "dask":
        assert clusters.dask is not None
        table = connector.variable_table(prefix, "users", partitions=4)
        assert table.npartitions == 4
        whole = table.compute()
        changed = table[table["row"] < 3].map_partitions(lambda f: doubled(f), meta=table._meta)
    else:
        table = connector.variable_table(prefix, "users", clusters.spark)
        assert table.schema.simpleString() == "struct<row:bigint,value:array<float>>"
        whole = table.toPandas()
        changed = table.where("row < 3").selectExpr("row", "transform(value, v -> cast(2 * v as float)) value")
    users = np.arange(30, dtype=np.float32).reshape(15, 2)
    whole = whole.sort_values("row")
    assert whole["row"].tolist() == list(range(15)) and [list(v) for v in whole["value"]] == users.tolist()
    warm = connector.write_variables(str(tmp_path / "warm"), {"users": changed}, base=str(Path(prefix, "model")))
    half = connector.write_variables(str(tmp_path / "half"), {"users": table}, dtypes={"users": tf.float16})
    assert tf.train.load_variable(half, "users").dtype == np.float16
    users[:3] *= 2
    assert tf.train.load_variable(warm, "users").tolist() == users.tolist()
    with pytest.raises(INVALID, match="row 3 is missing. Give `base`" if engine == "spark" else "is missing"):
        connector.write_variables(str(tmp_path / "cold"), {"users": connector_rows(changed, engine)})
    assert not list(tmp_path.glob("cold*"))


def doubled(frame: pd.DataFrame) -> pd.DataFrame:
    values = pd.array([[2 * x for x in v] for v in frame["value"]], frame["value"].dtype)
    return frame.assign(value=values)


def connector_rows(changed: Any, engine: str) -> Any:
    """Rows 1, 2 and 4 of three: one is missing."""
    if engine == "spark":
        return changed.selectExpr("if(row = 0, 4L, row) row", "value").where("row != 0").union(changed.where("row = 0"))
    return changed[changed["row"] > 0]


@pytest.mark.parametrize("engine", ["spark", "dask"])
def test_a_training_begins_with_rows_of_a_table(
    clusters: Any, engine: str, table: pa.Table, tmp_path: Path, none_left: Any
) -> None:
    """Rate 0: what the parameter servers hold at the end is what they began with."""
    users = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
    kind = pd.ArrowDtype(pa.list_(pa.float32()))
    rows = pd.DataFrame({"row": np.arange(200), "value": pd.array(users.tolist(), kind)})
    if engine == "spark":
        frame = clusters.spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))
    else:
        import dask.dataframe as dd

        assert clusters.dask is not None
        frame = dd.from_pandas(rows, npartitions=2)
    warm = getattr(tf, engine).write_variables(str(tmp_path / "warm"), {"table": frame})

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        variable = tf.get_variable("users", [200, 4])
        p = tf.reduce_sum(tf.nn.embedding_lookup(variable, features["user"]), 1) * features["x"]
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": p})
        tf.train.init_from_checkpoint(warm, {"table": "users"})
        loss = tf.reduce_mean(tf.square(p - labels))
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = clusters.train(engine, table, tmp_path / "out", model_fn=model_fn, sync=False, epochs=1)
    assert model.variables()["users"].tobytes() == users.tobytes()
    none_left()
