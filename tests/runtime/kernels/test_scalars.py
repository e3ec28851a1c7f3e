"""The scalar form of an op gives the bits that its kernel gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.scalars import _FORMS, scalar_form
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.worker.codegen import Call, compile_segment

REAL = [0.0, -0.0, 1.0, -1.5, 3.14159, 1e-45, 3e38, np.inf, -np.inf, np.nan]
WHOLE = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
CASES = [
    (op, dtype)
    for op, (_, types) in _FORMS.items()
    for dtype in sorted(types or {dtypes.bool_}, key=lambda dtype: dtype.name)
]


def computed(function: Any, inputs: list[Any]) -> Any:
    args = [("const", value) for value in inputs]
    values: list[Any] = [None]
    with np.errstate(all="ignore"):
        compile_segment([Call("n", function, args, [(0, None)])]).run(values)
    return values[0]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda case: getattr(case, "name", case))
def test_scalar_forms_have_the_bits_of_the_kernel(op: str, dtype: dtypes.DType) -> None:
    numbers = REAL if dtype.is_floating else [False, True] if dtype.is_bool else WHOLE
    values = np.array(numbers).astype(dtype.np)
    attrs = {"T": dtype}
    form = scalar_form(op, attrs)
    assert form is not None
    row = registry.find(op, "CPU")
    kernel = row.factory(registry.Node("n", op, attrs, "", np, ResourceManager()))
    arity = form.count("{}") if isinstance(form, str) else 2
    for pick in itertools.product(range(len(values)), repeat=arity):
        scalars, arrays = [values[i] for i in pick], [values[i : i + 1] for i in pick]
        with np.errstate(all="ignore"):
            want = np.asarray(kernel(*arrays))
        for inputs in (scalars, arrays, [np.asarray(s) for s in scalars]):
            found = np.asarray(computed(form, inputs))
            assert found.dtype == want.dtype
            assert found.tobytes() == want.tobytes() or (np.isnan(found).all() and np.isnan(want).all()), (op, scalars)


def test_other_types_keep_their_kernel() -> None:
    assert scalar_form("AddV2", {"T": dtypes.string}) is None
    assert scalar_form("Mul", {"T": dtypes.complex64}) is None
    assert scalar_form("MatMul", {"T": dtypes.float32}) is None
