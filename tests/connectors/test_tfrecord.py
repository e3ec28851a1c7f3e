"""Folders of record files: what is written comes back, nothing half-written shows, what is wrong is named."""

from __future__ import annotations

import datetime as dt
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.tfrecord import Counts, Options, open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import FolderWriter, to_tfrecord


def table(rows: int = 25) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int32()),
            "flag": pa.array([i % 3 == 0 for i in range(rows)], pa.bool_()),
            "x": pa.array([[float(i), i / 2] for i in range(rows)], pa.list_(pa.float32())),
            "day": pa.array([dt.date(2026, 1, 1 + i % 2) for i in range(rows)], pa.date32()),
            "name": pa.array([None if i % 5 == 0 else f"n {i % 2}/é" for i in range(rows)], pa.string()),
        }
    )


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize("codec", ["", "gzip", "zlib"])
@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_round_trip(tmp_path: Path, codec: str, record_type: str) -> None:
    folder = tmp_path / "out"
    to_tfrecord(table(), str(folder), codec=codec, record_type=record_type, rows_per_file=10)
    assert read_tfrecord(str(folder)).equals(table())
    assert read_tfrecord(str(folder), columns=["name", "id"]).equals(table().select(["name", "id"]))
    names = files(folder)
    assert (
        names[:2] == ["_SUCCESS", "_sparkflow_schema.json"] and len(names) == 5 and not list(folder.glob("_temporary*"))
    )


def test_categories_and_views_come_back_as_values(tmp_path: Path) -> None:
    there = pa.array(["a", None, "b"])
    to_tfrecord(
        pa.table({"c": there.dictionary_encode(), "v": there.cast(pa.string_view()), "n": pa.array([1, 2, 1])}),
        str(tmp_path / "out"),
        partition_by=["n"],
    )
    found = read_tfrecord(str(tmp_path / "out")).sort_by([("n", "ascending"), ("c", "ascending")])
    assert found.column("c").to_pylist() == found.column("v").to_pylist() == ["a", "b", None]
    assert found.schema.field("c").type == pa.string()


def test_lists_of_categories_and_long_decimals_come_back(tmp_path: Path) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b"]))
    table = pa.table(
        {
            "w": pa.ListArray.from_arrays([0, 2, 3], words),
            "v": pa.array([["a"], None], pa.list_(pa.string_view())),
            "s": pa.array([{"x": b"1"}, None], pa.struct([("x", pa.binary_view())])),
            "d": pa.array([Decimal("1.5"), None], pa.decimal256(50, 1)),
            "u": pa.array([b"0" * 16, None], pa.uuid()),
        }
    )
    to_tfrecord(table, str(tmp_path / "out"))
    found = read_tfrecord(str(tmp_path / "out"))
    assert found.drop("u").to_pylist() == table.drop("u").to_pylist()
    assert found.column("u").to_pylist() == [b"0" * 16, None]
    assert found.schema.field("d").type == pa.decimal256(50, 1)


def test_dask_columns_of_categories_and_objects(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"c": pd.Categorical(list("abca")), "o": [[1], [], [2, 3], [4]], "n": [1, 2, 3, 4]})
    frame["n"] = frame["n"].astype("Int64").where(frame["n"] != 3)
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "threads"}):
        tf.dask.to_tfrecord(dd.from_pandas(frame, npartitions=2), str(tmp_path / "out"))
    found = read_tfrecord(str(tmp_path / "out")).sort_by("c").to_pydict()
    assert found["c"] == list("aabc") and found["n"] == [1, 4, 2, None] and found["o"] == [[1], [4], [], [2, 3]]
    assert "as strings" not in caplog.text


def test_lists_of_which_dask_made_strings_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    with dask.config.set({"dataframe.convert-string": True, "scheduler": "threads"}):
        frame = pd.DataFrame({"o": [None, [1.5, 2.0], [3.0]], "s": ["[a]", "(b)", None], "n": [1, 2, 3]})
        tf.dask.to_tfrecord(dd.from_pandas(frame, npartitions=2), str(tmp_path / "out"))
    (said,) = [r.getMessage() for r in caplog.records if "as strings" in r.getMessage()]
    assert said.startswith("Column 'o' was written as strings, such as '[") and "convert-string" in said


def test_dask_decimals_that_grow_after_the_first_rows(tmp_path: Path) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    prices = [Decimal(10**i).scaleb(-2) for i in range(7) for _ in range(9)]
    with dask.config.set({"dataframe.convert-string": False, "scheduler": "threads"}):
        tf.dask.to_tfrecord(dd.from_pandas(pd.DataFrame({"price": prices}), npartitions=3), str(tmp_path / "out"))
    assert read_tfrecord(str(tmp_path / "out"))["price"].to_pylist() == prices


def test_an_empty_table_keeps_its_schema(tmp_path: Path) -> None:
    to_tfrecord(table(0), str(tmp_path / "out"))
    assert read_tfrecord(str(tmp_path / "out")).equals(table(0))


def test_partition_folders(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    to_tfrecord(table(), str(folder), partition_by=["day", "name"])
    assert {f.rsplit("/", 1)[0] for f in files(folder) if f.endswith(".tfrecord")} >= {
        "day=2026-01-01/name=n%200%2F%C3%A9",
        "day=2026-01-02/name=__HIVE_DEFAULT_PARTITION__",
    }
    back = read_tfrecord(str(folder)).sort_by("id")
    assert back.equals(table())
    to_tfrecord(table().drop_columns(["day", "name"]), str(tmp_path / "other" / "k=7"))
    to_tfrecord(table().drop_columns(["day", "name"]), str(tmp_path / "other" / "k=8"))
    outside = read_tfrecord(str(tmp_path / "other"), schema=table().drop_columns(["day", "name"]).schema)
    assert outside.schema.field("k").type == pa.int64() and sorted(set(outside["k"].to_pylist())) == [7, 8]


def test_modes(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    to_tfrecord(table(3), folder)
    with pytest.raises(tf.errors.AlreadyExistsError, match="mode='append' or 'overwrite' goes on"):
        to_tfrecord(table(3), folder)
    to_tfrecord(table(5), folder, mode="append")
    assert sorted(read_tfrecord(folder)["id"].to_pylist()) == [0, 0, 1, 1, 2, 2, 3, 4]
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"holds Example of id: .* what is appended is Example of id: ",
    ):
        to_tfrecord(table(3).drop_columns(["x"]), folder, mode="append")
    to_tfrecord(table(2).select(["id"]), folder, mode="overwrite")
    assert read_tfrecord(folder).equals(table(2).select(["id"]))


def test_appending_where_only_nulls_or_the_form_of_lists_differ(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    firm = pa.schema([pa.field("a", pa.int64(), False), ("s", pa.struct([pa.field("b", pa.int8(), False)]))])
    loose = pa.schema([("a", pa.int64()), pa.field("s", pa.struct([("b", pa.int8())]), False)])
    to_tfrecord(pa.table({"a": [1], "s": [{"b": 2}]}, firm), folder)
    to_tfrecord(pa.table({"a": [None], "s": [{"b": None}]}, loose), folder, "append")
    to_tfrecord(pa.table({"a": [3], "s": [{"b": 4}]}, firm), folder, "append")
    found = read_tfrecord(folder)
    assert found.schema == pa.schema([("a", pa.int64()), ("s", pa.struct([("b", pa.int8())]))])
    assert sorted(str(row) for row in found["a"].to_pylist()) == ["1", "3", "None"]
    fixed = pa.table({"v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "c": pa.array([b"ab"], pa.binary(2))})
    for mode in ("error", "append"):
        to_tfrecord(fixed, f"{folder}2", mode)
    assert read_tfrecord(f"{folder}2").to_pylist() == 2 * fixed.to_pylist()
    for other in ({"c": [b"ab"], "v": [[1.0]]}, {"v": [["1"]], "c": [b"ab"]}, {"v": [1.0], "c": [b"ab"]}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="what is appended is Example of"):
            to_tfrecord(pa.table(other), f"{folder}2", "append")


def test_writers_of_one_folder_at_once(tmp_path: Path) -> None:
    folder, tables = str(tmp_path / "out"), [pa.table({"id": range(10 * k, 10 * k + 10)}) for k in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda t: to_tfrecord(t, folder, "append"), tables))
    assert sorted(read_tfrecord(folder)["id"].to_pylist()) == list(range(60))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda t: to_tfrecord(t, folder, "overwrite"), tables))
    assert read_tfrecord(folder) in tables and not list(tmp_path.glob("out/_temporary*"))
    numbers = pa.table({"a": [1]})
    first, second = (FolderWriter(f"{folder}2", pa.schema([("a", t)]), "append") for t in (pa.int64(), pa.string()))
    for writer in (first, second):
        writer.begin()
    first.commit(first.write(iter(numbers.to_batches()), 0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="out2 holds Example of a: int64; what is appended"):
        second.commit({})


def test_a_failed_writing_leaves_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    to_tfrecord(table(3), str(folder))
    before = files(folder)
    bad = pa.table({"id": pa.array([1, 2**63], pa.uint64())})
    for mode in ("append", "overwrite"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            to_tfrecord(bad, str(folder), mode=mode, rows_per_file=1)
        assert files(folder) == before and read_tfrecord(str(folder)).equals(table(3))
    with pytest.raises(tf.errors.InvalidArgumentError):
        to_tfrecord(bad, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_what_is_not_committed_is_not_read(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    to_tfrecord(table(3), folder)
    writer = FolderWriter(folder, table().schema, mode="append")
    writer.begin()
    made = writer.write(iter(table(4).to_batches()), 0)
    assert read_tfrecord(folder).num_rows == 3
    writer.commit(made)
    assert read_tfrecord(folder).num_rows == 7


@pytest.mark.parametrize("partition_by", [[], ["day"]])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_task_that_goes_on_after_the_end_leaves_nothing(tmp_path: Path, partition_by: list[str], end: str) -> None:
    """A slower attempt of a part, or a task of a job that has failed, which Spark has not killed yet."""
    folder = tmp_path / "out"
    writer = FolderWriter(str(folder), table().schema, "append", partition_by=partition_by)
    writer.begin()
    kept = writer.write(iter(table(4).to_batches()), 0, "1")

    def late(before: int) -> Any:
        yield from table(before).to_batches()
        if os.path.exists(writer.temporary):
            writer.commit(kept) if end == "commit" else writer.abort()
        yield from table(9).slice(1).to_batches()

    with pytest.raises(tf.errors.FailedPreconditionError, match="is gone: the writing is over"):
        writer.write(late(0), 0, "2")
    assert not list(folder.glob("_temporary*")) and folder.exists() == (end == "commit")
    if end == "commit":
        assert read_tfrecord(str(folder)).num_rows == 4


def test_a_full_disk(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    writer = FolderWriter(str(tmp_path / "out"), table().schema, token="t")
    writer.begin()
    Path(writer.temporary, "part-00000-t.tfrecord").symlink_to("/dev/full")
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"part 0 could not be written: .*No space left"):
        writer.write(iter(table(20_000).to_batches()), 0)
    writer.abort()
    assert not (tmp_path / "out").exists()


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(tf.errors.InvalidArgumentError, match="is a file, not a folder"):
        to_tfrecord(table(), str(tmp_path / "file"))


def test_damage(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    to_tfrecord(table(), str(folder))
    (path,) = folder.glob("part*")
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        tf.errors.DataLossError, match=rf"{path}: the checksum of the record that begins at byte \d+ is wrong"
    ):
        read_tfrecord(str(folder))
    counts = Counts()
    assert read_tfrecord(str(folder), on_error="skip", counts=counts).num_rows == 24
    assert (counts.records, counts.damaged) == (24, 1)


def example(**features: Any) -> bytes:
    message = tf.train.Example()
    for name, (kind, values) in features.items():
        getattr(message.features.feature[name], kind).value.extend(values)
    return bytes(message.SerializeToString())


def write(path: Path, *records: bytes) -> str:
    with tf.python_io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def test_a_schema_out_of_foreign_files(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tfrecord",
        example(n=("int64_list", [1]), s=("bytes_list", [b"a"]), b=("bytes_list", [b"\xff"]), f=("float_list", [1, 2])),
        example(n=("int64_list", []), s=("bytes_list", ["é".encode()]), new=("float_list", [0.5])),
    )
    found = read_tfrecord(path)
    assert {f.name: str(f.type) for f in found.schema} == {
        "b": "binary", "f": "list<item: float>", "n": "int64", "new": "float", "s": "string",
    }  # fmt: skip
    assert found["n"].to_pylist() == [1, None] and found["f"].to_pylist() == [[1, 2], None]
    assert open_tfrecord(path, Options(sample=1)).schema.names == ["b", "f", "n", "s"]
    other = write(tmp_path / "b.tfrecord", example(n=("float_list", [1.0])))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"b\.tfrecord: .*feature 'n' is a float_list, in an earlier",
    ):
        read_tfrecord([path, other])
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"b\.tfrecord: the record at byte 0: feature 'n' holds float",
    ):
        read_tfrecord([path, other], sample=1)


def test_a_name_of_the_context_and_of_the_lists_needs_a_schema(tmp_path: Path) -> None:
    """One column cannot have both, and neither may be lost silently."""
    message = tf.train.SequenceExample()
    message.context.feature["a"].int64_list.value.append(7)
    message.feature_lists.feature_list["a"].feature.add().int64_list.value.extend([1, 2])
    path = write(tmp_path / "a.tfrecord", message.SerializeToString())
    how: dict[str, Any] = {"record_type": "SequenceExample"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' is both in the context and among the feature lists"):
        read_tfrecord(path, **how)
    for kind, wanted in ((pa.int64(), 7), (pa.list_(pa.list_(pa.int64())), [[1, 2]])):
        found = read_tfrecord(path, schema=pa.schema([("a", kind)]), **how)
        assert found["a"].to_pylist() == [wanted]


def test_a_schema_that_grows_from_file_to_file(tmp_path: Path) -> None:
    """Few records are looked at, but not only those of the first file."""
    for k in range(5):
        more = {} if k < 4 else {"new": ("float_list", [0.5])}
        write(tmp_path / f"{k}.tfrecord", *[example(n=("int64_list", [k]), **more)] * 4)
    assert open_tfrecord(str(tmp_path), Options(sample=5)).schema.names == ["n", "new"]
    assert open_tfrecord(str(tmp_path), Options(sample=2)).schema.names == ["n", "new"]
    assert open_tfrecord(str(tmp_path), Options(sample=1)).schema.names == ["n"]
    assert read_tfrecord(str(tmp_path), sample=3)["new"].to_pylist() == [None] * 16 + [0.5] * 4


def test_a_value_that_the_schema_has_no_room_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", *(example(n=("int64_list", [1 << 40 if i == 5 else i])) for i in range(9)))
    at = 5 * (os.path.getsize(path) - 5) // 9  # the sixth record is five bytes longer
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"a\.tfrecord: the record at byte {at}: column 'n': Integer value 1099"
    ):
        read_tfrecord(path, schema=pa.schema([("n", pa.int8())]))


def test_folders_named_by_values_of_any_type(tmp_path: Path) -> None:
    values = {
        "flag": [True, None, False], "raw": [b"x", b"\xff/=", None],
        "at": [dt.datetime(2026, 1, 1, 2, tzinfo=dt.UTC)] * 3,
        "price": [Decimal("1.50"), None, Decimal("-2")], "word": ["", "007", "\u00b2"],
    }  # fmt: skip
    table = pa.table({"n": [1, 2, 3], **values})
    for name in values:
        to_tfrecord(table.select(["n", name]), str(tmp_path / name), partition_by=[name])
        found = read_tfrecord(str(tmp_path / name)).sort_by("n")
        assert found.to_pylist() == table.select(["n", name]).to_pylist()
    assert (tmp_path / "flag" / "flag=true").is_dir()
    (tmp_path / "word" / "_sparkflow_schema.json").unlink()
    assert read_tfrecord(str(tmp_path / "word")).sort_by("n")["word"].to_pylist() == ["", "007", "\u00b2"]
    wrong = pa.schema([("n", pa.int64()), ("word", pa.int8())])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"word=/part-.*: partition column 'word': Failed to parse"
    ):
        read_tfrecord(str(tmp_path / "word"), schema=wrong)


def test_folders_that_contradict_each_other(tmp_path: Path) -> None:
    for name, dtype in (("a", pa.int16()), ("b", pa.int32())):
        to_tfrecord(pa.table({"n": pa.array([1], dtype)}), str(tmp_path / name))
    with pytest.raises(tf.errors.InvalidArgumentError, match="have different schemas"):
        read_tfrecord(str(tmp_path / "[ab]"))


def test_what_a_folder_may_hold_beside(tmp_path: Path) -> None:
    """Hidden names, empty files, Hadoop's suffix; no file outside the folders of partitions."""
    tf.local.to_tfrecord(
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "c": pd.Categorical(["x", None])}), f"{tmp_path}/t"
    )
    (part,) = (tmp_path / "t").glob("part-*")
    (tmp_path / "t" / "p.tfrecord.deflate").write_bytes(zlib.compress(part.read_bytes()))
    (tmp_path / "t" / "empty.tfrecord").touch()
    for hidden in ("_SUCCESS", ".part.crc", "_temporary-1/x.tfrecord"):
        (tmp_path / "t" / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / hidden).write_bytes(b"no record")
    assert read_tfrecord(f"{tmp_path}/t").to_pydict() == {"a": [1, None] * 2, "c": ["x", None] * 2}
    (tmp_path / "t" / "k=1").mkdir()
    part.rename(tmp_path / "t" / "k=1" / part.name)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"empty.tfrecord is not in folders k=\.\.\., as other files"
    ):
        read_tfrecord(f"{tmp_path}/t")


def test_bad_arguments(tmp_path: Path) -> None:
    for call, message in (
        (lambda: read_tfrecord(str(tmp_path / "no")), "no: no such file or directory"),
        (lambda: read_tfrecord(str(tmp_path / "*.no")), "there is no record file"),
        (lambda: read_tfrecord(str(tmp_path)), "there is no record file"),
    ):
        with pytest.raises(tf.errors.NotFoundError, match=message):
            call()
    to_tfrecord(table(), str(tmp_path / "out"))
    for call, message in (
        (
            lambda: read_tfrecord(str(tmp_path / "out"), columns=["y"]),
            "column 'y' is missing; the records have id, flag",
        ),
        (lambda: read_tfrecord(str(tmp_path / "out"), on_error="ignore"), "expected 'raise' or 'skip', got 'ignore'"),
        (lambda: read_tfrecord(str(tmp_path / "out"), codec="lz4"), "codec: expected one of none, gzip, zlib, deflate"),
        (lambda: to_tfrecord(table(), str(tmp_path / "x"), mode="w"), "mode: expected one of error, append, overwrite"),
        (lambda: to_tfrecord(table(), str(tmp_path / "x"), partition_by=["z"]), "partition_by: column 'z' is missing"),
        (lambda: to_tfrecord(table(), str(tmp_path / "x"), partition_by=["id", "id"]), "column 'id' is named twice"),
        (lambda: to_tfrecord(pa.table({}), str(tmp_path / "x")), "The table has no column"),
        (lambda: tf.local.to_tfrecord([1], str(tmp_path / "x")), "Expected an Arrow table or a pandas DataFrame"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call()
    assert not (tmp_path / "x").exists()


def test_paths_of_every_form(tmp_path: Path) -> None:
    """What a newcomer gives: a Path, a file's URI; and what would be a folder of an odd name here."""
    table = pa.table({"a": [1, 2]})
    tf.local.to_tfrecord(table, tmp_path / "one")
    assert tf.local.read_tfrecord(tmp_path / "one").equals(table)
    tf.local.to_tfrecord(table, f"file://{tmp_path}/two")
    assert tf.local.read_tfrecord([tmp_path / "two", f"file:{tmp_path}/one"]).num_rows == 4
    for path, said in (("", "path is empty"), ("s3a://bucket/x", r"s3a:// is none"), (7, "got int")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            tf.local.to_tfrecord(table, path)
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            tf.local.read_tfrecord([path])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="'onError' is unknown; there are record_type, schema, on_err"
    ):
        tf.local.read_tfrecord(tmp_path / "one", onError="skip")
    dask = pytest.importorskip("sparkflow_connectors.dask_tfrecord")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected a Dask DataFrame, got pandas.*tf\.local"):
        dask.to_tfrecord(table.to_pandas(), tmp_path / "three")


def test_memory_of_many_columns_is_not_copied_by_row() -> None:
    """A batch of 100,000 rows: whole columns go through, so this takes no Python loop over rows (it would not end)."""
    n = 100_000
    batch = pa.record_batch({"x": pa.array(np.arange(n)), "y": pa.array(np.arange(n, dtype=np.float32))})
    from sparkflow_connectors.record_batches import encoded

    assert len(encoded(batch)) > 20 * n
