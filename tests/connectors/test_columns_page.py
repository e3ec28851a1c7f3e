"""docs/columns.md, run as its reader would run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import sparkflow as tf
from sparkflow.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "columns.md"
ROWS = 40
TABLE = pa.table(
    {
        "age": pa.array(range(ROWS), pa.int32()),
        "price": [None if i % 5 == 0 else i / 2 for i in range(ROWS)],
        "city": [["Roma", "Århus", "?"][i % 3] for i in range(ROWS)],
        "words": [["a", "b"] * (i % 5) for i in range(ROWS)],
        "tags": [["t"] * (i % 4) for i in range(ROWS)],
        "embedding": pa.array([[float(i)] * 64 for i in range(ROWS)], pa.list_(pa.float32())),
        "image": [bytes([i]) * 784 for i in range(ROWS)],
        "label": pa.array(np.linspace(0, 1, ROWS), pa.float32()),
    }
)
SHAPES = {"age": [], "price": [], "city": [], "words": [20], "embedding": [64], "image": [28, 28]}


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the page's program calls so, run where its vocabulary is."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "cities.txt").write_text("Roma\nÅrhus\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert {engine.Column for engine in (tf.spark, tf.dask, tf.local)} == {names["Column"]}, "as its comment says"
    found: list[Any] = names["features"]
    return found


def model_fn(features: dict[str, Any], labels: Any, mode: str) -> Any:
    assert {name: features[name].shape.as_list()[1:] for name in SHAPES} == SHAPES
    rows = [
        tf.reshape(tf.cast(features[name], tf.float32), [-1, max(np.prod(SHAPES[name], dtype=int), 1)])
        for name in SHAPES
    ]
    users = tf.get_variable("users", [1000, 2])
    tags = tf.nn.safe_embedding_lookup_sparse(users, features["tags"])
    score = tf.layers.dense(tf.layers.dense(tf.concat([*rows, tags], 1) * 1e-6, 3, tf.nn.relu), 1)[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": score})
    loss = tf.reduce_mean(tf.square(score - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_a_training_reads_the_columns_and_gives_tables(features: list[Any], tmp_path: Path) -> None:
    model = tf.local.train(
        TABLE, model_fn, label="label", features=features, sync=False, batch_size=8, checkpoint_dir=str(tmp_path / "m")
    )
    assert model.transform(TABLE).schema.names == [*TABLE.schema.names, "score"]
    hidden = model.transform(TABLE, fetches=["dense/Relu:0"])
    assert hidden.schema.field("dense/Relu:0").type == pa.list_(pa.float32()) and hidden.num_rows == ROWS
    users = tf.local.variable_table(model, "users")
    assert users.schema.names == ["row", "value"] and users.num_rows == 1000
    ones = pa.table({"row": [7], "value": pa.array([[1.0, 1.0]], pa.list_(pa.float32()))})
    made = tf.local.write_variables(str(tmp_path / "warm"), {"users": ones}, base=model)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("users", [1000, 2])
        tf.train.init_from_checkpoint(made, {"users": "users"})
        session.run(tf.global_variables_initializer())
        found = session.run("users:0")
    assert found[7].tolist() == [1, 1] and found[8].tolist() == users["value"][8].as_py(), "the others out of base"


def test_the_types_that_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "t.parquet")
    assert main(["schema", str(tmp_path / "t.parquet"), "--column", "city:hash_buckets=1000"]) == 0
    lines = {line.split()[0]: line.split()[1:4] for line in capsys.readouterr().out.splitlines()}
    assert lines["city"] == ["string", "int64", "[rows]"] and lines["age"] == ["int32", "int32", "[rows]"]
