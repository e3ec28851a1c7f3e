"""Columns in forms that say less, or something else, than their types seem to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.column_types import Source
from sparkflow_connectors.column_values import values_of
from sparkflow_connectors.columns import Column
from sparkflow_connectors.graphs import PredictionGraph
from sparkflow_connectors.layout import Layout, put
from sparkflow_connectors.model import Model
from sparkflow_connectors.packing import packing_of
from sparkflow_connectors.rows import frame_pieces, pieces_of
from sparkflow_connectors.schema import arrays, check_batch, check_partitioning, check_trainable, resolve

INVALID = tf.errors.InvalidArgumentError


class Celsius(pa.ExtensionType):
    """One that is made in Python, as Arrow's own pages make them."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "sparkflow.tests.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Celsius:
        return cls(storage)


def tensors(column: Any, **options: Any) -> dict[str, list[Any]]:
    table = pa.table({"c": column})
    return {n: v.tolist() for n, v in arrays(table, resolve(table.schema, [Column("c", **options)], None)).items()}


def test_an_extension_type_of_python_is_what_it_stores(tmp_path: Path) -> None:
    degrees = pa.ExtensionArray.from_storage(Celsius(pa.int32()), pa.array([20, -5, None], pa.int32()))
    assert tensors(degrees, default=7) == {"c": [20, -5, 7]}
    assert tensors(degrees.slice(0, 2), cast=tf.float32) == {"c": [20.0, -5.0]}
    with pytest.raises(INVALID, match=r"Column 'c' has type list<item: extension<.*>>, which has no dtype"):
        tensors(pa.ListArray.from_arrays(pa.array([0, 2]), degrees.slice(0, 2)), shape=[2])
    path = tf.local.write_variables(tmp_path / "c", {"c": pa.table({"row": [1, 0], "value": degrees.slice(0, 2)})})
    assert tf.train.load_variable(path, "c").tolist() == [-5, 20]


def test_categories_of_float16_in_several_chunks() -> None:
    """Arrow itself takes their bits for numbers when it joins such chunks."""
    halves = pa.array(np.array([1.5, -69.125, 1.5, 0.25], np.float16)).dictionary_encode()
    assert tensors(pa.chunked_array([halves.slice(0, 1), halves.slice(1)])) == {"c": [1.5, -69.125, 1.5, 0.25]}


def test_null_matrices_of_a_part_of_a_column() -> None:
    """Arrow's drop_null gives the rows before them instead."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(range(24)), 2)
    null = pa.array([False, False, True, False])
    matrices = pa.FixedSizeListArray.from_arrays(rows, type=pa.list_(rows.type, 3), mask=null)
    found = tensors(matrices.slice(1), default=-1)["c"]
    assert found == [[[6, 7], [8, 9], [10, 11]], [[-1, -1]] * 3, [[18, 19], [20, 21], [22, 23]]]


@pytest.mark.parametrize("options", [{"hash_buckets": 1000}, {"vocabulary": ["a", "x"], "num_oov_buckets": 3}])
@pytest.mark.parametrize("default", ["x", "q", 5])
def test_a_null_list_has_the_id_of_its_default(options: Any, default: Any) -> None:
    """Text, its bytes and digits are looked up alike, whether a value or the whole list is null."""
    found = tensors(pa.array([["a", None], None]), shape=[2], default=default, **options)["c"]
    assert found[1] == [found[0][1]] * 2
    as_bytes = str(default).encode()
    assert tensors(pa.array([["a", None], None]), shape=[2], default=as_bytes, **options)["c"] == found


def test_times_in_another_unit_are_another_type() -> None:
    """Their tensors are int64 alike, and a thousand times as large."""
    columns = resolve(pa.schema([("t", pa.timestamp("us"))]), ["t"], None)
    check_batch(pa.record_batch({"t": pa.array([1], pa.timestamp("us", "UTC"))}), columns, 0)
    for kind in (pa.timestamp("ns"), pa.duration("ms"), pa.int64()):
        with pytest.raises(INVALID, match=r"'t' has type .*, and the table said timestamp\[us\]: the type changed"):
            check_batch(pa.record_batch({"t": pa.array([1], kind)}), columns, 0)
    model = Model(PredictionGraph(b"", {"t": "t:0"}, {}, {}, {}, "", "", {}), columns, "")
    with pytest.raises(INVALID, match=r"'t' has type timestamp\[ns\], in ns, and the model was trained on us\. Cast"):
        model.check(pa.schema([("t", pa.timestamp("ns"))]))
    model.check(pa.schema([("t", pa.int64())]))  # numbers that somebody made of them


@pytest.mark.parametrize("kind", [pa.list_(pa.int8(), 0), pa.list_(pa.list_(pa.int8(), 0), 2)])
def test_lists_of_no_value_say_nothing(kind: pa.DataType) -> None:
    """A model may be asked about them; rows without a byte cannot wait in a spool."""
    columns = resolve(pa.schema([("c", kind)]), None, None)
    assert columns.tensors["c"].shape[-1] == 0
    with pytest.raises(INVALID, match=r"'c' has type .*\[0\].*: its rows have no value\. Leave it out"):
        check_trainable(columns)


@pytest.mark.parametrize("shape", [[1], [1, 1]])
@pytest.mark.parametrize("options", [{}, {"cast": tf.float32}, {"default": 9}, {"hash_buckets": 100}])
def test_a_single_value_as_a_column_of_a_matrix(shape: list[int], options: Any) -> None:
    """As models have it whose inputs are [rows, 1]; also beside columns that lie side by side in memory."""
    numbers = [1, 2, None, 4] if "default" in options else [1, 2, 3, 4]
    plain, column = Column("c", **options), Column("c", shape=shape, **options)
    wanted = np.reshape(tensors(pa.array(numbers), **options)["c"], (-1, *shape)).tolist()
    frame = pd.DataFrame({"c": pd.array(numbers, dtype="Int64" if None in numbers else "int64"), "d": range(4)})
    table = pa.table({"c": numbers, "d": range(4)})
    columns = resolve(table.schema, [column, "d"], None)
    assert columns.tensors["c"] == (resolve(table.schema, [plain], None).tensors["c"].dtype, tuple(shape))
    assert arrays(table, columns)["c"].tolist() == wanted
    job: Any = SimpleNamespace(columns=columns, layout=Layout.of(columns))
    for pieces in (frame_pieces([frame], job), pieces_of(table.to_batches(), job)):
        (piece,) = pieces
        found = job.layout.zeros(4)
        put(found, 0, piece, 0, 4)
        assert job.layout.columns(found)["c"].tolist() == wanted
    assert packing_of(columns).expressions == ["`c`", "`d`"], "Spark does not pack it"


@pytest.mark.parametrize("kind", [pa.large_string(), pa.large_binary()])
@pytest.mark.parametrize("options", [{}, {"hash_buckets": 100}, {"vocabulary": ["ab", "cd"]}])
def test_text_that_lies_beyond_two_gibibytes(kind: pa.DataType, options: dict[str, Any]) -> None:
    """As the last rows of a large chunk do; its memory is of pages that nobody wrote."""
    data = np.zeros((1 << 31) + 4, np.uint8)
    data[-4:] = list(b"cdab")
    ends = pa.py_buffer(np.array([0, 1 << 31, (1 << 31) + 2, (1 << 31) + 4], np.int64))
    rows = pa.Array.from_buffers(kind, 3, [None, ends, pa.py_buffer(data)])[1:]
    found, wanted = (
        values_of(Source(Column("text", **options).loaded(), kind), array, lambda row: f"row {row}")["text"].tolist()
        for array in (rows, pa.array(["cd", "ab"], kind))
    )
    assert found == wanted and (options or found == [b"cd", b"ab"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 3}, "Column 3: its name must be a string"),
        ({"name": ["a"]}, r"Column \['a'\]: its name must be a string"),
        ({"name": "a", "truncate": "no"}, "Column 'a': truncate must be True or False, got 'no'"),
    ],
)
def test_columns_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(INVALID, match=message):
        Column(**options)


def test_sizes_of_numpy() -> None:
    """As the largest id plus one is."""
    column = Column("a", shape=[np.int64(3)], hash_buckets=np.int64(100))
    assert column == Column("a", shape=[3], hash_buckets=100) and type(column.hash_buckets) is int


@pytest.mark.parametrize("features", [3, Column("a")])
def test_features_that_are_no_list(features: Any) -> None:
    with pytest.raises(INVALID, match="features must be a list of column names, got"):
        resolve(pa.schema([("a", pa.int64())]), features, None)


@pytest.mark.parametrize("key", ["partition_by", "order_by"])
def test_keys_that_are_no_name(key: str) -> None:
    with pytest.raises(INVALID, match=rf"{key} must be the name of one column, got \['a'\]"):
        check_partitioning(pa.schema([("a", pa.int64())]), **{"partition_by": None, "order_by": None, key: ["a"]})
