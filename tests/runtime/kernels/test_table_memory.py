"""Where tables lie: on lines of the cache, side by side, never one over the other, and given back in the end."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import table_memory
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.wire import dtypes

SHAPES = [(10_000, 8), (2_000, 3), (100_000, 16), (501, 7, 11), (1 << 12, 1 << 8)]


def test_tables_begin_on_a_line_and_are_apart() -> None:
    with ThreadPoolExecutor(4) as pool:  # as the threads do that fill variables side by side
        made = list(pool.map(lambda shape: table_memory.new_table(shape, np.dtype("f4")), SHAPES * 20))
    for i, table in enumerate(made):
        assert address(table) % 64 == 0 and table.flags.carray
        table[...] = i
    assert all((table == i).all() for i, table in enumerate(made))


def test_a_view_keeps_the_table_itself() -> None:
    """By which an assignment knows who reads the variable."""
    table = table_memory.new_table((1000, 20), np.dtype("f4"))
    assert table[1:].base is table and table.reshape(-1).base is table and table.view("i4").base is table


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_goes_back() -> None:
    for shape in ((1 << 18, 16), (1 << 14, 16)):
        tables = [table_memory.new_table(shape, np.dtype("f4")) for _ in range((1 << 28) // (shape[0] * 64))]
        for table in tables:
            table[...] = 1
        held = _resident_bytes()
        del tables, table
        gc.collect()
        assert held - _resident_bytes() > 200 << 20


def _assign(ref: Variable, value: Any) -> None:
    find("Assign", "CPU").factory(Node("n", "Assign", {}, "CPU", np, ResourceManager()))(ref, value)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_a_first_value_goes_there(dtype: str) -> None:
    value = np.arange(24_000).astype(dtype).reshape(8000, 3)
    ref = Variable("table", getattr(dtypes, dtype), value.shape)
    _assign(ref, value)
    held = ref.read()
    assert held is not value and held.dtype == value.dtype and address(held) % 64 == 0
    np.testing.assert_array_equal(held, value)
    _assign(ref, value[::-1])
    assert ref.read() is held, "who has read it sees the new value"
    np.testing.assert_array_equal(held, value[::-1])


@pytest.mark.parametrize(
    "value", [np.zeros((4, 4), np.float32), np.zeros(100_000, np.float32), np.zeros((300, 300), "?")]
)
def test_what_is_no_table_stays_where_it_is(value: np.ndarray) -> None:
    assert not table_memory.takes(value)


def test_other_values_than_arrays_are_no_tables() -> None:
    assert not table_memory.takes(3.0) and not table_memory.takes(np.float32(1)) and not table_memory.takes("text")
