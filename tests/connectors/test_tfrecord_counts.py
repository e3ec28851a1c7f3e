"""Files that end between two records, of which only the schema file beside them tells; folders and files within it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.record_types import SIDECAR
from sparkflow_connectors.tfrecord import Counts, open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import to_tfrecord
from sparkflow_runtime.records.files import RecordFile, RecordWriter
from sparkflow_runtime.records.framing import frames


def rows(n: int = 20) -> pa.Table:
    return pa.table(
        {"n": pa.array(range(n), pa.int16()), "flag": [i % 3 == 0 for i in range(n)], "p": ["a", "b"] * (n // 2)}
    )


def part(folder: Path, pattern: str = "part-00000*") -> Path:
    (found,) = folder.rglob(pattern)
    return found


def cut(path: Path, records: int) -> None:
    """Leave so many, whole."""
    packed = path.suffix == ".gz"
    data = np.frombuffer(gzip.decompress(path.read_bytes()) if packed else path.read_bytes(), np.uint8).copy()
    left = data[: frames(data).ends[records - 1] + 4 if records else 0].tobytes()
    path.write_bytes(gzip.compress(left) if packed else left)


@pytest.mark.parametrize("codec", ["", "gzip"])
@pytest.mark.parametrize("left", [0, 1, 9])
@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_a_file_cut_between_two_records(codec: str, left: int, record_type: str, tmp_path: Path) -> None:
    to_tfrecord(rows(), tmp_path / "out", codec=codec, rows_per_file=10, record_type=record_type)
    file = part(tmp_path / "out", "part-00001*")
    cut(file, left)
    message = (
        rf"^{file} has {left} records, and 10 were written to it, as _sparkflow_schema.json says: it was cut short"
    )
    for paths in (
        tmp_path / "out",
        f"{tmp_path}/out/",
        file,
        tmp_path / "out" / "part-*",
        [file, part(tmp_path / "out")],
    ):
        with pytest.raises(tf.errors.DataLossError, match=message):
            read_tfrecord(paths)
    counts = Counts()
    assert read_tfrecord(tmp_path / "out", counts=counts, on_error="skip").num_rows == 10 + left
    assert (counts.records, counts.damaged) == (10 + left, 1)
    assert read_tfrecord(part(tmp_path / "out")).num_rows == 10


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_counts_of_several_writings(mode: str, tmp_path: Path) -> None:
    for _ in range(2):
        to_tfrecord(rows(), tmp_path / "out", mode, partition_by=["p"])
    told = json.loads((tmp_path / "out" / "_sparkflow_schema.json").read_text())["records"]
    files = {str(f.relative_to(tmp_path / "out")) for f in (tmp_path / "out").rglob("part*")}
    assert told == dict.fromkeys(files, 10) and len(files) == (4 if mode == "append" else 2)
    for file in files:
        whole = (tmp_path / "out" / file).read_bytes()
        cut(tmp_path / "out" / file, 7)
        with pytest.raises(tf.errors.DataLossError, match=rf"{file} has 7 records, and 10"):
            read_tfrecord(tmp_path / "out", columns=["p"])
        (tmp_path / "out" / file).write_bytes(whole)
    assert read_tfrecord(tmp_path / "out").num_rows == 10 * len(files)


def test_files_of_which_nobody_tells(tmp_path: Path) -> None:
    """Those of others beside ours, those of a version that told nothing, and a folder without some of its files."""
    to_tfrecord(rows(), tmp_path / "out", rows_per_file=10)
    (tmp_path / "out" / "theirs.tfrecord").write_bytes(part(tmp_path / "out").read_bytes())
    cut(tmp_path / "out" / "theirs.tfrecord", 3)
    assert read_tfrecord(tmp_path / "out").num_rows == 23
    part(tmp_path / "out", "part-00001*").unlink()
    to_tfrecord(rows(2), tmp_path / "out", "append")
    assert read_tfrecord(tmp_path / "out").num_rows == 15
    side = tmp_path / "out" / "_sparkflow_schema.json"
    told = json.loads(side.read_text())
    assert sorted(told.pop("records").values()) == [2, 10]
    del told["crc32c"]  # as that version had it
    side.write_text(json.dumps(told))
    for file in (tmp_path / "out").glob("part*"):
        cut(file, 1)
    assert read_tfrecord(tmp_path / "out").num_rows == 1 + 1 + 3
    for wrong in ([], {"x": "many"}, 3):
        side.write_text(json.dumps({**told, "records": wrong}))
        with pytest.raises(tf.errors.InvalidArgumentError, match="is no schema that this version can read"):
            read_tfrecord(tmp_path / "out")


def test_a_partition_alone_keeps_its_types(tmp_path: Path) -> None:
    """The schema file is in a folder above."""
    to_tfrecord(
        rows().append_column("q", [[1, 2] * 10]).cast(pa.schema([*rows().schema, ("q", pa.int8())])),
        tmp_path / "out",
        partition_by=["p", "q"],
    )
    wanted = rows().schema.remove(2)
    for inner in ("p=a", "p=a/q=1", "p=a/q=1/part-*", "p=*/q=1"):
        found = read_tfrecord(tmp_path / "out" / inner)
        assert found.schema.remove(2) == wanted if inner == "p=a" else found.schema == wanted
        assert found.column("n").to_pylist() == [*range(0, 20, 2)]
    file = part(tmp_path / "out", "p=b/q=2/part*")
    cut(file, 2)
    with pytest.raises(tf.errors.DataLossError, match=r"q=2/part-.* has 2 records, and 10 were written"):
        read_tfrecord(tmp_path / "out" / "p=b" / "q=2")
    assert open_tfrecord(tmp_path / "out" / "p=a").without_nulls >= {"n", "flag"}


def test_spark_tasks_tell_how_many(tmp_path: Path) -> None:
    from pyspark.sql.types import ShortType, StructField, StructType

    from sparkflow_connectors.spark_tfrecord import TFRecordSource

    source = TFRecordSource({"path": str(tmp_path / "out")})
    writer: Any = source.writer(StructType([StructField("n", ShortType())]), overwrite=True)
    writer.commit([writer.write(iter(rows().select(["n"]).to_batches())), None])
    cut(part(tmp_path / "out"), 19)
    reader = source.reader(source.schema())
    with pytest.raises(tf.errors.DataLossError, match="has 19 records, and 20 were written"):
        list(reader.read(reader.partitions()[0]))


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_records_that_are_no_messages(record_type: str, tmp_path: Path) -> None:
    """Their bytes are as they were written: of another record type, or of a writer that failed."""
    to_tfrecord(pa.table({"x": [1, 2, 3]}), tmp_path / "a", record_type=record_type)
    (file,) = (tmp_path / "a").glob("part-*")
    with RecordFile(str(file)) as records:
        whole = [record for block in records.blocks() for record in block.records()]
    with RecordWriter(str(file)) as out:
        for record in [whole[0][:-1], whole[0], b"\xff", b"\xff", whole[1], whole[2], b"text"]:
            out.write(record)
    for sidecar in (True, False):
        if not sidecar:
            (tmp_path / "a" / SIDECAR).unlink()
        options: dict[str, Any] = {} if sidecar else {"record_type": record_type}
        with pytest.raises(tf.errors.DataLossError, match=rf"record at byte 0 is no tf.train.{record_type}.*='skip'"):
            read_tfrecord(tmp_path / "a", **options)
        counts = Counts()
        found = read_tfrecord(tmp_path / "a", on_error="skip", counts=counts, **options)
        assert found.column("x").to_pylist() == [1, 2, 3] and counts == Counts(3, 4)
