"""Columns packed in SQL: what is selected, and that nothing is copied afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.packing import pack, packing_of, tensors_of
from sparkflow_connectors.schema import resolve
from sparkflow_runtime.wire.errors import InvalidArgumentError

SCHEMA = pa.schema(
    [
        ("x", pa.float32()), ("a", pa.int64()), ("y", pa.float32()), ("flag", pa.bool_()), ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(9, 2)), ("name", pa.string()), ("alone", pa.int16()),
    ]
)  # fmt: skip


def packed_batch(**lists: Any) -> pa.RecordBatch:
    types = {"packed_float32": pa.float32(), "packed_bool": pa.int8()}
    return pa.RecordBatch.from_pydict({n: pa.array(v, pa.list_(types[n])) for n, v in lists.items()})


def test_columns_of_a_type_are_one_array() -> None:
    packing = pack(SCHEMA)
    assert packing.expressions == [
        "`name`", "`alone`", "array(`x`, `y`) as `packed_float32`", "array(`a`, unix_micros(`at`)) as `packed_int64`",
        "array(cast(`flag` as tinyint)) as `packed_bool`", "array(unix_date(`day`)) as `packed_int32`",
        "array(cast(`price` as double)) as `packed_float64`",
    ]  # fmt: skip
    assert packing.plain == ["name", "alone"]
    assert packing.blocks["packed_int64"].names == ("a", "at")


def test_so_many_columns_are_more_blocks_than_spark_makes_one_function_of() -> None:
    names = [f"f{i}" for i in range(2000)]
    packing = pack(pa.schema([(name, pa.float32()) for name in names]))
    assert 100 < len(packing.blocks) < 200 and not packing.plain
    assert [name for block in packing.blocks.values() for name in block.names] == names
    assert len(pack(pa.schema([(name, pa.float32()) for name in names[:1000]])).blocks) == 1


def test_a_default_stands_for_nulls_before_they_leave() -> None:
    schema = pa.schema([("x", pa.float32()), ("n", pa.int32()), ("b", pa.bool_())])
    assert pack(schema, {"x": float("nan"), "n": 7, "b": True}).expressions == [
        "array(coalesce(`x`, cast('nan' as float))) as `packed_float32`",
        "array(coalesce(`n`, cast('7' as int))) as `packed_int32`",
        "array(coalesce(cast(`b` as tinyint), cast('1' as tinyint))) as `packed_bool`",
    ]


def test_a_default_is_rounded_once() -> None:
    """Between two floats; the text of this double is nearer to the lower one, and Spark takes its text."""
    schema, default = pa.schema([("x", pa.float32()), ("y", pa.float64())]), 1.0000001788139343
    floats, doubles = pack(schema, {"x": default, "y": default}).expressions
    assert f"cast('{float(np.float32(default))!r}' as float)" in floats and np.float32(default) > np.float32(
        default - 1e-15
    )
    assert f"cast('{default!r}' as double)" in doubles
    assert "cast('inf' as float)" in pack(schema, {"x": 3.4028235677973366e38}).expressions[1]


def test_names_are_quoted_and_do_not_clash() -> None:
    packing = pack(pa.schema([("a`b", pa.int8()), ("c d", pa.int8()), ("packed_int8", pa.string())]))
    assert packing.expressions == ["`packed_int8`", "array(`a``b`, `c d`) as `packed_int8_`"]


def test_unpacked_columns_are_views() -> None:
    packing = pack(pa.schema([("x", pa.float32()), ("y", pa.float32()), ("f", pa.bool_()), ("g", pa.bool_())]))
    batch = packed_batch(packed_float32=[[1, 2], [3, 4], [5, 6]], packed_bool=[[0, 1], [1, 1], [0, 0]]).slice(1)
    found = packing.unpack(batch)
    assert {name: values.tolist() for name, values in found.items()} == {
        "x": [3, 5], "y": [4, 6], "f": [True, False], "g": [True, False],
    }  # fmt: skip
    memory = batch.column("packed_float32").values.to_numpy()
    assert np.shares_memory(found["x"], memory) and np.shares_memory(found["y"], memory)
    assert np.shares_memory(found["f"], batch.column("packed_bool").values.to_numpy())
    assert packing.take(batch)["packed_float32"].shape == (2, 2)


def test_a_null_is_refused_by_its_column_and_row() -> None:
    packing = pack(pa.schema([("x", pa.float32()), ("y", pa.float32())]))
    with pytest.raises(InvalidArgumentError, match="Column 'y' is null at row 1 of its partition"):
        packing.take(packed_batch(packed_float32=[[1, 2], [3, None]]))
    with pytest.raises(InvalidArgumentError, match="'packed_float32' has 3 values in 2 rows, where each row has 2"):
        packing.unpack(packed_batch(packed_float32=[[1, 2], [3]]))


def test_what_a_model_reads_is_packed_where_it_can_be() -> None:
    """Casts to floats and defaults are SQL's; casts to whole numbers, strings and what is looked up are not."""
    columns = resolve(
        SCHEMA,
        [
            Column("x", cast=tf.float64), Column("y", default=0.5), Column("price", cast=tf.float32), "flag", "at",
            Column("name", default="?"), Column("a", hash_buckets=10), Column("alone", cast=tf.int8),
        ],
        None,
    )  # fmt: skip
    packing = packing_of(columns)
    assert packing.expressions == [
        "`name`", "`a`", "`alone`", "array(cast(`x` as double)) as `packed_float64`",
        "array(coalesce(`y`, cast('0.5' as float)), cast(cast(`price` as double) as float)) as `packed_float32`",
        "array(cast(`flag` as tinyint)) as `packed_bool`", "array(unix_micros(`at`)) as `packed_int64`",
    ]  # fmt: skip
    assert packing.plain == ["name", "a", "alone"] and packing.packed == packing.expressions[3:]
    batch = pa.RecordBatch.from_pydict(
        {
            "name": pa.array(["n", None]), "a": pa.array([1, 2]), "alone": pa.array([3, 4], pa.int16()),
            "packed_float64": pa.array([[1.5], [2.5]]), "packed_bool": pa.array([[1], [0]], pa.list_(pa.int8())),
            "packed_float32": pa.array([[0.5, 7.0], [1.0, 8.0]], pa.list_(pa.float32())),
            "packed_int64": pa.array([[10], [20]]),
        }
    )  # fmt: skip
    found = tensors_of(batch, columns.only(packing.plain), packing)
    assert set(found) == set(columns.tensors)
    assert all(found[name].dtype == tensor.dtype.np for name, tensor in columns.tensors.items())
    assert found["price"].tolist() == [7, 8] and found["flag"].tolist() == [True, False]
    assert found["name"].tolist() == [b"n", b"?"] and found["alone"].tolist() == [3, 4]
    holed = batch.set_column(3, "packed_float64", pa.array([[1.5], [None]], pa.list_(pa.float64())))
    with pytest.raises(InvalidArgumentError, match="Column 'x' is null at row 101 of its partition"):
        tensors_of(holed, columns.only(packing.plain), packing, 100)


def test_a_column_may_be_called_as_a_block() -> None:
    schema = pa.schema([("x", pa.float32()), ("y", pa.float32()), ("packed_float32", pa.string())])
    packing = packing_of(resolve(schema, ["x", "y", "packed_float32"], None))
    assert packing.expressions == ["`packed_float32`", "array(`x`, `y`) as `packed_float32_`"]
