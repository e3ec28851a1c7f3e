"""A writer that dies while its files are being shown: the next reader or writer shows the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import tfrecord_commit
from sparkflow_connectors.tfrecord import Options, open_tfrecord, read_tfrecord
from sparkflow_connectors.tfrecord_write import FolderWriter, to_tfrecord
from sparkflow_connectors.waiting import Patience

FILES = 4  # of the writing that is cut short; then the schema file and _SUCCESS are moved, and the note is removed
WRITERS = """
import os, signal, sys
import pandas  # pyarrow would, in each process
import pyarrow as pa
from sparkflow_connectors import tfrecord_commit
from sparkflow_connectors.tfrecord_write import FolderWriter, to_tfrecord

def dies_between_moves(folder, mode, left):
    left, move = [int(left)], os.replace

    def replace(source, target):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        move(source, target)

    tfrecord_commit.os.replace = replace
    table = pa.table({"id": range(100, 108), "p": [1, 2] * 4})
    to_tfrecord(table, folder, mode, rows_per_file=4, partition_by=["p"])

def dies_before_them(folder):
    table = pa.table({"id": range(4)})
    writer = FolderWriter(folder, table.schema, "append")
    writer.begin()
    writer.write(iter(table.to_batches()), 0)
    os.kill(os.getpid(), signal.SIGKILL)

for line in sys.stdin:
    name, *args = line[:-1].split("\\t")
    if not (pid := os.fork()):
        globals()[name](*args)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


HOLDS = """
import sys, time
from sparkflow_connectors.tfrecord_commit import held

with held(sys.argv[1]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., None]]:
    """killed(name, folder, ...): a function of WRITERS that kills its process, of many that import once."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WRITERS], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(*words: Any) -> None:
            print(*words, sep="\t", file=process.stdin, flush=True)
            assert process.stdout.readline() == f"{-signal.SIGKILL}\n"  # type: ignore[union-attr]

        yield ask


@pytest.fixture
def cut_short(killed: Callable[..., None]) -> Callable[[Path, str, int], None]:
    def cut(folder: Path, mode: str, moves: int) -> None:
        to_tfrecord(pa.table({"id": range(8), "p": [2, 3] * 4}), folder, rows_per_file=4, partition_by=["p"])
        killed("dies_between_moves", folder, mode, moves)

    return cut


def ids(folder: Path) -> list[int]:
    return sorted(read_tfrecord(folder).column("id").to_pylist())


def left(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(("_temporary", "_committing"))]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("moves", [0, 1, 2, FILES, FILES + 1, FILES + 2])
def test_a_commit_that_is_cut_short(cut_short: Any, mode: str, moves: int, tmp_path: Path) -> None:
    cut_short(tmp_path / "out", mode, moves)
    old, new = list(range(8)), list(range(100, 108))
    if moves == 0:  # the note was not there yet: nothing is shown
        assert ids(tmp_path / "out") == old
        return
    assert ids(tmp_path / "out") == (new if mode == "overwrite" else old + new)
    assert not left(tmp_path / "out")
    assert (tmp_path / "out" / "p=3").exists() == (mode == "append")


def test_the_next_writer_shows_the_rest_first(cut_short: Any, tmp_path: Path) -> None:
    cut_short(tmp_path / "out", "append", 2)
    to_tfrecord(pa.table({"id": [500], "p": [1]}), tmp_path / "out", "append", partition_by=["p"])
    assert ids(tmp_path / "out") == [*range(8), *range(100, 108), 500] and not left(tmp_path / "out")


def test_the_next_writer_removes_what_a_killed_one_left(
    killed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing of one that is alive; of one that may be on another machine it is said, once it is old."""
    folder, table = tmp_path / "out", pa.table({"id": [7]})
    killed("dies_before_them", folder)
    [of_the_killed] = left(folder)
    alive, unknown, old = (FolderWriter(folder, table.schema, "append", process=p) for p in (os.getpid(), 0, 0))
    for writer in (alive, unknown, old):
        writer.begin()
    monkeypatch.setattr(tfrecord_commit, "_OLD_S", 3600.0)
    os.utime(old.temporary, (1e9, 1e9))
    caplog.set_level("INFO", "sparkflow")
    to_tfrecord(table, folder, "append")
    assert ids(folder) == [7]
    assert sorted(left(folder)) == sorted(os.path.basename(w.temporary) for w in (alive, unknown, old))
    assert {text.partition(" ")[0] for text in caplog.messages} == {f"{folder / of_the_killed}:", old.temporary}
    alive.commit(alive.write(iter(table.to_batches()), 0), alive.nulls)
    assert ids(folder) == [7, 7]


def test_files_that_are_gone(cut_short: Any, tmp_path: Path) -> None:
    cut_short(tmp_path / "out", "append", 2)
    for part in (tmp_path / "out").glob("_temporary*/p=*/part*"):
        part.unlink()
    with pytest.raises(tf.errors.DataLossError, match=r"part-.*, of a writing that was cut short, is gone"):
        ids(tmp_path / "out")


def test_a_reader_sees_one_writing_or_the_other(tmp_path: Path) -> None:
    """Of a folder that is overwritten all the while, never files of two writings, or some of one."""
    there = pa.table({"id": range(40)})
    to_tfrecord(there, tmp_path / "out", rows_per_file=1)
    over = threading.Event()

    def write() -> None:
        for _ in range(20):
            to_tfrecord(there, tmp_path / "out", "overwrite", rows_per_file=1)
        over.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not over.is_set() and not writing.done():
            names = [Path(path).name for path in open_tfrecord(tmp_path / "out", Options(schema=there.schema)).files]
            assert len(names) == 40 and len({name[len("part-00000-") :] for name in names}) == 1
        writing.result()


def test_a_writer_that_is_stopped_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a debugger or a machine that sleeps: readers and writers of the folder waited for ever and said nothing."""
    table = pa.table({"id": range(8)})
    to_tfrecord(table, tmp_path)
    monkeypatch.setattr(tfrecord_commit, "_HELD_S", 0.2)
    monkeypatch.setattr("sparkflow_connectors.waiting._WORD_EVERY_S", 0.0)
    monkeypatch.setattr(tfrecord_commit, "Patience", lambda: Patience(0.0))
    caplog.set_level("INFO", "sparkflow")
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path), "60"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        other.send_signal(signal.SIGSTOP)
        for work in (lambda: read_tfrecord(tmp_path), lambda: to_tfrecord(table, tmp_path, "append")):
            with pytest.raises(tf.errors.UnavailableError, match=rf"another process \(pid {other.pid}\) has held it"):
                work()
        other.kill()
    assert f"which another process holds (pid {other.pid})" in caplog.text
    assert read_tfrecord(tmp_path).num_rows == 8


def test_a_folder_is_had_when_another_lets_it_go(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path), "0.3"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        to_tfrecord(pa.table({"id": range(8)}), tmp_path)
    assert read_tfrecord(tmp_path).num_rows == 8
