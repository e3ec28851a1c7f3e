"""Columns packed in SQL: what is selected, and that nothing is copied afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors.packing import pack
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


def test_a_default_stands_for_nulls_before_they_leave() -> None:
    schema = pa.schema([("x", pa.float32()), ("n", pa.int32()), ("b", pa.bool_())])
    assert pack(schema, {"x": float("nan"), "n": 7, "b": True}).expressions == [
        "array(coalesce(`x`, cast('nan' as float))) as `packed_float32`",
        "array(coalesce(`n`, cast('7' as int))) as `packed_int32`",
        "array(coalesce(cast(`b` as tinyint), cast('1' as tinyint))) as `packed_bool`",
    ]


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
