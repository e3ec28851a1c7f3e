"""Snapshots, databases, options and structures of datasets."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

E = tf.data.experimental


def _all(dataset: Any) -> list[Any]:
    with tf.Session() as session:
        element, found = tf.data.make_one_shot_iterator(dataset).get_next(), []
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


@pytest.fixture
def counted(graph: Any) -> tuple[Any, list[int]]:
    """A dataset, and how often its function was called."""
    calls: list[int] = []

    def slow(i: Any) -> Any:
        calls.append(1)
        return np.int64(i * i), np.array([b"row", str(i).encode()], object), np.float32([i, 0.5])

    made = tf.data.Dataset.range(5).map(lambda i: tuple(tf.py_func(slow, [i], [tf.int64, tf.string, tf.float32])))
    return made, calls


@pytest.mark.parametrize("compression", ["AUTO", "ZLIB", None])
def test_a_snapshot_is_made_once(counted: Any, tmp_path: Path, compression: str | None) -> None:
    dataset, calls = counted
    kept = dataset.apply(E.snapshot(str(tmp_path / "s"), compression))
    first = _all(kept)
    assert len(calls) == 5 and [int(row[0]) for row in first] == [0, 1, 4, 9, 16]
    again = _all(dataset.apply(E.snapshot(tf.constant(str(tmp_path / "s")), compression)))
    assert len(calls) == 5
    for one, other in zip(first, again, strict=True):
        assert one[0] == other[0] and one[1].tolist() == other[1].tolist() and one[2].tolist() == other[2].tolist()
    assert not [p for p in (tmp_path / "s").iterdir() if p.name.startswith(".")]


def test_half_a_pass_leaves_nothing(counted: Any, tmp_path: Path) -> None:
    dataset, calls = counted
    kept = dataset.apply(E.snapshot(str(tmp_path)))
    _all(kept.take(2))
    assert list(tmp_path.iterdir()) == [] or all(p.name.startswith(".") for p in tmp_path.iterdir())
    _all(kept)
    seen = len(calls)
    _all(kept.take(2))
    assert len(calls) == seen
    with pytest.raises(tf.errors.InvalidArgumentError, match="compression"):
        E.snapshot(str(tmp_path), "BZ2")


def test_a_cut_snapshot_is_told(counted: Any, tmp_path: Path) -> None:
    kept = counted[0].apply(E.snapshot(str(tmp_path), None))
    _all(kept)
    (file,) = tmp_path.glob("*/elements.tfrecord")
    file.write_bytes(b"")
    with pytest.raises(tf.errors.DataLossError, match="0 elements of 5"):
        _all(kept)


def test_rows_of_a_database(graph: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "it's.db")
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (i integer, x real, s text, b boolean)")
        connection.executemany("insert into t values (?, ?, ?, ?)", [(1, 0.5, "a", True), (2, None, None, False)])
    kinds = (tf.int64, tf.float32, tf.string, tf.bool)
    query = tf.placeholder_with_default("select i, x, s, b from t order by i desc", [])
    rows = _initialized(E.SqlDataset("sqlite", path, query, kinds))
    assert rows == [(2, 0.0, b"", False), (1, 0.5, b"a", True)]
    for wrong, text in (
        ("select i from t", "1 columns"),
        ("select nothing", "fails"),
        ("select s,x,s,b from t", "no int64"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            _all(E.SqlDataset("sqlite", path, wrong, kinds))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cannot open|fails"):
        _all(E.SqlDataset("sqlite", str(tmp_path / "none.db"), "select 1", (tf.int32,)))
    with pytest.raises(tf.errors.UnimplementedError, match="mysql"):
        _all(E.SqlDataset("mysql", path, "select 1", (tf.int32,)))


def _initialized(dataset: Any) -> list[Any]:
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        return [session.run(element) for _ in range(2)]


def test_options_are_what_was_set() -> None:
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = E.AutoShardPolicy.OFF
    options.threading.private_threadpool_size = 4
    options.experimental_deterministic = False
    more = tf.data.Options()
    more.experimental_optimization.map_fusion = True
    with tf.Graph().as_default():
        plain = tf.data.Dataset.range(3)
        told = plain.with_options(options).with_options(more).options()
        assert plain.options() == tf.data.Options() and told != plain.options()
        assert _all(plain.with_options(options)) == [0, 1, 2]
    assert told.experimental_threading.private_threadpool_size == 4 and told.experimental_deterministic is False
    assert told.experimental_optimization.map_fusion is True and told.deterministic is None
    with pytest.raises(AttributeError, match="Cannot set the property nonsense"):
        options.nonsense = 1
    with pytest.raises(AttributeError, match="it has"):
        options.threading.nonsense  # noqa: B018


def test_structures(graph: Any) -> None:
    dataset = tf.data.Dataset.from_tensors({"a": np.int32([1]), "b": np.float32(2)})
    found = E.get_structure(dataset)
    assert found == {"a": E.TensorStructure(tf.int32, [1]), "b": E.TensorStructure(tf.float32, [])}
    assert E.get_structure(tf.data.make_one_shot_iterator(dataset)) == found
    assert E.SparseTensorStructure(tf.int32, [2]) == tf.SparseTensorSpec([2], tf.int32)
    assert E.RaggedTensorStructure(tf.int32, [2, None], 1) == tf.RaggedTensorSpec([2, None], tf.int32, 1)
    assert isinstance(tf.type_spec_from_value(dataset), tf.data.DatasetSpec)
    with pytest.raises(TypeError, match="must be a Dataset"):
        E.get_structure(3)


def test_zeros_up_to_a_number(graph: Any) -> None:
    dataset = tf.data.Dataset.from_tensor_slices({"x": np.int32([[1, 2], [3, 4]]), "s": [b"a", b"b"]})
    found = _all(dataset.apply(E.pad_to_cardinality(4)))
    assert [bool(row["valid"]) for row in found] == [True, True, False, False]
    assert [row["x"].tolist() for row in found] == [[1, 2], [3, 4], [0, 0], [0, 0]] and found[3]["s"] == b""
    for wrong, text in ((dataset.repeat(3), "has 6 elements"), (dataset.repeat(), "known number")):
        with pytest.raises(ValueError, match=text):
            wrong.apply(E.pad_to_cardinality(4))
    with pytest.raises(ValueError, match="dictionary"):
        tf.data.Dataset.range(2).apply(E.pad_to_cardinality(4))
