"""The loops of activations: both versions have the same bits, in new memory and in the input's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import nn_loops

LOOPS = [nn_loops.relu, nn_loops.relu_own, nn_loops.relu_grad, nn_loops.relu_grad_own]


@pytest.fixture(params=[True, False], ids=["compiled", "numpy"])
def version(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param else loop.numpy)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation, most", [("Relu", np.inf), ("Relu6", 6.0)])
def test_values_between_limits(dtype: Any, activation: str, most: float) -> None:
    rng = np.random.default_rng(4)
    x, dy = (rng.normal(0, 5, 999).astype(dtype) for _ in range(2))
    x[::7], x[::11], x[::13], x[::17], x[::19], dy[::23] = 0.0, -0.0, np.nan, np.inf, -np.inf, np.nan
    limits = nn_loops.limits(activation, dtype)
    wanted = np.where(np.isnan(x), x, np.clip(x, 0, most))
    wanted_grad = np.where((x > 0) & ~(x >= most) | (x == most) & np.isinf(most), dy, dy * 0)
    apart, own, apart_grad, own_grad = np.full(999, 3, dtype), x.copy(), np.full(999, 3, dtype), dy.copy()
    nn_loops.relu(x, limits, apart, 5, 990)
    nn_loops.relu_own(own, limits, 5, 990)
    nn_loops.relu_grad(dy, x, limits, apart_grad, 5, 990)
    nn_loops.relu_grad_own(own_grad, x, limits, 5, 990)
    inside = slice(5, 990)
    for found, value in ((apart, wanted), (own, wanted), (apart_grad, wanted_grad), (own_grad, wanted_grad)):
        np.testing.assert_array_equal(found[inside], value[inside])
    assert apart[inside].tobytes() == own[inside].tobytes() and not np.signbit(apart[inside][apart[inside] == 0]).any()
    assert apart_grad[inside].tobytes() == own_grad[inside].tobytes()
    for found, before in ((apart, 3), (own, x), (apart_grad, 3), (own_grad, dy)):
        np.testing.assert_array_equal(found[:5], np.broadcast_to(before, 999)[:5])
        np.testing.assert_array_equal(found[990:], np.broadcast_to(before, 999)[990:])
