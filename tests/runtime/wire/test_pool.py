"""The pool of large buffers: used again, never while somebody looks at one, and not without bound."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from sparkflow_runtime.wire import pool


def test_buffers_come_home_only_when_no_view_lives() -> None:
    first = pool.empty(2 << 20)
    address = first.__array_interface__["data"][0]
    assert address % 64 == 0
    view = first[100:].view(np.float32)[:10].reshape(2, 5).T
    del first
    gc.collect()
    before = pool.idle_bytes()
    other = pool.empty(2 << 20)
    assert not np.shares_memory(view, other)
    del view
    assert pool.idle_bytes() == before + (2 << 20) or before == pool.idle_bytes()
    again = [pool.empty(2 << 20) for _ in range(50)]
    assert address in [a.__array_interface__["data"][0] for a in again]


def test_idle_buffers_are_bounded() -> None:
    held = [pool.empty(100 << 20) for _ in range(5)]
    held.clear()
    assert pool.idle_bytes() <= pool.KEEP_BYTES
    assert pool.empty(5).size == 5


@pytest.mark.parametrize("nbytes", [1 << 20, (1 << 20) + 1, 5 << 20, (64 << 20) + 64, (1 << 30) - 1])
def test_size_classes_waste_an_eighth_at_most(nbytes: int) -> None:
    size = pool.size_class(nbytes)
    assert nbytes <= size <= nbytes * 9 / 8 and pool.size_class(size) == size
