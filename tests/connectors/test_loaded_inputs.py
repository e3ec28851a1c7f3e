"""Inputs of saved models: what column each can be, and tables whose types do not say what they hold."""

from __future__ import annotations

import shutil
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


def saved_sparse(folder: Path, dtype: Any, shape: list[int | None]) -> str:
    """A model that gives the sums of a sparse input's rows, and a number's double."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x, n = tf.sparse_placeholder(dtype, shape, name="x"), tf.placeholder(tf.int64, [None], name="n")
        y = tf.reshape(tf.sparse_reduce_sum(x, 1), [-1])
        tf.saved_model.simple_save(session, str(folder), {"x": x, "n": n}, {"y": y, "twice": 2 * n})
    return str(folder)


def test_a_sparse_input_is_a_column_of_lists(tmp_path: Path) -> None:
    """What an Estimator exports that was trained on one could not be loaded."""
    path = saved_sparse(tmp_path / "m", tf.int64, [None, None])
    table = pa.table({"x": [[1, 2, 3], [], [5]], "n": [7, 8, 9], "w": [["a"], ["b", "c"], []]})
    found = tf.local.load_model(path).transform(table)
    assert found["y"].to_pylist() == [6, 0, 5] and found["twice"].to_pylist() == [14, 16, 18]
    words = Column("w", vocabulary=["a", "b"], num_oov_buckets=1, kind="sparse")
    model = tf.local.load_model(path, columns={"x": words})
    assert model.transform(table)["y"].to_pylist() == [0, 3, 0]
    assert model.transform(table, fetches=["y"])["y"].to_pylist() == [0, 3, 0]
    with pytest.raises(INVALID, match=r"Column 'w' is missing"):
        model.transform(table.drop(["w"]))


@pytest.mark.parametrize(
    "dtype, shape, column, refusal",
    [
        (tf.int64, [None, None], Column("x", shape=[3]), "Input 'x' is a SparseTensor, which a column of lists can be"),
        (
            tf.float32,
            [None, None],
            Column("x", hash_buckets=3, kind="sparse"),
            "is float32, and Column 'x' gives int64",
        ),
        (tf.int64, [None, None, None], "x", "a SparseTensor of 3 dimensions, and a column makes one of 2"),
    ],
)
def test_a_sparse_input_that_no_column_is(dtype: Any, shape: Any, column: Any, refusal: str, tmp_path: Path) -> None:
    with pytest.raises(INVALID, match=refusal):
        tf.local.load_model(saved_sparse(tmp_path / "m", dtype, shape), columns={"x": column})


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


def test_a_table_whose_file_is_another_one_by_now(tmp_path: Path) -> None:
    """Exported anew into the same folder: the graph is the same, and there are no variables to tell them apart."""
    found = []
    for words in ("a\nb\n", "b\na\n"):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        (tmp_path / "words.txt").write_text(words)
        with tf.Graph().as_default(), tf.Session() as session:
            word = tf.placeholder(tf.string, [None])
            table = tf.contrib.lookup.index_table_from_file(str(tmp_path / "words.txt"))
            given = {"word": word}, {"at": table.lookup(word)}
            session.run(tf.tables_initializer())
            tf.saved_model.simple_save(session, str(tmp_path / "model"), *given, legacy_init_op=tf.tables_initializer())
        model = tf.local.load_model(tmp_path / "model")
        found.append(model.transform(pd.DataFrame({"word": ["a", "b"]}))["at"].tolist())
    assert found == [[0, 1], [1, 0]]
