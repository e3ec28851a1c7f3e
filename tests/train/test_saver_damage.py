"""What a damaged disk or a crash in the middle of a save leaves of a checkpoint."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.train import checkpoint_state
from sparkflow_runtime.kernels import checkpoint_bytes, checkpoint_files, checkpoint_restore
from sparkflow_runtime.wire import checkpoint, dtypes
from sparkflow_runtime.wire.errors import DataLossError, NotFoundError, ResourceExhaustedError

# ---------------------------------------------------------------------- damage


def saved(directory: Path) -> str:
    with Graph().as_default(), tf.Session() as sess:
        tf.Variable(np.ones(4, np.float32), name="a")
        tf.Variable(np.full(4, 2, np.float32), name="w")
        sess.run(tf.global_variables_initializer())
        return tf.train.Saver().save(sess, str(directory / "model"), write_meta_graph=False)


def restored(prefix: str) -> np.ndarray:
    with Graph().as_default(), tf.Session() as sess:
        first, w = tf.Variable(np.zeros(4, np.float32), name="a"), tf.Variable(np.zeros(4, np.float32), name="w")
        saver = tf.train.Saver()
        sess.run(tf.global_variables_initializer())
        try:
            saver.restore(sess, prefix)
        except Exception:
            np.testing.assert_array_equal(sess.run([first, w]), 0)  # nothing half restored
            raise
        return np.array(sess.run(w))


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return saved(tmp_path)


def test_a_flipped_bit_in_the_data(prefix: str) -> None:
    data = Path(prefix + ".data-00000-of-00001")
    raw = bytearray(data.read_bytes())
    raw[-3] ^= 1
    data.write_bytes(raw)
    with pytest.raises(DataLossError, match=r"data-00000-of-00001: tensor 'w', 16 bytes at offset \d+, is damaged"):
        restored(prefix)


def test_a_short_file(prefix: str) -> None:
    data = Path(prefix + ".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-5])
    with pytest.raises(DataLossError, match=r"has \d+ bytes, expected \d+"):
        restored(prefix)


def test_a_damaged_header(prefix: str) -> None:
    data = Path(prefix + ".data-00000-of-00001")
    raw = bytearray(data.read_bytes())
    raw[9] ^= 0xFF
    data.write_bytes(raw)
    with pytest.raises(DataLossError, match="header is damaged"):
        restored(prefix)


def test_a_missing_data_file(prefix: str) -> None:
    os.remove(prefix + ".data-00000-of-00001")
    with pytest.raises(NotFoundError, match="is missing"):
        restored(prefix)


def test_a_data_file_that_its_saver_deletes_while_it_is_restored(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an evaluator may meet the checkpoint that it has just found, and then looks for a newer one."""
    getsize = os.path.getsize

    def late(path: str) -> int:
        if path.endswith(".data-00000-of-00001"):
            os.remove(path)
        return getsize(path)

    monkeypatch.setattr(os.path, "getsize", late)
    with pytest.raises(NotFoundError, match="data-00000-of-00001 of the checkpoint is missing"):
        restored(prefix)


def test_a_data_file_that_cannot_be_read(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(checkpoint_bytes, "mapped", refused)
    with pytest.raises(tf.errors.PermissionDeniedError, match="of the checkpoint cannot be read: Permission denied"):
        restored(prefix)


@pytest.mark.parametrize("change", ["flip", "cut", "other"])
def test_a_damaged_index(prefix: str, change: str) -> None:
    path = Path(prefix + ".index")
    raw = path.read_bytes()
    changed = {"flip": raw.replace(b"float32", b"float64", 1), "cut": raw[: len(raw) // 2], "other": b"\0table"}[change]
    path.write_bytes(changed)
    with pytest.raises(DataLossError, match=r"model\.index"):
        restored(prefix)


def test_an_index_that_was_laid_out_anew_is_read(prefix: str) -> None:
    path = Path(prefix + ".index")
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    np.testing.assert_array_equal(restored(prefix), 2)


def test_an_index_is_read_again_once_another_is_there(prefix: str, tmp_path: Path) -> None:
    first = checkpoint.read(prefix)
    assert checkpoint.read(prefix) is first
    path = Path(prefix + ".index")
    content, held = path.read_bytes(), path.stat()
    other = path.with_name("other")
    other.write_bytes(content.replace(b"float32", b"float64"))
    os.utime(other, ns=(held.st_atime_ns, held.st_mtime_ns))
    other.replace(path)
    with pytest.raises(DataLossError, match="checksum"):
        checkpoint.read(prefix)


def test_an_index_reads_only_beside_itself(tmp_path: Path) -> None:
    piece = checkpoint.Piece("../secret", "w", (0,), (1,), 0, 4, 0)
    index = checkpoint.Index({"w": checkpoint.Entry("float32", (1,), [piece])}, {"../secret": 4})
    with pytest.raises(DataLossError, match="only files beside the index"):
        checkpoint.decode(checkpoint.encode(index), "x.index")


# ---------------------------------------------------------------------- crashes


@pytest.mark.parametrize("same_prefix", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_a_crash_at_any_point_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharded: bool, same_prefix: bool
) -> None:
    """Die before the n-th call that changes the directory, for each n until the save gets through."""
    new_name = "m" if same_prefix else "n"
    for n in range(100):
        directory = tmp_path / str(n)
        directory.mkdir()
        with Graph().as_default(), tf.Session() as sess:
            w = tf.Variable(np.full(4, 1, np.float32), name="w")
            saver = tf.train.Saver(sharded=sharded)
            sess.run(w.initializer)
            saver.save(sess, str(directory / "m"))
            sess.run(w.assign(np.full(4, 2, np.float32)))
            save = partial(saver.save, sess, str(directory / new_name))
            finished = _save_until_crash(save, n, monkeypatch)
        found = tf.train.latest_checkpoint(str(directory))
        assert found is not None
        with Graph().as_default(), tf.Session() as sess:
            w = tf.Variable(np.zeros(4, np.float32), name="w")
            tf.train.Saver().restore(sess, found)
            assert sess.run(w).tolist() in ([[2.0] * 4] if finished else [[1.0] * 4, [2.0] * 4])
        if finished:
            assert n > 8
            return
    raise AssertionError("the save never got through")


def _save_until_crash(save: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """False where the n-th call was reached."""
    calls = [0]

    def dying(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] > n:  # a dead process does nothing more
                raise OSError("crashed")
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        patch.setenv("SPARKFLOW_CHECKPOINT_FSYNC", "1")
        for name in ("replace", "remove", "fsync", "rmdir", "makedirs"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            save()
        except Exception as error:
            assert "crashed" in str(error)
            return False
    return True


@pytest.mark.parametrize("sharded", [True, False])
@pytest.mark.parametrize("full", ["data", "index", "meta", "state"])
def test_a_full_disk_is_told_and_leaves_nothing(
    graph: Graph, tmp_path: Path, sharded: bool, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf.Variable(np.ones(4, np.float32), name="w")
    saver = tf.train.Saver(sharded=sharded)

    def write(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = saver.save(sess, str(tmp_path / "m"), 1, write_meta_graph=False)
        if full == "data":
            monkeypatch.setattr(checkpoint_bytes, "write", write)
        elif full == "index":
            monkeypatch.setattr(checkpoint, "encode", write)
        else:
            name = "m-2.meta" if full == "meta" else "checkpoint"
            monkeypatch.setattr(checkpoint_state.os, "replace", _replace_unless(name, write))
        of_data = r"SaveV2: checkpoint .*m-2.* cannot be written"
        said = {"state": r"checkpoint cannot be written", "meta": r"m-2\.meta cannot be written"}.get(full, of_data)
        with pytest.raises(ResourceExhaustedError, match=f"{said}: No space left"):
            saver.save(sess, str(tmp_path / "m"), 2, write_meta_graph=full == "meta")
    monkeypatch.undo()
    assert tf.train.latest_checkpoint(str(tmp_path)) == first and restored_alone(str(first)).tolist() == [1] * 4
    assert saver.last_checkpoints == [first]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "m-1.data-00000-of-00001", "m-1.index"]


def test_a_full_disk_leaves_a_checkpoint_that_it_would_write_again(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf.Variable(np.ones(4, np.float32), name="w")
    saver = tf.train.Saver()

    def write(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        first = saver.save(sess, str(tmp_path / "m"))
        monkeypatch.setattr(checkpoint_state.os, "replace", _replace_unless("m.meta", write))
        with pytest.raises(ResourceExhaustedError, match="No space left"):
            saver.save(sess, str(tmp_path / "m"))
    monkeypatch.undo()
    assert tf.train.latest_checkpoint(str(tmp_path)) == first and restored_alone(str(first)).tolist() == [1] * 4


def test_relative_paths_without_a_working_directory(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that began in a folder which somebody has removed since."""
    tf.Variable(1.0)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver(save_relative_paths=True).save(sess, str(tmp_path / "m"))
    assert 'model_checkpoint_path: "m"' in (tmp_path / "checkpoint").read_text()
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m")


def _replace_unless(name: str, otherwise: Any) -> Any:
    replace = os.replace
    return lambda old, new: otherwise() if os.path.basename(new) == name else replace(old, new)


def restored_alone(prefix: str) -> np.ndarray:
    return np.array(tf.train.load_variable(prefix, "w"))


def test_leftovers_of_a_crash_are_removed_by_the_next_save(graph: Graph, tmp_path: Path) -> None:
    tf.Variable(np.ones(4, np.float32), name="w")
    (tmp_path / "m.data-00000-of-00001.tmp-0123").write_bytes(b"half")
    (tmp_path / "m.data-00000-of-00007").write_bytes(b"old")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(tmp_path / "m"), write_meta_graph=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "m.data-00000-of-00001", "m.index"]


# ---------------------------------------------------------------------- two saves at once


@pytest.mark.parametrize("sharded", [False, True])
def test_two_saves_of_one_name_leave_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sharded: bool
) -> None:
    """Of a step and, beside it, of a signal's thread: each is to end before the other removes what it has not."""
    prefix, begun, commit = str(tmp_path / "m"), threading.Barrier(2), checkpoint_files.commit
    first: list[bool] = []

    def watched(given: str, index: Any, moves: Any) -> None:
        if given == prefix:
            first.append(True)
            assert len(first) == 1, "two at once"
            time.sleep(0.05)
        commit(given, index, moves)
        if given == prefix:
            first.pop()

    def save(value: float) -> None:
        begun.wait(20)
        tensors = [("a", "", np.full(4, value)), ("b", "", np.full(4, value))]
        if not sharded:
            checkpoint_files.save(prefix, tensors)
            return
        part = str(tmp_path / f"temp_{value}" / "part")
        checkpoint_files.save(part, tensors)
        checkpoint_files.merge([part], prefix, True)

    monkeypatch.setattr(checkpoint_files, "commit", watched)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(save, value) for value in (1.0, 2.0)]:
            done.result(20)
    a, b = checkpoint_restore.restore(prefix, ["a", "b"], ["", ""], [dtypes.float64] * 2)
    assert (a == b).all() and a[0] in (1.0, 2.0)
    assert sorted(path.name.partition(".")[2][:5] for path in tmp_path.iterdir()) == ["data-", "index"]
