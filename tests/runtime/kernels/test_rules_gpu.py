"""Optimizers' rules as kernels of a GPU: the same as in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import rules
from sparkflow_runtime.kernels.rules_gpu import apply_rule
from sparkflow_runtime.kernels.updates import UPDATES

FACTORS = {  # rule -> its scalars
    "gradient_descent": [0.1],
    "momentum": [0.1, 0.9],
    "adagrad": [0.1],
    "adam": [0.9, 0.99, 0.1, 0.9, 0.99, 1e-7],
    "ftrl": [0.1, 0.01, 0.02, -0.5],
    "rms_prop": [0.1, 0.9, 0.5, 1e-7],
    "centered_rms_prop": [0.1, 0.9, 0.5, 1e-3],
    "adadelta": [0.1, 0.9, 1e-6],
    "proximal_gradient_descent": [0.1, 0.01, 0.02],
    "proximal_adagrad": [0.1, 0.01, 0.02],
    "adagrad_da": [0.1, 0.01, 0.02, 3],
}
MORE = [("ftrl", [0.1, 0.01, 0.02, 0.3, -0.7])]  # by the V2 op


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rule", "factors"), [*FACTORS.items(), *MORE])
@pytest.mark.parametrize("flag", [False, True])
def test_each_rule(cupy: Any, rule: str, factors: list[float], dtype: str, flag: bool) -> None:
    rng, refs = np.random.default_rng(0), next(u.num_refs for u in UPDATES.values() if u.rule == rule)
    held = [(rng.uniform(0.5, 0.9, (7, 3)) + 4 * (i == 2)).astype(dtype) for i in range(refs)]
    grad, scalars = rng.standard_normal((7, 3)).astype(dtype), [np.array(f, dtype) for f in factors]
    attrs = {name: flag for name in ("use_nesterov", "update_slots", "multiply_linear_by_lr", "dense")}
    there = [cupy.asarray(h.copy()) for h in held]
    assert apply_rule(cupy, rule, attrs, there, cupy.asarray(grad), [cupy.asarray(s) for s in scalars])
    for step in range(2):
        getattr(rules, rule)(np, attrs, held, grad, *scalars)
        for found, wanted in zip(there, held, strict=True):
            np.testing.assert_allclose(found.get(), wanted, rtol=1e-5 if dtype == "float32" else 1e-13)
        if not step:
            apply_rule(cupy, rule, attrs, there, cupy.asarray(grad), [cupy.asarray(s) for s in scalars])


def test_every_rule_has_factors_here() -> None:
    ours = {update.rule for op, update in UPDATES.items() if not op.startswith("_")}  # those run on CPUs alone
    assert ours == FACTORS.keys()


def test_half_precision_goes_step_by_step(cupy: Any) -> None:
    half = [cupy.asarray(np.ones(3, np.float16)) for _ in range(3)]
    assert not apply_rule(cupy, "gradient_descent", {}, half[:1], half[1], [half[2]])
