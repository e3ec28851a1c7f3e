"""What Dask may call columns, and we do not."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.dask_schema import arrow_schema

FRAME = pd.DataFrame({"x": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", 0], r"Column 0 has a name that is no string \(int\): rename it"),
        (
            pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]),
            r"Column \('a', 'b'\) has a name that is no string \(tuple",
        ),
        (["a", "a"], "Column 'a' is there 2 times: give the columns different names"),
    ],
)
def test_names_that_no_column_may_have(names: Any, message: str, tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2], [3, 4]])
    frame.columns = names
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        arrow_schema(dd.from_pandas(frame, npartitions=1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.dask.to_tfrecord(dd.from_pandas(frame, npartitions=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_partition_that_lacks_a_column(lacking: int, tmp_path: Path) -> None:
    """Nothing is written then. The rows of the first one say what objects are: the others' column would be lost."""
    whole = pd.DataFrame({"x": [1, 2], "words": [["a"], ["b", "c"]]})
    parts = [dask.delayed(whole[["x"]] if i == lacking else whole) for i in range(2)]
    frame = dd.from_delayed(parts, meta=whole.iloc[:0], verify_meta=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Column 'words' is missing in "):
        tf.dask.to_tfrecord(frame, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_column_that_is_read_and_lacking(tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.string, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"name": x}, {"length": tf.strings.length(x)})
    whole = pd.DataFrame({"x": [1, 2], "name": ["a", "b"]}, dtype=object)
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_delayed([dask.delayed(whole[["x"]])], meta=whole.iloc[:0], verify_meta=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Column 'name' is missing in a partition of the table"):
        tf.dask.load_model(str(tmp_path / "m")).transform(frame)


@pytest.mark.parametrize(
    "other",
    [
        dask.delayed(1), FRAME.to_numpy(), FRAME, dd.from_pandas(FRAME, npartitions=1).to_dask_array(), None,
        dd.from_pandas(FRAME, npartitions=1)["x"],
    ],
    ids=["Delayed", "array", "pandas", "Array", "None", "Series"],
)  # fmt: skip
def test_what_is_no_frame_of_dask(other: Any, tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected a Dask DataFrame, got "):
        tf.dask.to_tfrecord(other, tmp_path / "out")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected a Dask DataFrame, got "):
        tf.dask.train(other, None, label=None, checkpoint_dir=str(tmp_path))


@pytest.mark.parametrize("none", [None, [], float("nan")], ids=str)
@pytest.mark.parametrize("partitions", [1, 4])
def test_objects_whose_first_rows_do_not_tell(none: Any, partitions: int, tmp_path: Path) -> None:
    """What they are, the first rows with a value say, in whatever partition."""
    prices = [None] * 30 + [Decimal("1"), Decimal("1.25")] * 15
    frame = pd.DataFrame({"list": [none] * 45 + [[1.5, 2.5]] * 15, "price": prices})
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"}):
        table = dd.from_pandas(frame, npartitions=partitions)
        schema = arrow_schema(table)
        tf.dask.to_tfrecord(table, tmp_path / "out")
        back = tf.local.read_tfrecord(tmp_path / "out")
    assert (schema.field("list").type, schema.field("price").type) == (pa.list_(pa.float64()), pa.decimal128(38, 2))
    assert back["list"].to_pylist()[45:] == [[1.5, 2.5]] * 15 and back["price"].to_pylist()[-1] == Decimal("1.25")


def test_a_table_of_nothing_but_none_is_scored(tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        name, x = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float64, [None, 2])
        outputs = {"length": tf.strings.length(name), "sum": tf.reduce_sum(x, 1)}
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"name": name, "x": x}, outputs)
    columns = {"name": Column("name", default="none"), "x": Column("x", shape=[2], default=0.5)}
    model = tf.dask.load_model(str(tmp_path / "m"), columns)
    frame = pd.DataFrame({"name": [None] * 3, "x": [None] * 3})
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"}):
        scored = model.transform(dd.from_pandas(frame, npartitions=2)).compute()
    assert scored[["length", "sum"]].to_numpy().tolist() == [[4.0, 1.0]] * 3


def lists(convert: bool, *values: Any) -> Any:
    with dask.config.set({"dataframe.convert-string": convert}):
        return dd.from_pandas(pd.DataFrame({"row": range(len(values)), "value": values}), npartitions=1)


@pytest.mark.parametrize("value", [[1.0, 2.0], [], ["a"], [[1]], np.ones(2), {"a": 1}, [float("nan")]], ids=str)
def test_strings_that_dask_made_of_objects(value: Any, tmp_path: Path) -> None:
    """A training would be told of a vocabulary, and a variable of strings would be written."""
    made = "Dask has made strings of its objects, such as .*convert-string"
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"'value' has type .*string.*{made}"):
        tf.dask.train(
            lists(True, value), lambda features, labels, mode: None, label=None, checkpoint_dir=str(tmp_path / "out")
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Variable 'v': column 'value' has strings.*{made}"):
        tf.dask.write_variables(tmp_path / "v", {"v": lists(True, None, value)})
    assert not list(tmp_path.iterdir())


def test_strings_that_are_strings(tmp_path: Path) -> None:
    for number, words in enumerate((["[PAD]", "a"], ["b", "[1"], ["(a", "{x}"])):
        path = tf.dask.write_variables(tmp_path / f"{number}", {"v": lists(True, *words)})
        assert tf.train.load_variable(path, "v").tolist() == [word.encode() for word in words]
    path = tf.dask.write_variables(tmp_path / "asked", {"v": lists(True, "[1]")}, dtypes={"v": tf.string})
    assert tf.train.load_variable(path, "v").tolist() == [b"[1]"]
    path = tf.dask.write_variables(tmp_path / "kept", {"v": lists(False, [1.0, 2.0])})
    assert tf.train.load_variable(path, "v").tolist() == [[1.0, 2.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Give it a vocabulary or hash_buckets; .*and shape$"):
        tf.dask.train(
            lists(True, "[PAD]"), lambda features, labels, mode: None, label=None, checkpoint_dir=str(tmp_path / "out")
        )


@pytest.mark.parametrize(("value", "kind"), [({"a": 1}, r"struct<a: int64>"), ({1}, "list<item: int64>")])
def test_objects_that_are_no_column_are_refused_by_their_type(value: Any, kind: str, tmp_path: Path) -> None:
    """To pandas, columns of objects are strings, too."""
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(pd.DataFrame({"x": [value] * 4, "y": 1.0}), npartitions=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"Column 'x' .*{kind}"):
        tf.dask.train(frame, lambda features, labels, mode: None, label="y", checkpoint_dir=str(tmp_path))
