"""Dense updates in blocks: every rule gives the bits of its numpy version, with a crew and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import rules, update_blocks
from sparkflow_runtime.kernels.compiled import make_ready
from sparkflow_runtime.kernels.crew import Crew
from sparkflow_runtime.kernels.updates import UPDATES, Updater

_FACTORS = {
    "gradient_descent": [0.1],
    "momentum": [0.1, 0.9],
    "adagrad": [0.1],
    "adam": [0.9, 0.99, 0.01, 0.9, 0.999, 1e-7],
    "ftrl": [0.1, 0.01, 0.02, -0.5],
    "rms_prop": [0.1, 0.9, 0.8, 1e-7],
    "centered_rms_prop": [0.1, 0.9, 0.8, 3.0],
    "adadelta": [0.5, 0.9, 1e-3],
    "proximal_gradient_descent": [0.1, 0.5, 0.3],
    "proximal_adagrad": [0.1, 0.5, 0.3],
    "adagrad_da": [0.1, 0.05, 0.3, 7.0],
}
_DENSE = [op for op, update in UPDATES.items() if update.indices_at < 0 and not op.endswith("V2")]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    made = Crew()
    make_ready(made)
    assert made.ready(3)
    yield made


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("items", [1000, 2 * update_blocks._BLOCK, 5 * update_blocks._BLOCK + 77])
@pytest.mark.parametrize("op", _DENSE)
def test_bits(op: str, items: int, dtype: Any, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three updates; the variable lies elsewhere before the last."""
    monkeypatch.setattr(update_blocks, "crew_for", lambda work: crew)
    update, rng = UPDATES[op], np.random.default_rng(0)
    scalars = [np.array(x, dtype) for x in _FACTORS[update.rule]]
    held = [rng.uniform(0.5, 1, items).astype(dtype) for _ in range(update.num_refs)]
    wanted = [x.copy() for x in held]
    updater = Updater(np, op, {})
    make_ready(updater._loop)
    for i in range(3):
        grad = rng.normal(size=items).astype(dtype)
        if i == 2:
            held = [x.copy() for x in held]
        updater.dense(held, grad, scalars)
        getattr(rules, update.rule)(np, {}, wanted, grad, *scalars)
        assert [x.tobytes() for x in held] == [x.tobytes() for x in wanted]


def test_two_sizes_and_types_in_turn(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_blocks, "crew_for", lambda work: crew)
    updater = Updater(np, "ApplyGradientDescent", {})
    make_ready(updater._loop)
    for dtype, items in [(np.float32, 70_000), (np.float64, 70_000), (np.float32, 40_000), (np.float64, 100)] * 2:
        var = np.ones(items, dtype)
        updater.dense([var], np.ones(items, dtype), [np.array(0.25, dtype)])
        assert (var == 0.75).all()
