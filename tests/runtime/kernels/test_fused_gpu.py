"""Fused nodes on a GPU: the text of their kernels means what the nodes do, and is compiled where there is a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels.fused_gpu import GpuMachine
from sparkflow_runtime.kernels.fused_machine import Member
from sparkflow_runtime.kernels.fused_steps import RECIPES
from sparkflow_runtime.kernels.host import host
from tests.runtime.kernels.test_fused import INTEGERS, LOGICAL, arity, values

SCALES = {"float32": 2e-6, "float64": 1e-14, "int32": 0, "int64": 0, "bool": 0}


def types(op: str) -> list[str]:
    if op in LOGICAL:
        return ["bool"]
    return ["float32", "float64", *(["int32", "int64"] if op in INTEGERS - {"Relu"} else [])]


def of_numpy(op: str, arrays: list[np.ndarray]) -> np.ndarray:
    from sparkflow_runtime.kernels.registry import Node, find
    from sparkflow_runtime.wire.dtypes import as_dtype

    attrs = {"T": as_dtype(arrays[-1].dtype.name), "alpha": 0.2}
    node = Node("n", op, attrs, "", np, None)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        return np.asarray(find(op, "CPU").factory(node)(*arrays))


def alike(found: Any, wanted: np.ndarray) -> None:
    found = host(found)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "f":
        scale = SCALES[wanted.dtype.name]
        np.testing.assert_allclose(found, wanted, rtol=20 * scale, atol=2 * scale)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", sorted(RECIPES))
def test_each_op(cupy: Any, op: str) -> None:
    for dtype in types(op):
        for shape in ((7,), (40, 50), (0, 4)):
            arrays = [values(op, dtype, shape, seed) for seed in range(arity(op))]
            if op in ("Select", "SelectV2"):
                arrays[0] = values("LogicalNot", bool, shape, 5)
            members = [Member(op, tuple((False, i) for i in range(len(arrays))), (("alpha", 0.2),))]
            found = GpuMachine(cupy, members, [0]).run([cupy.asarray(a) for a in arrays])
            assert found is not None, "there is a kernel for it"
            alike(found[0], of_numpy(op, arrays))


CHAIN = [
    Member("Mul", ((False, 0), (False, 1))),
    Member("Tanh", ((True, 0),)),
    Member("AddV2", ((True, 1), (False, 2))),
    Member("Greater", ((True, 2), (False, 2))),
]


def test_a_chain_with_rows_and_numbers(cupy: Any) -> None:
    x, row, one = np.linspace(-3, 3, 3000, dtype=np.float32).reshape(300, 10), np.arange(10, dtype="f"), np.float32(0.5)
    found = GpuMachine(cupy, CHAIN, [1, 2, 3]).run([cupy.asarray(a) for a in (x, row, one)])
    assert found is not None
    tanh = np.tanh(x * row)
    for a, b in zip(found, (tanh, tanh + one, tanh + one > one), strict=True):
        alike(a, b)


def test_what_has_no_kernel(cupy: Any) -> None:
    row, column = cupy.asarray(np.ones((1, 3), "f")), cupy.asarray(np.ones((3, 1), "f"))
    machine = GpuMachine(cupy, CHAIN, [1])
    assert machine.run([row, column, column]) is None, "no input has the result's shape"
    assert machine.run([row, cupy.asarray(np.ones((1, 4), "f")), row]) is None, "the shapes do not go together"
    half = cupy.asarray(np.ones((1, 3), "f2"))
    assert machine.run([half, half, half]) is None, "a type that has no form"


def test_large_arrays(cupy: Any) -> None:
    """Four elements at a time on a GPU: a tail is left, a row and a number stand beside them."""
    rng = np.random.default_rng(0)
    for shape, width in (((1000, 300), 300), ((1 << 19,), 1), ((1 << 18, 1), 1), ((300_007,), 1)):
        x = rng.standard_normal(shape).astype("f")
        row, one = rng.standard_normal(width).astype("f"), np.float32(0.5)
        given = [cupy.asarray(a) for a in (x, row, one)]
        found = GpuMachine(cupy, CHAIN, [1, 2, 3]).run(given)
        assert found is not None
        tanh = np.tanh(x * row)
        for a, b in zip(found, (tanh, tanh + one), strict=False):
            alike(a, b)
        assert found[2].dtype == bool
    part = cupy.asarray(rng.standard_normal(1 << 19).astype("f"))[1:]  # which begins between two fours
    (alone,) = GpuMachine(cupy, [Member("Square", ((False, 0),))], [0]).run([part]) or [None]
    alike(alone, np.square(part.get()))


def test_into_memory_that_is_there(cupy: Any) -> None:
    x, row = np.linspace(-1, 1, 1 << 18, dtype="f").reshape(-1, 64), np.linspace(0, 1, 64, dtype="f")
    there = cupy.asarray(x.copy())
    members = [Member("AddV2", ((False, 0), (False, 1))), Member("Relu", ((True, 0),))]
    (found,) = GpuMachine(cupy, members, [1]).run([there, cupy.asarray(row)], there) or [None]
    assert found is there
    alike(there, np.maximum(x + row, 0))
