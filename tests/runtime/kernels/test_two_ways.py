"""A file written partly through the page cache and partly past it holds what was written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime.kernels import checkpoint_bytes, two_ways
from sparkflow_runtime.kernels.two_ways import TwoWays, aligned


def save(path: Path, arrays: list[np.ndarray]) -> bytes:
    begins = np.cumsum([11, *(a.nbytes for a in arrays)]).tolist()
    with open(path, "wb") as out:
        out.write(b"x" * 11)
        checkpoint_bytes.write(out, arrays, begins)
    return b"x" * 11 + b"".join(a.tobytes() for a in arrays)


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    monkeypatch.setattr(two_ways, "_LARGE_BYTES", 1)
    rng = np.random.default_rng(0)
    return [rng.random(n) for n in (0, 3, 600_000, 1_000_001, 1, 5_000_000)]


def test_both_ways_make_one_file(tmp_path: Path, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter(range(10_000))
    monkeypatch.setattr(
        TwoWays, "_choose", lambda self: self.direct if next(turns) % 2 and self.direct >= 0 else self.cached
    )
    whole = save(tmp_path / "m", arrays)
    assert (tmp_path / "m").read_bytes() == whole


def test_a_refused_direct_write_goes_through_the_cache(
    tmp_path: Path, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    handles: list[int] = []
    write = os.pwrite

    def refusing(handle: int, data: memoryview, offset: int) -> int:
        if handle in handles:
            raise OSError(errno.EINVAL, "not here")
        return write(handle, data, offset)

    start = TwoWays.__init__

    def noted(self: TwoWays, file: object, size: int) -> None:
        start(self, file, size)
        handles.append(self.direct)

    monkeypatch.setattr(TwoWays, "__init__", noted)
    monkeypatch.setattr(os, "pwrite", refusing)
    assert save(tmp_path / "m", arrays) == (tmp_path / "m").read_bytes()


def test_a_full_disk_is_told(tmp_path: Path, arrays: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / "m", arrays)


def test_the_faster_way_is_taken_and_the_other_tried_again(tmp_path: Path) -> None:
    with open(tmp_path / "m", "wb") as out, TwoWays(out, 0) as file:
        file.direct, taken = -2, []
        for _ in range(100):
            way = file._choose()
            taken.append(way)
            file._learn(way, 1.0 if way == -2 else 3.0)
        assert taken[:2] == [file.cached, -2]
        assert taken.count(-2) > 90  # the faster
        assert 2 < taken.count(file.cached) < 8
        for _ in range(40):
            way = file._choose()
            file._learn(way, 9.0 if way == -2 else 3.0)  # the disk became slow
            taken.append(way)
        assert taken[-10:] == [file.cached] * 10
        file.direct = -1


def test_rooms_begin_at_a_page() -> None:
    for size in (1, 4096, 100_000):
        room = aligned(size)
        assert room.size == size and room.ctypes.data % two_ways.PAGE_BYTES == 0
