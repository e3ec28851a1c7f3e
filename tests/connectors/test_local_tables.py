"""What counts as a table here, and what of it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.local import as_table, partition

INVALID = tf.errors.InvalidArgumentError


class Frame(pd.DataFrame):
    """As GeoPandas makes one."""

    @property
    def _constructor(self) -> Any:
        return Frame


class Shared:
    """As Polars and DuckDB hand tables over."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._of.__arrow_c_stream__(requested_schema)


@pytest.fixture
def model(tmp_path: Path) -> Any:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.float64, [None], name="x")
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"twice": x * 2})
    return tf.local.load_model(str(tmp_path / "m"))


def test_frames_that_derive_from_those_of_pandas(model: Any) -> None:
    found = model.transform(Frame({"x": [1.0, 2.0]}, index=[5, 7]))
    assert type(found) is Frame and found["twice"].tolist() == [2, 4] and found.index.tolist() == [5, 7]


def test_tables_of_others_that_share_their_memory(model: Any) -> None:
    table = pa.table({"x": pa.chunked_array([[1.0], [2.0]]), "s": pa.array(["a", "b"], pa.string_view())})
    found = model.transform(Shared(table))
    assert found.column_names == ["x", "s", "twice"] and found["twice"].to_pylist() == [2, 4]
    numbers = np.arange(3.0)
    assert np.shares_memory(as_table(Shared(pa.table({"x": numbers})))["x"].chunk(0).to_numpy(), numbers)
    with pytest.raises(INVALID, match=r"Arrow takes no table from .*\.Shared: "):
        as_table(Shared(pa.chunked_array([[1.0]])))


@pytest.mark.parametrize("options", [(None, "row"), ("row", None), ("row", "row")])
def test_categories_of_float16_are_shared_out(options: Any) -> None:
    """Of several chunks of them Arrow picks out others."""
    halves = pa.array(np.array([1.5, -69.125, 1.5, 0.25], np.float16)).dictionary_encode()
    table = pa.table({"row": [3, 2, 1, 0], "x": pa.chunked_array([halves.slice(0, 1), halves.slice(1)])})
    found = {r: float(x) for part in partition(table, 2, *options) for r, x in zip(*part.to_pydict().values())}
    assert found == {3: 1.5, 2: -69.125, 1: 1.5, 0: 0.25}


@pytest.mark.parametrize("options", [(None, "row"), ("row", None), ("row", "row")])
def test_matrices_of_a_part_of_a_table_are_shared_out(options: Any) -> None:
    """Where they do not begin with their memory, Arrow picks out others; in structs too."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(range(32)), 2)
    x = pa.FixedSizeListArray.from_arrays(rows, 2)
    whole = pa.table({"row": range(7, -1, -1), "x": x, "in": pa.StructArray.from_arrays([x], ["x"])})
    table = pa.concat_tables([whole.slice(1, 3), whole.slice(4)])
    found = [row for part in partition(table, 2, *options) for row in part.to_pylist()]
    assert sorted(found, key=lambda row: -row["row"]) == table.to_pylist()


def test_what_pandas_notes_in_a_table_stays(model: Any) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index([5, 7], name="key"))
    found = model.transform(pa.Table.from_pandas(frame)).to_pandas()
    assert found.index.name == "key" and found.index.tolist() == [5, 7] and found["twice"].tolist() == [2, 4]


def test_predict_names_what_is_missing(model: Any) -> None:
    assert model.predict({"x": np.array([3.0])})["twice"].tolist() == [6]
    with pytest.raises(INVALID, match="Column 'x' is missing; the table has 'y'"):
        model.predict({"y": np.array([3.0])})
