"""Arrow's arrays as numpy's and back, without pandas."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from sparkflow_connectors.arrow_numpy import arrow_of, is_valid, numpy_of, texts
from sparkflow_connectors.columns import Column
from sparkflow_connectors.job import Job
from sparkflow_connectors.schema import resolve

NUMBERS = [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()]


@pytest.mark.parametrize("kind", [*NUMBERS, pa.bool_()], ids=str)
@pytest.mark.parametrize("begin, end", [(0, 21), (3, 21), (9, 17), (8, 8), (0, 0)])
def test_as_pyarrow_has_it(kind: pa.DataType, begin: int, end: int) -> None:
    values = np.random.default_rng(0).integers(0, 2, 21).astype(kind.to_pandas_dtype())
    array = pa.array(values, kind)[begin:end]
    found, wanted = numpy_of(array), array.to_numpy(zero_copy_only=False)
    assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()
    back = arrow_of(found)
    assert back.type == kind and back.equals(array)
    with_nulls = pa.array([None if i % 3 == 1 else v for i, v in enumerate(values.tolist())], kind)[begin:end]
    assert is_valid(with_nulls).tolist() == with_nulls.is_valid().to_pylist()
    filled = numpy_of(with_nulls, 1)
    assert filled.dtype == wanted.dtype and filled.tolist() == with_nulls.fill_null(kind_one(kind)).to_pylist()
    assert arrow_of(filled, ~is_valid(with_nulls)).equals(with_nulls)
    if with_nulls.null_count and pa.types.is_floating(kind):
        assert np.isnan(numpy_of(with_nulls)).sum() == with_nulls.null_count


def kind_one(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(1, pa.float32()).cast(kind)


def test_memory_is_shared() -> None:
    array = pa.array(np.arange(100))
    assert numpy_of(array[7:]).__array_interface__["data"][0] == array.buffers()[1].address + 56
    values = np.arange(100.0)
    assert arrow_of(values).buffers()[1].address == values.__array_interface__["data"][0]
    assert arrow_of(values[::2]).to_pylist() == values[::2].tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_texts(kind: pa.DataType) -> None:
    values: list[str | bytes] = ["", "one", "wörd", b"bytes"]
    wanted = [v if isinstance(v, bytes) else v.encode() for v in values]
    found = texts(values, kind)
    found.validate(full=True)
    assert found.cast(pa.large_binary()).to_pylist() == wanted and found.type == kind
    assert len(texts([], kind)) == 0
    assert numpy_of(found, b"none" if "binary" in str(kind) else "none").tolist() == found.to_pylist()


def test_nulls_of_several_chunks() -> None:
    parts = [pa.array([1, None]), pa.array([], pa.int64()), pa.array([None, 2, 3])]
    assert is_valid(pa.chunked_array(parts)).tolist() == [True, False, False, True, True]
    assert is_valid(pa.chunked_array([], pa.int64())).tolist() == []


def test_other_types_are_pyarrows() -> None:
    days = pa.array([1, None, 3], pa.date32())
    assert numpy_of(days[2:]).tolist() == days[2:].to_numpy(zero_copy_only=False).tolist()
    words = pa.array(["a", None])
    assert numpy_of(words, "b").tolist() == ["a", "b"]


ROWS = """
import sys
import cloudpickle, numpy as np, pyarrow as pa
from sparkflow_connectors.partition import OwnPartition, replay
from sparkflow_connectors.predictions import column
from sparkflow_connectors.record_batches import encoded
from sparkflow_connectors.rows import pieces_of

with open(sys.argv[1], "rb") as file:
    job = cloudpickle.load(file)
with open(sys.argv[1] + ".arrow", "rb") as file:
    batch = pa.ipc.open_stream(file).read_next_batch()
n = len(batch)
partition = OwnPartition(job.plan(0), job.layout, pieces_of([batch], job))
partition.keep()
assert [window.rows for window in partition.windows()] == [n]
assert sum(len(block[0]) for block in replay(partition.train, 0)) == n - 4
column("p", np.zeros((3, 2), np.float32), pa.list_(pa.float32()))
assert len(encoded(batch.select(["number", "filled", "some"])))
assert "pandas" not in sys.modules
"""


def test_no_worker_imports_pandas_for_its_rows(tmp_path: Path) -> None:
    n = 20
    pairs = [[i, i + 1] for i in range(n)]
    table = pa.table(
        {
            "number": pa.array(range(n), pa.float32()), "filled": [None if i % 3 else i for i in range(n)],
            "flag": [i % 2 == 0 for i in range(n)], "hashed": [f"w{i}" for i in range(n)],
            "word": [f"w{i % 3}" for i in range(n)], "fixed": pa.array(pairs, pa.list_(pa.float32())), "some": pairs,
            "price": pa.array([Decimal(i) / 4 for i in range(n)], pa.decimal128(9, 2)),
            "label": pa.array([0.0] * n, pa.float32()),
        }
    )  # fmt: skip
    features = {
        "number": Column(), "filled": Column(default=3), "flag": Column(), "hashed": Column(hash_buckets=10),
        "word": Column(vocabulary=["w1", "w2"], num_oov_buckets=2), "fixed": Column(shape=[2]),
        "some": Column(kind="sparse", length=3), "price": Column(),
    }  # fmt: skip
    columns = resolve(table.schema, features, "label")
    job = Job(None, columns, str(tmp_path), batch_size=4, validation=0.2)
    (tmp_path / "job").write_bytes(cloudpickle.dumps(job))
    with pa.OSFile(str(tmp_path / "job.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    command = [sys.executable, "-c", ROWS, str(tmp_path / "job")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
