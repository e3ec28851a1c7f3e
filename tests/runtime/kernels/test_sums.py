"""AddN: many small arrays are joined and added at once, with the bits of adding one after the other."""

import functools

import numpy as np
import pytest

from sparkflow_runtime.kernels import registry
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
