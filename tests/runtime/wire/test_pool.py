"""The pool of large buffers: used again, never while somebody looks at one, and not without bound."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from sparkflow_runtime.wire import pool


def test_buffers_come_home_only_when_no_view_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_idle", {})  # what other tests left may fill the pool
    first = pool.empty(2 << 20)
    address = first.__array_interface__["data"][0]
    assert address % 64 == 0
    view = first[100:].view(np.float32)[:10].reshape(2, 5).T
    del first
    gc.collect()
    other = pool.empty(2 << 20)
    before = pool.idle_bytes()
    assert not np.shares_memory(view, other)
    del view
    assert pool.idle_bytes() == before + (2 << 20)
    again = [pool.empty(2 << 20) for _ in range(50)]
    assert address in [a.__array_interface__["data"][0] for a in again]


def test_idle_buffers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_idle", {})
    held = [pool.empty(100 << 20) for _ in range(5)]
    held.clear()
    assert 100 << 20 <= pool.idle_bytes() <= pool.KEEP_BYTES
    assert pool.empty(5).size == 5


@pytest.mark.parametrize("nbytes", [1 << 20, (1 << 20) + 1, 5 << 20, (64 << 20) + 64, (1 << 30) - 1])
def test_size_classes_waste_an_eighth_at_most(nbytes: int) -> None:
    size = pool.size_class(nbytes)
    assert nbytes <= size <= nbytes * 9 / 8 and pool.size_class(size) == size


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_buffers_of_its_own() -> None:
    held = pool.empty(2 << 20)
    held[:] = 7
    (told, tell), (heard, answer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        os.write(answer, bytes([held[0]]))
        held[:] = 9
        os.write(answer, b".")
        os._exit(0)
    held[:] = 8
    os.write(tell, b".")
    assert os.read(heard, 1) == b"\x07"
    assert os.read(heard, 1) == b"."
    os.waitpid(child, 0)
    assert (held == 8).all()
    for descriptor in (told, tell, heard, answer):
        os.close(descriptor)
