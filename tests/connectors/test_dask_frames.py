"""What Dask is told of partitions on their way to a training, and what many small ones are asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.columns import Column
from sparkflow_connectors.layout import Layout
from sparkflow_connectors.rows import frame_pieces
from sparkflow_connectors.schema import resolve
from sparkflow_runtime.wire.errors import InvalidArgumentError

dd = pytest.importorskip("dask.dataframe")
dask_frames = pytest.importorskip("sparkflow_connectors.dask_frames")

COLUMNS = 40


def wide(rows: int) -> pd.DataFrame:
    values = np.arange(rows * COLUMNS, dtype=np.float32).reshape(rows, COLUMNS)
    return pd.DataFrame(values, columns=[f"c{i}" for i in range(COLUMNS)])


def asked_of(monkeypatch: Any) -> list[Any]:
    """What frames are asked for by name from now on."""
    asked, given = list[Any](), pd.DataFrame.__getitem__

    def noted(self: pd.DataFrame, key: Any) -> Any:
        asked.append(key)
        return given(self, key)

    monkeypatch.setattr(pd.DataFrame, "__getitem__", noted)
    return asked


def job_of(frame: pd.DataFrame, features: list[Any]) -> Any:
    columns = resolve(pa.Schema.from_pandas(frame, preserve_index=False), features, None)
    return SimpleNamespace(columns=columns, layout=Layout.of(columns))


def of(frames: list[pd.DataFrame], features: list[Any]) -> list[dict[str, list[Any]]]:
    job, found = job_of(frames[0], features), []
    for piece in frame_pieces(frames, job):
        parts = zip(job.layout.components, piece, strict=True)
        found.append({n: np.asarray(v).tolist() for c, p in parts for n, v in zip(c.columns, p, strict=True)})
    return found


def test_a_frame_has_the_size_of_its_values(monkeypatch: Any) -> None:
    frame = wide(100)
    asked = asked_of(monkeypatch)
    size = dask_frames.sizeof(dask_frames.Frame(frame))
    assert frame.size * 4 <= size < frame.size * 4 + 1000
    assert not asked
    words = frame.assign(word=["x" * 1000] * 100)
    assert dask_frames.sizeof(dask_frames.Frame(words)) > size + 1000
    assert dask_frames.sizeof(dask_frames.Frame(frame.convert_dtypes(dtype_backend="pyarrow"))) > frame.size * 4


def test_each_partition_is_one_task() -> None:
    ddf = dd.from_map(wide, [3, 0, 5], meta=wide(0))
    parts = dask_frames.of_frames(ddf[["c1", "c2"]] + 1)
    assert len(dict(parts[0].dask)) == 3
    frames = [part.compute(scheduler="sync").pandas for part in parts]
    assert [len(frame) for frame in frames] == [3, 0, 5]
    assert list(frames[2].columns) == ["c1", "c2"]


@pytest.mark.parametrize("rows", [3, 5000])
def test_short_and_long_frames_are_read_alike(rows: int) -> None:
    frame = wide(rows).assign(n=np.arange(rows), word="a")
    frame.insert(7, "m", np.arange(rows)[::-1])
    features = [*(f"c{i}" for i in range(COLUMNS)), "n", "m", Column("word", hash_buckets=5)]
    (found,) = of([frame], features)
    assert all(found[name] == frame[name].tolist() for name in found if name != "word")
    assert len(found) == COLUMNS + 3


def test_columns_of_a_short_frame_are_not_asked_for_one_by_one(monkeypatch: Any) -> None:
    frames = [wide(4) for _ in range(3)]
    job = job_of(frames[0], list(frames[0].columns))
    asked = asked_of(monkeypatch)
    assert len(list(frame_pieces(frames, job))) == 3
    assert not asked


@pytest.mark.parametrize("rows", [4, 5000])
def test_a_null_among_many_columns_is_named(rows: int) -> None:
    frames = [wide(2), wide(rows)]
    frames[1].loc[1, "c30"] = np.nan
    names: list[Any] = list(frames[0].columns)
    with pytest.raises(InvalidArgumentError, match=r"Column 'c30' .*is null at row 3 of its partition"):
        of(frames, names)
    names[30] = Column("c30", default=-1.0)
    _, found = of(frames, names)
    assert found["c30"][:2] == [30.0, -1.0]
    assert found["c31"] == frames[1]["c31"].tolist()


@pytest.mark.parametrize("part, name", [(7, "int"), (pd.Series([1.0]), "Series")])
def test_a_partition_that_is_no_frame_is_named(part: Any, name: str) -> None:
    ddf = dd.from_map(lambda _: part, [0], meta=wide(0), enforce_metadata=False)
    with pytest.raises(InvalidArgumentError, match=f"A partition of the table is of type {name}, and the table said"):
        dask_frames.of_frames(ddf)[0].compute(scheduler="sync")


@pytest.mark.parametrize("part, name", [(7, "int"), (pd.Series([1.0]), "Series")])
def test_a_partition_that_is_no_frame_is_not_scored(part: Any, name: str, tmp_path: Path) -> None:
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.float32, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "model"), {"c0": x}, {"p": 2 * x})
    model = tf.dask.load_model(str(tmp_path / "model"))
    good, bad = (dd.from_map(lambda _, p=p: p, [0], meta=wide(0), enforce_metadata=False) for p in (wide(3), part))
    assert model.transform(good).compute(scheduler="sync")["p"].tolist() == [0.0, 80.0, 160.0]
    with pytest.raises(InvalidArgumentError, match=f"A partition of the table is of type {name}, and the table said"):
        model.transform(bad).compute(scheduler="sync")
