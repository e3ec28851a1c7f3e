"""Inputs of saved models: what column each can be, and tables whose types do not say what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column

INVALID = tf.errors.InvalidArgumentError


def saved(folder: Path, dtype: Any, shape: Any) -> str:
    """A model that gives its input."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(dtype, shape, name="x")
        y = tf.cast(x, tf.float32, name="y") if dtype in (tf.bfloat16, tf.complex64) else tf.identity(x, name="y")
        tf.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
    return str(folder)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.complex64])
def test_an_input_that_no_column_is(dtype: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "m", dtype, [None])
    with pytest.raises(INVALID, match=f"Input 'x' is {dtype.name}, which no column is. Give `inputs` a tensor behind"):
        tf.local.load_model(path)


def test_a_number_a_row_for_a_matrix_of_one_column(tmp_path: Path) -> None:
    path = saved(tmp_path / "m", tf.float32, [None, 1])
    table = pa.table({"x": pa.array([1.0, 2.0], pa.float32())})
    assert tf.local.load_model(path).transform(table)["y"].to_pylist() == [[1.0], [2.0]]
    model = tf.local.load_model(path, columns={"x": Column("n", cast=tf.float32, default=0.5)})
    assert [y.tolist() for y in model.transform(pd.DataFrame({"n": [1.0, None]}))["y"]] == [[1.0], [0.5]]


def test_a_table_without_a_value(tmp_path: Path) -> None:
    """Arrow, too, has no type for None alone; the table keeps what it has."""
    model = tf.local.load_model(saved(tmp_path / "n", tf.int64, [None]), columns={"x": Column("x", default=7)})
    found = model.transform(pa.table({"x": [None, None], "z": [1, 2]}))
    assert found["y"].to_pylist() == [7, 7] and found.schema.field("x").type == pa.null()
    lists = tf.local.load_model(
        saved(tmp_path / "l", tf.int64, [None, 2]), columns={"x": Column("x", shape=[2], pad=3)}
    )
    for table in (pa.table({"x": [[], []]}), pd.DataFrame({"x": [[], []]})):
        assert [list(y) for y in np.asarray(lists.transform(table)["y"])] == [[3, 3]] * 2
    with pytest.raises(INVALID, match=r"Column 'x' \(feature\) is null at row 0"):
        tf.local.load_model(str(tmp_path / "n")).transform(pa.table({"x": [None]}))


def test_the_checkpoint_of_a_training_is_told_as_such(tmp_path: Path) -> None:
    """It has no signature, and what to do was not said."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("sparkflow_job"):
            tf.get_variable("position", [2])
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), global_step=3)
    with pytest.raises(INVALID, match=r"is of a training, .* Call `train` with its checkpoint_dir again"):
        tf.local.load_model(tmp_path)


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_of_a_model(path: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="path must be that of a SavedModel's folder"):
        tf.local.load_model(path)
