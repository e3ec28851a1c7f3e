"""Arrays that wait in a file: same bits, space given back, errors that say what to do."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.resources import swap_file
from sparkflow_runtime.resources.swap_file import SwapFile, swap_directory, usual_directory
from sparkflow_runtime.wire.errors import DeadlineExceededError, ResourceExhaustedError


@pytest.fixture
def file(tmp_path: Path) -> Any:
    made = SwapFile(str(tmp_path))
    yield made
    made.close()


def written(swapped: Any) -> Any:
    swapped._written.result(10)
    return swapped


ARRAYS = [
    np.arange(100000, dtype=np.float64).reshape(100, 1000),
    np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1),
    np.array([np.nan, -0.0, np.inf], np.float32),
    np.zeros((0, 5), np.float32),
    np.array(3, np.uint8),
    np.array([True, False]),
]


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("wait", [True, False])
def test_it_comes_back_as_it_was(file: SwapFile, array: np.ndarray, wait: bool) -> None:
    away = file.put(array, "x")
    if wait:
        written(away)
        away.fetch()
    back = away.take(10)
    assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()
    assert back.flags.writeable or not wait


def test_the_memory_is_free_once_it_is_written(file: SwapFile) -> None:
    import weakref

    array = np.ones(1000)
    alive, away = weakref.ref(array), file.put(array, "x")
    written(away)
    del array
    gc.collect()
    assert alive() is None and away.take(10).sum() == 1000


def test_the_file_has_no_name_and_gives_its_space_back(file: SwapFile, tmp_path: Path) -> None:
    away = [written(file.put(np.full(5000, i), "x")) for i in range(3)]
    assert not list(tmp_path.iterdir())
    assert file.used_bytes == 3 * 40960
    size = os.fstat(file._descriptor()).st_size
    assert [a.take(10)[0] for a in away] == [0, 1, 2]
    del away
    gc.collect()
    assert file.used_bytes == 0
    again = [written(file.put(np.full(5000, i), "x")) for i in range(3)]
    assert os.fstat(file._descriptor()).st_size == size, "holes are used again"
    assert [a.take(10)[0] for a in again] == [0, 1, 2]


def test_a_full_disk_says_what_to_do(file: SwapFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    away = file.put(np.ones(1000), "layer/h:0")
    with pytest.raises(
        ResourceExhaustedError, match=r"'layer/h:0'.*8000 bytes.*No space left.*free there.*SPARKFLOW_SWAP_DIR"
    ):
        written(away)
    with pytest.raises(ResourceExhaustedError, match="No space left"):
        away.take(10)


def test_a_directory_that_is_not_there_says_so(tmp_path: Path) -> None:
    file = SwapFile(str(tmp_path / "nowhere"))
    with pytest.raises(ResourceExhaustedError, match="no directory that can be used"):
        written(file.put(np.ones(10), "x"))
    file.close()


def test_a_disk_that_does_not_answer_ends_the_wait(file: SwapFile, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    away = written(file.put(np.ones(10), "x"))
    monkeypatch.setattr(file, "load", lambda *_: go_on.wait(30))
    away.fetch()
    with pytest.raises(DeadlineExceededError, match=r"'x' \(80 bytes\).*0.05 s"):
        away.take(0.05)
    go_on.set()


def test_what_is_not_yet_written_is_bounded(file: SwapFile, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, store = Event(), file.store
    monkeypatch.setattr(swap_file, "_MOST_PENDING_BYTES", 1000)
    monkeypatch.setattr(file, "store", lambda *given: go_on.wait(30) and store(*given))
    first = file.put(np.ones(100), "first")
    with pytest.raises(DeadlineExceededError, match="800 bytes before it"):
        file.put(np.ones(100), "second", 0.05)
    go_on.set()
    written(first)
    assert file.put(np.ones(100), "second", 10).take(10).sum() == 100


def test_a_directory_in_memory_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKFLOW_SWAP_DIR", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    mounts = tmp_path / "mounts"
    mounts.write_text("disk / ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\n")
    assert usual_directory(str(mounts)) == "/var/tmp"
    assert usual_directory(str(tmp_path / "none")) == "/tmp"
    monkeypatch.setenv("SPARKFLOW_SWAP_DIR", "/elsewhere")
    assert swap_directory() == "/elsewhere"


def test_where_no_usual_place_can_be_written_to_that_is_told_as_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container that only reads its disk, the step that swapped failed with Python's own error."""

    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert usual_directory(str(tmp_path / "none")) == str(tmp_path)
    nowhere = SwapFile(str(tmp_path / "none"))
    with pytest.raises(ResourceExhaustedError, match=r"none': No such file.*SPARKFLOW_SWAP_DIR"):
        written(nowhere.put(np.ones(100), "first"))
