"""`sparkflow schema`: what a table's columns are as tensors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import sparkflow as tf
from sparkflow.cli import main

TABLE = pa.table(
    {
        "age": pa.array([3], pa.int32()),
        "tags": pa.array([["a"]], pa.list_(pa.string())),
        "day": pa.array([4], pa.date32()),
        "city": pa.array(["x"]),
    }
)


def test_a_parquet_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "part-0.parquet")
    options = ["--column", "city:hash_buckets=100,default=none", "--column", "tags:kind=sparse,length=4,vocabulary="]
    (tmp_path / "_words").write_text("a\nb\n")
    options[-1] += str(tmp_path / "_words")
    assert main(["schema", str(tmp_path), *options]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [[word.strip() for word in line if word] for line in lines] == [
        ["column", "type", "dtype", "shape"],
        ["age", "int32", "int32", "[rows]", "null is refused"],
        ["tags", "list<element: string>", "int64", "[rows, 4]", "vocabulary of 2, sparse, null is refused"],
        ["day", "date32[day]", "int32", "[rows]", "days since 1970-01-01, null is refused"],
        ["city", "string", "int64", "[rows]", "Fingerprint64 modulo 100, null is 'none'"],
    ]
    assert main(["schema", str(tmp_path), "--json"]) == 0
    found = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert found["tags"]["dtype"] == "" and found["tags"]["note"].startswith("of any length: say how long it is")


def test_strings_need_a_column_to_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"city": ["x"], "image": [b"x"], "tags": [["a"]]})
    pyarrow.feather.write_feather(table, tmp_path / "x.feather")
    assert main(["schema", str(tmp_path / "x.feather"), "--column", "tags:kind=sparse,length=4"]) == 0
    city, image, tags = capsys.readouterr().out.splitlines()[1:]
    assert city.endswith("a training needs a vocabulary or hash_buckets, null is refused")
    assert image.endswith("a training needs a vocabulary or hash_buckets, or cast=uint8 and a shape, null is refused")
    assert tags.endswith("a training needs a vocabulary or hash_buckets, sparse, null is refused")


@pytest.mark.parametrize("kind", ["feather", "csv", "tfrecord"])
def test_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    if kind == "tfrecord":
        tf.local.to_tfrecord(TABLE, str(path))
    elif kind == "csv":
        pyarrow.csv.write_csv(TABLE.select(["age", "city"]), path)
    else:
        pyarrow.feather.write_feather(TABLE, path)
    assert main(["schema", str(path)]) == 0
    assert "age" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}/nothing"], "no such file or directory"),
        (["{0}"], "its names do not tell what is in it; give --format csv|"),
        (["{0}/a.parquet"], "cannot be read as parquet"),
        (["{0}/a.csv", "--column", "y:default=1"], "Column 'y' is missing; the table has 'x'"),
        (["{0}/a.csv", "--column", "x:defalt=1"], "a column has no 'defalt'; there are default, cast"),
        (["{0}/a.csv", "--column", "x:shape=3y"], "shape cannot be '3y'"),
    ],
)
def test_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    if len(arguments) > 1 or "parquet" in arguments[0]:
        (tmp_path / "a.parquet").write_text("no")
        (tmp_path / "a.csv").write_text("x\n1\n")
    assert main(["schema", arguments[0].format(tmp_path), *arguments[1:]]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """Whatever is read of the folder would fail half-way; forms in which the same values are stored do not differ."""
    write = pyarrow.parquet.write_table if kind == "parquet" else pyarrow.feather.write_feather
    large = pa.schema({"age": pa.int32(), "tags": pa.large_list(pa.large_string()), "day": pa.date32()})
    for i, there in enumerate((TABLE, TABLE.drop_columns(["city"]).cast(large), TABLE.select(["city", "age"]))):
        there = there.set_column(0, "inner", pa.array([{"a": 1}])) if i else there
        write(there, tmp_path / f"{i}.{kind}")
    assert main(["schema", str(tmp_path)]) == 0
    capsys.readouterr()
    write(TABLE.set_column(1, "tags", pa.array([[1]])), tmp_path / f"3.{kind}")
    assert main(["schema", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/3.{kind}: column 'tags' has type list<" in said and f"and in {tmp_path}/0.{kind} it" in said
    write(TABLE.set_column(1, "inner", pa.array([{"b": 1}])), tmp_path / f"3.{kind}")
    assert main(["schema", str(tmp_path)]) == 1
    assert "column 'inner' has type struct<b: int64>" in capsys.readouterr().err


def test_what_spark_does_not_know(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    errors = pytest.importorskip("pyspark.errors")
    spark = MagicMock()
    said = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `a` cannot be found.\nSearch path: ..."
    spark.table.side_effect = spark.sql.side_effect = errors.AnalysisException(said)
    monkeypatch.setattr("sparkflow_connectors.spark.session", lambda name: spark)
    for query in ("a", "select * from a"):
        assert main(["schema", "--spark", query]) == 1
        assert f"Spark has no columns for {query!r}: [TABLE_OR_VIEW_NOT_FOUND] The table" in capsys.readouterr().err
    assert spark.stop.call_count == 2


def test_files_that_gzip_has_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is inside, the name before says; where it says nothing, records."""
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n"))
    assert main(["schema", str(tmp_path)]) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["a", "int64", "int64"], ["b", "string", "string"],
    ]  # fmt: skip
    tf.local.to_tfrecord(pa.table({"n": [1]}), tmp_path / "records", codec="gzip")
    (file,) = (tmp_path / "records").glob("*.tfrecord.gz")
    assert main(["schema", str(file.rename(tmp_path / "records" / "plain.gz"))]) == 0
    assert "n       int64  int64" in capsys.readouterr().out


def test_a_format_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(tmp_path), "--format", "xls"]) == 1
    assert "--format: expected one of csv, feather, ipc, json," in capsys.readouterr().err
