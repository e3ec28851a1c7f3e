"""pandas frames that are scored: what is fed of them as it is, and what by way of Arrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import local
from sparkflow_connectors.columns import Column
from sparkflow_connectors.model import Predictor

INVALID = tf.errors.InvalidArgumentError
ROWS = 40_000  # in three parts


@pytest.fixture
def model(tmp_path: Path) -> str:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x, n, s = (tf.placeholder(t, [None]) for t in (tf.float64, tf.int64, tf.string))
        score = x + tf.cast(n, tf.float64) + tf.strings.to_number(s, tf.float64)
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x, "n": n, "s": s}, {"score": score})
    return str(tmp_path / "m")


def frame() -> pd.DataFrame:
    row = np.arange(ROWS)
    return pd.DataFrame({"x": row / 4, "n": pd.array(row, "Int64"), "s": row.astype(str), "kept": "k"}, row + 7)


def test_columns_of_numpy_are_fed_as_they_are(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow would look at each value, and take as long for that as a small model computes. Parts of what comes by it
    are of the same rows."""
    seen, through = list[str](), local.table_of
    monkeypatch.setattr(local, "table_of", lambda frame: seen.extend(frame.columns) or through(frame))
    scored = tf.local.load_model(model).transform(frame())
    np.testing.assert_array_equal(scored["score"], np.arange(ROWS) * 2.25)
    assert scored.drop(columns="score").equals(frame())
    assert seen == ["n", "s"]


@pytest.mark.parametrize(("name", "null"), [("x", np.nan), ("n", pd.NA), ("s", None)])
def test_nulls_are_named_by_the_row_of_the_frame(model: str, name: str, null: object) -> None:
    data = frame().astype({"s": object})
    data.loc[30_007, name] = null
    with pytest.raises(INVALID, match=f"Column '{name}' .*is null at row 30000 of its partition"):
        tf.local.load_model(model).transform(data)


def test_predictions_that_one_array_does_not_hold(tmp_path: Path) -> None:
    """One of lists holds 2**31 values: more are several, each with its rows."""
    rows, width = 600_000, 3600
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.bool, [None, 1])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": tf.tile(x, [1, width])})
    table = pa.table({"x": np.arange(rows) % 3 == 0})
    scored = tf.local.load_model(str(tmp_path / "m")).transform(table)
    assert scored.select(["x"]).equals(table) and scored["y"].num_chunks > 1
    assert [scored["y"][i].as_py()[-1] for i in (0, 1, rows - 3, rows - 1)] == [True, False, True, False]


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_few_large_rows_are_scored_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Of 16,384 images a model's layers would not fit in memory, nor the images that it gives in a message."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.uint8, [None, 100, 400])
        outputs = {"mask": x > 3, "most": tf.reduce_max(x, [1, 2])}
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, outputs)
    model = tf.local.load_model(str(tmp_path / "m"), {"x": Column("x", cast=tf.uint8, shape=[100, 400])})
    at_once, run = [], Predictor.run
    monkeypatch.setattr(Predictor, "run", lambda self, given: at_once.append(len(given["x"])) or run(self, given))
    images = [bytes([i % 200]) * 40_000 for i in range(1000)]
    table = pa.table({"x": images})
    scored = model.transform(table if kind == "arrow" else table.to_pandas(), fetches=["most"])
    assert at_once == [500, 500] and list(map(int, scored["most"])) == [i % 200 for i in range(1000)]
    at_once.clear()
    assert len(model.transform(table if kind == "arrow" else table.to_pandas())) == 1000
    assert at_once == [334, 334, 332], "masks are as large as the images"
