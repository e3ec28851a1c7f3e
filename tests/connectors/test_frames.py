"""pandas frames whose objects do not say what they are, and whose numbers look like nulls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.layout import Layout
from sparkflow_connectors.rows import frame_pieces, table_of
from sparkflow_connectors.schema import resolve

INVALID = tf.errors.InvalidArgumentError


def frames(column: Column, *given: list[Any], label: bool = False) -> list[dict[str, list[Any]]]:
    """The tensors of pandas frames, of which the first one says the types."""
    parts = [pd.DataFrame({"x": pd.Series(values, dtype=object), "one": 1}) for values in given]
    features: list[Any] = ["one"] if label else [column, "one"]
    columns = resolve(table_of(parts[0]).schema, features, column if label else None)
    job: Any = SimpleNamespace(columns=columns, layout=Layout.of(columns))
    found = []
    for piece in frame_pieces(parts, job):
        by_name: dict[str, list[Any]] = {}
        for component, values in zip(job.layout.components, piece, strict=True):
            by_name.update(
                {n: np.asarray(v).tolist() for n, v in zip(component.columns, values, strict=True)}
                if component.packed
                else {component.name: np.asarray(values).tolist()}
            )
        found.append(by_name)
    return found


def test_frames_whose_lists_have_no_value() -> None:
    """pandas' objects do not say then what they would hold."""
    words = Column("x", kind="ragged", length=2, hash_buckets=10, default="")
    _, empty, none = frames(words, [["a"], ["b", "c"]], [[], []], [[None], None])
    assert empty["x/length"] == [0, 0] and none["x/length"] == [1, 0]
    numbers = Column("x", shape=[2, 1], default=5)
    assert frames(numbers, [[[1], [2]]], [None])[1]["x"] == [[[5], [5]]]
    with pytest.raises(INVALID, match="Column 'x' has type list<item: null>"):
        frames(Column("x"), [1, 2], [[]])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_frames_whose_vectors_are_all_of_one_form(kind: str) -> None:
    """Dense ones have no sizes and indices, and empty ones no values, so Arrow knows no type of these."""
    ones = {"type": 1, "size": None, "indices": None, "values": [1, 2]}
    halves = {**ones, "values": [0.5, 0.0]}
    last = {"type": 0, "size": 2, "indices": [1], "values": [4.0]}
    empty = {**last, "indices": [], "values": []}
    given = Column("x", shape=[2], kind=kind, default=0, **({"length": 2} if kind == "sparse" else {}))
    for dense in (ones, halves):
        found = frames(given, [dense, None], [last, empty], [empty], [None])
        values = [1, 2] if dense is ones else [0.5, 0]
        if kind == "dense":
            assert [part["x"] for part in found] == [[values, [0, 0]], [[0, 4], [0, 0]], [[0, 0]], [[0, 0]]]
        else:
            assert [part["x/length"] for part in found] == [[2, 0], [1, 0], [0], [0]]
            assert found[0]["x"][0] == values and found[1]["x/indices"][0][0] == 1


def test_a_frame_without_a_label() -> None:
    assert frames(Column("x", default=3), [1, 2], [None, None], label=True)[1]["x"] == [3, 3]
    with pytest.raises(INVALID, match=r"Column 'x' \(label\) is null at row 2 of its partition"):
        frames(Column("x"), [1, 2], [None], label=True)


@pytest.mark.parametrize("nulls", [[None, None], [np.nan, np.nan], pd.array([None, None], "string")], ids=str)
def test_a_column_of_nulls_has_no_type_of_its_own(nulls: Any) -> None:
    """Dask makes strings of None, and pandas floats, in a partition of integers."""
    parts = [pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": nulls})]
    for default in (7, None):
        columns = resolve(table_of(parts[0]).schema, [Column("x", default=default)], None)
        job: Any = SimpleNamespace(columns=columns, layout=Layout.of(columns))
        if default is None:
            with pytest.raises(INVALID, match=r"Column 'x' \(feature\) is null at row 2 of its partition"):
                list(frame_pieces(parts, job))
        else:
            assert [np.asarray(piece[0]).ravel().tolist() for piece in frame_pieces(parts, job)] == [[1, 2], [7, 7]]


def test_floats_whose_sum_is_none() -> None:
    """Neither is a null, nor does numpy warn of what is only looked at."""
    frame = pd.DataFrame({"x": np.array([np.inf, -np.inf, 3e38, 3e38], np.float32)})
    columns = resolve(table_of(frame).schema, ["x"], None)
    job: Any = SimpleNamespace(columns=columns, layout=Layout.of(columns))
    ((found,),) = frame_pieces([frame], job)
    assert np.asarray(found).tolist() == frame["x"].tolist()
