"""Which files of a micro-batch are gone, by Spark's notes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import sparkflow as tf
from sparkflow_connectors.stream_files import check_there, files_of, missing


def noted(notes: Path, offsets: dict[int, list[str]], logs: dict[str, list[tuple[str, int]]]) -> str:
    for number, lines in offsets.items():
        path = notes / "offsets" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", "{}", *lines]))
    for name, entries in logs.items():
        path = notes / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", *(json.dumps({"path": p, "timestamp": 1, "batchId": n}) for p, n in entries)]))
    return str(notes)


def log(number: int) -> str:
    return json.dumps({"logOffset": number})


@pytest.mark.parametrize(
    ("offsets", "logs", "number", "found"),
    [
        ({0: [log(1)]}, {"0/0": [("a", 0)], "0/1": [("b", 1), ("c", 1)]}, 0, ["a", "b", "c"]),
        ({0: [log(0)], 1: [log(1)]}, {"0/0": [("a", 0)], "0/1": [("b", 1)]}, 1, ["b"]),
        ({8: [log(8)], 9: [log(9)]}, {"0/9.compact": [("a", 8), ("b", 9)], "0/9": []}, 9, ["b"]),
        ({0: ["-", log(0)], 1: [log(0), log(0)]}, {"0/0": [("a", 0)], "1/0": [("b", 0)]}, 1, ["a"]),
        ({0: ["17"], 1: ["18"]}, {}, 1, []),
        ({0: ['{"topic": {"0": 1}}']}, {}, 0, []),
        ({5: [log(5)]}, {"0/0": [("a", 0)], "0/5": [("b", 5)]}, 5, []),
    ],
    ids=["several", "a later one", "repeated", "two sources", "rate", "topics", "the one before is not noted"],
)
def test_files(
    offsets: dict[int, list[str]], logs: dict[str, list[tuple[str, int]]], number: int, found: list[str], tmp_path: Path
) -> None:
    assert files_of(noted(tmp_path, offsets, logs), number) == found


def test_notes_of_another_form(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v2\n{}\n" + log(0))
    assert files_of(str(tmp_path), 0) == [] == files_of(str(tmp_path), 3)


def test_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a b%").write_text("")
    there, gone = f"file://{tmp_path}/a%20b%25", f"file://{tmp_path}/a%20b"
    stores = ["s3a://b/there", "s3a://b/gone"]
    assert missing([there, gone, *stores], lambda url: url.endswith("/there")) == [gone, stores[1]]


def test_spark_is_told_to_ignore_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notes = noted(tmp_path, {0: [log(0)]}, {"0/0": [(f"file:///{n}", 0) for n in "abcd"]})

    def check(conf: dict[str, str]) -> None:
        check_there(SimpleNamespace(conf=conf), notes, 0)

    with pytest.raises(
        tf.errors.NotFoundError, match=r"micro-batch 0: of its files 4 are .* \(file:///a, .*, \.\.\.\)"
    ):
        check({})
    check({"spark.sql.files.ignoreMissingFiles": "TRUE"})
    assert "of its files 4 are gone" in caplog.text and "their rows are passed over" in caplog.text
