"""What is written is what was there, on one thread or several; sums are those of the bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c

from sparkflow_runtime.kernels import checkpoint_bytes, checkpoint_files
from sparkflow_runtime.wire import checkpoint


def arrays(many: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = [0, 7, 3 << 20, 1, 1 << 19, 9, 0, 1 << 19, 5] + ([17 << 20, 20 << 20] if many else [])
    return [rng.integers(0, 256, n, np.uint8) for n in sizes]


@pytest.mark.parametrize("many", [False, True])
def test_written_and_checked(tmp_path: Path, many: bool) -> None:
    held = arrays(many)
    begins = np.cumsum([5, *(a.size for a in held)]).tolist()
    with open(tmp_path / "x", "wb") as out:
        out.write(b"head.")
        crcs = checkpoint_bytes.write(out, held, begins)
    assert (tmp_path / "x").read_bytes() == b"head." + b"".join(a.tobytes() for a in held)
    assert crcs == [crc32c(a.tobytes()) for a in held]
    data = checkpoint_bytes.mapped(str(tmp_path / "x"))
    assert checkpoint_bytes.checksums([data[b : b + a.size] for a, b in zip(held, begins)]) == crcs
    (tmp_path / "x").unlink()
    np.testing.assert_array_equal(data[begins[2] : begins[2] + held[2].size], held[2])
    assert not data.flags.writeable


def test_small_arrays_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, write = [], os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *args: calls.append(args) or write(*args))
    checkpoint_files.save(str(tmp_path / "m"), [(f"v{i}", "", np.full((10, 10), i)) for i in range(2000)])
    assert len(calls) == 2  # of at most 1 MiB each


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    data = checkpoint_bytes.mapped(str(tmp_path / "none"))
    assert (data.size, checkpoint_bytes.checksums([data])) == (0, [0])


@pytest.mark.parametrize("durable", [False, True])
def test_a_save_waits_for_the_disk_where_asked(tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setenv("SPARKFLOW_CHECKPOINT_FSYNC", "1" if durable else "0")
    checkpoint_files.save(str(tmp_path / "m"), [("a", "", np.ones(3))])
    assert len(synced) == (4 if durable else 0)  # the data, the index, and the directory before and after it


def test_each_tensor_lies_at_a_multiple_of_its_item_size(tmp_path: Path) -> None:
    """So that a map of the file is an array of it."""
    given = [("a", np.ones(3, bool)), ("b", np.arange(5.0)), ("c", np.arange(3, dtype=np.int16)), ("d", np.float32(1))]
    prefix = str(tmp_path / "m")
    checkpoint_files.save(prefix, [(name, "", value) for name, value in given])
    for name, entry in checkpoint.read(prefix).entries.items():
        assert entry.pieces[0].offset % np.asarray(dict(given)[name]).itemsize == 0
