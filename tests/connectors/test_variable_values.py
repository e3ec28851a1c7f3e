"""Tables of numbers as variables: what their dtype has not is refused, not cut off."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.model import Model, fingerprint
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.variable_tables import Rows, as_arrow, write

INF = float("inf")


@pytest.fixture
def base(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        for dtype in (tf.int8, tf.uint8, tf.int32, tf.bool, tf.float16, tf.bfloat16, tf.float32):
            tf.get_variable(dtype.name, [3, 2], dtype, initializer=tf.zeros_initializer())
        tf.get_variable("alone", [])
        tf.get_variable("string", initializer=tf.fill([3, 2], "-"))
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "base")))


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("int8", [300, 1], "row 1 has 300"),
        ("int8", [-128, 1.0], [-128, 1]),
        ("uint8", [1, -1], "row 1 has -1"),
        ("int32", [1.0, 0.5], "row 1 has 0.5"),
        ("int32", [1.0, float("nan")], "row 1 has nan"),
        ("bool", [1, 2], "row 1 has 2"),
        ("bool", [1, 0], [True, False]),
        ("float16", [1.0, 70000.0], "row 1 has 70000.0"),
        ("float16", [0.1, INF], [np.float16(0.1), INF]),
        ("bfloat16", [1.0, 1e39], r"row 1 has 1e\+39"),
        ("float32", [1.0, 1e300], r"row 1 has 1e\+300"),
        ("float32", [2**60 + 1, 1], [2.0**60, 1.0]),
        ("int32", [Decimal("1.5"), Decimal(1)], "Rescaling Decimal value would cause data loss"),
        ("int32", [Decimal("1.0"), Decimal(2**31 - 1)], [1, 2**31 - 1]),
        ("uint8", [Decimal(300), Decimal(1)], "Integer value out of bounds"),
        ("float16", [Decimal("0.1"), Decimal(70000)], "row 1 has 70000.0"),
        ("float32", [Decimal("0.1"), Decimal(1)], [np.float32(0.1), 1]),
        ("bool", [Decimal(1), Decimal(2)], "row 1 has 2.0"),
        ("string", [Decimal(1), Decimal(2)], "there are no strings"),
        ("string", ["a", "b"], [b"a", b"b"]),
    ],
)
def test_numbers_that_a_variable_has_not(dtype: str, values: Any, found: Any, base: str, tmp_path: Path) -> None:
    first = {str: ["-", "-"], Decimal: [Decimal(0), Decimal(1)]}.get(type(values[0]), [0, 1])
    rows = pa.table({"row": [0, 1], "value": [first, values]})
    if isinstance(found, str):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{dtype!r}: column 'value' does not fit .*: {found}"):
            write(tmp_path / "out", {dtype: rows}, base)
        assert not list(tmp_path.glob("out*"))
        return
    write(tmp_path / "out", {dtype: rows}, base)
    written = tf.train.load_variable(str(tmp_path / "out"), dtype).tolist()
    assert written == ([[b"-", b"-"], found, [b"-", b"-"]] if dtype == "string" else [[0, 1], found, [0, 0]])


def test_decimals_are_doubles_where_nothing_else_is_known(tmp_path: Path) -> None:
    path = write(tmp_path / "out", {"d": pa.table({"row": [0], "value": [Decimal("0.1")]})})
    found = tf.train.load_variable(path, "d")
    assert found.dtype == np.float64 and found.tolist() == [0.1]


@pytest.mark.parametrize("value", [dt.date(2020, 1, 1), dt.time(1), dt.timedelta(1), {"a": 1}], ids=repr)
def test_values_that_no_variable_has(value: Any, base: str, tmp_path: Path) -> None:
    rows = pa.table({"row": [0], "value": [[value, value]]})
    for known in (base, None):
        with pytest.raises(tf.errors.InvalidArgumentError, match="'float32': column 'value' has values of type"):
            write(tmp_path / "out", {"float32": rows}, known)
    assert not list(tmp_path.glob("out*"))


def test_ml_vectors_are_rows(base: str, tmp_path: Path) -> None:
    """As Word2Vec of Spark's ML gives them: a sparse one is zero elsewhere."""
    kind = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    dense = {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0]}
    sparse = {"type": 0, "size": 2, "indices": [1], "values": [5.0]}
    table = pa.table({"row": [2, 0], "value": pa.array([dense, sparse], kind)})
    path = write(str(tmp_path / "new"), {"float32": table}, base)
    found = tf.train.load_variable(path, "float32")
    assert found.tolist() == [[0.0, 5.0], [0.0, 0.0], [1.0, 2.0]] and found.dtype == np.float32
    uneven = pa.table({"row": [0, 1], "value": pa.array([sparse, {**dense, "values": [1.0]}], kind)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Variable 'float32': its rows have 1 to 2 values"):
        write(str(tmp_path / "bad"), {"float32": uneven}, base)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1.0], [1.0, 2.0]], "its rows have 1 to 2 values, such as rows 7 and 3$"),
        ([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0]]], "its rows have 1 to 2 values, such as rows 3 and 7$"),
        ([[1.0], None], "a value is null, in row 3$"),
        ([[1.0, 2.0], [1.0, None]], "a value is null, in row 3$"),
        ([[[1.0], [None]], [[1.0], [2.0]]], "a value is null, in row 7$"),
        ([1.0, None], "a value is null, in row 3$"),
    ],
)
def test_rows_that_are_no_rows(values: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"^Variable 'v': {said}"):
        write(tmp_path / "out", {"v": pa.table({"row": [7, 3], "value": values})})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"column 'row' has nulls, 1 of 2$"):
        write(tmp_path / "out", {"v": pa.table({"row": [None, 3], "value": [1.0, 2.0]})})
    assert not list(tmp_path.iterdir())


def test_a_variable_is_not_given_twice(tmp_path: Path) -> None:
    rows = pa.table({"row": [0], "value": [1.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Variable 'v' has two tables"):
        write(tmp_path / "out", {"v": rows, "v:0": rows})


def test_a_folder_is_no_prefix(tmp_path: Path) -> None:
    """Files would lie beside it, and whoever reads that path would look into it."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"is a folder, .* a prefix, such as {tmp_path}/variables"):
        write(tmp_path, {"v": pa.table({"row": [0], "value": [1.0]})})
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.*"))


@pytest.mark.parametrize("name", [5, None, b"int32"])
def test_a_name_that_is_none(name: Any, base: str) -> None:
    assert as_arrow(base, "int32:0").num_rows == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Expected a variable's name.* got {type(name).__name__}"):
        as_arrow(base, name)


def test_a_column_that_is_there_twice(base: str, tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([0]), pa.array([0]), pa.array([1.0])], ["row", "row", "value"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Variable 'v': column 'row' is there 2 times"):
        write(tmp_path / "out", {"v": twice})


def test_bytes_that_are_no_text(base: str, tmp_path: Path) -> None:
    values = pa.array([[b"\xff", b"a"]], pa.list_(pa.binary()))
    path = write(tmp_path / "out", {"string": pa.table({"row": [1], "value": values})}, base)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Variable 'string' has bytes that are no UTF-8"):
        as_arrow(path, "string")


@pytest.mark.parametrize("partitioner", [None, tf.fixed_size_partitioner(2)])
def test_doubles_begin_a_variable_of_floats(partitioner: Any, tmp_path: Path) -> None:
    """As tables mostly have them, and ML vectors always."""
    doubles = pa.table({"row": [1, 0, 2], "value": [[0.1, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    path = write(tmp_path / "out", {"users:0": doubles}, dtypes={"users": tf.float32})
    with tf.Graph().as_default(), tf.Session() as session:
        users = tf.get_variable("users", [3, 2], partitioner=partitioner)
        tf.train.init_from_checkpoint(path, {"users": "users"})
        session.run(tf.global_variables_initializer())
        found = session.run(tf.convert_to_tensor(users))
    assert found.tolist() == np.array([[3, 4], [0.1, 2], [5, 6]], np.float32).tolist()


def test_dtypes_that_do_not_fit(base: str, tmp_path: Path) -> None:
    rows = {"float32": pa.table({"row": [0], "value": [[0.5, 1.5]]})}
    for dtypes, given, why in (
        ({"users": "float32"}, None, "dtypes: there is no table of variable 'users'"),
        ({"float32": "int32"}, None, "column 'value' does not fit its dtype, int32: row 0 has 0.5"),
        ({"float32": "float16"}, base, "Variable 'float32': dtypes says float16, and .*base has float32"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=why):
            write(tmp_path / "out", rows, given, dtypes)
    assert not list(tmp_path.glob("out*"))


def test_rows_of_a_checkpoint_that_a_training_replaced(base: str, tmp_path: Path) -> None:
    """A table that tasks read later would have rows of two trainings."""
    mark, model = Rows(base, "float32").mark, _model_of(base)
    assert Rows(base, "float32", mark).shape == (3, 2) and as_arrow(model, "float32").num_rows == 3
    write(base + "2", {"float32": as_arrow(base, "float32")})
    for file in tmp_path.glob("base2.*"):
        file.rename(str(file).replace("base2", "base"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="base is another one since the table of 'float32'"):
        Rows(base, "float32", mark)
    with pytest.raises(tf.errors.FailedPreconditionError, match="another training has replaced it"):
        as_arrow(model, "float32")
    Path(base + ".index").unlink()
    with pytest.raises(tf.errors.FailedPreconditionError, match="base is gone since the table of 'float32' was made"):
        Rows(base, "float32", mark)


def _model_of(checkpoint: str) -> Model:
    graph: Any = None
    return Model(graph, Columns({}), checkpoint, fingerprint=fingerprint(checkpoint))


def test_a_variable_that_is_one_value_is_no_table(base: str, tmp_path: Path) -> None:
    rows = pa.table({"row": [0], "value": [1.0]})
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"'alone' is one value in .*base, no table.* Leave it out"
    ):
        write(str(tmp_path / "out"), {"alone": rows}, base)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"one value, no table; tf\.train.load_variable reads it"):
        as_arrow(base, "alone")


@pytest.mark.parametrize(
    ("path", "tables", "dtypes", "said"),
    [
        (None, {}, None, "path must be a checkpoint's prefix, got NoneType"),
        ("out", [1], None, r"tables must be a dict of tables by a variable's name, got \[1\]"),
        ("out", {3: None}, None, "tables must be a dict of tables"),
        ("out", {}, "float32", "dtypes must be a dict of dtypes by a variable's name, got 'float32'"),
    ],
)
def test_what_no_variable_is_written_of(path: Any, tables: Any, dtypes: Any, said: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        tf.local.write_variables(path, tables, dtypes=dtypes)
