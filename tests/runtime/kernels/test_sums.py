"""AddN: many arrays are added block by block in one call, with the bits of adding one after the other."""

import functools

import numpy as np
import pytest

from sparkflow_runtime.kernels import fused_machine, registry
from sparkflow_runtime.kernels.registry import Node


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (1, 3), (16,), (5, 51), (40, 40), (0, 3)])
@pytest.mark.parametrize("count", [3, 16, 90])
def test_a_sum_goes_from_left_to_right(count, shape, dtype):
    rng = np.random.default_rng(count)
    arrays = [np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 2)).astype(dtype) for _ in range(count)]
    node = Node("sum", "AddN", {}, "/device:CPU:0", np, None, inputs=("x",) * count)
    total = registry.find("AddN", "CPU").factory(node)(*arrays)
    assert total.dtype == dtype and total.shape == shape
    assert np.array_equal(total, functools.reduce(np.add, arrays))


@pytest.mark.parametrize(("size", "calls"), [(8, 1), (5000, 1), (70_000, 0)])
def test_many_arrays_that_fit_a_cache_take_one_call(monkeypatch, size, calls):
    assert fused_machine.wait(120)
    seen, run = [], fused_machine.Machine.run
    monkeypatch.setattr(fused_machine.Machine, "run", lambda *args: seen.append(run(*args)) or seen[-1])
    arrays = [np.full(size, i, np.float32) for i in range(100)]
    held = arrays[0]
    node = Node("sum", "AddN", {}, "/device:CPU:0", np, None, inputs=("x",) * 100)
    total = registry.find("AddN", "CPU").factory(node)(*arrays, out=held)
    assert total is held and np.all(held == 4950), "in the memory that may be taken"
    assert [found is not None for found in seen] == [True] * calls
