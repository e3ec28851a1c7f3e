"""CTC's sums over alignments: both versions have the same bits, and the loss is what its own logarithms' sums give."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import ctc, ctc_sums
from sparkflow_runtime.kernels import ctc_sum_loops as loops


def _masks(rng: Any, batch: int, states: int) -> list[np.ndarray]:
    return [np.where(rng.random((batch, states)) < share, np.float32(0), loops.LEAST) for share in (0.4, 0.8, 0.6)]


@pytest.mark.parametrize("batch, steps, states", [(3, 20, 9), (1, 1, 1), (2, 7, 33), (4, 0, 3), (2, 5, 16)])
def test_both_versions_have_the_same_bits(batch: int, steps: int, states: int) -> None:
    rng = np.random.default_rng(states)
    lengths = rng.integers(0, steps + 1, batch)
    classes = rng.integers(0, 5, (batch, states))
    logs = (rng.standard_normal((steps, batch, 5)) * 20).astype(np.float32)
    if steps > 4:
        logs[2, 0], logs[3, -1] = -np.inf, np.nan
    scores = np.zeros((batch, steps, states), np.float32)
    cases: Any = (
        (loops.spread, [logs, classes, scores], 2),
        (loops.walk, [scores, *_masks(rng, batch, states), lengths,
                      np.zeros((batch, steps, states + 2), np.float32)], 5),
        (loops.take, [rng.random((batch, steps, states)).astype(np.float32), classes, lengths,
                      rng.random((steps, batch, 5)).astype(np.float32)], 3),
    )  # fmt: skip
    for loop, arrays, changed in cases:
        made = []
        for version in (loop.compile(), loop.numpy):
            mine = [*arrays[:changed], arrays[changed].copy()]
            with np.errstate(all="ignore"):
                version(*mine, 0, batch)
            made.append(mine[changed])
        if loop is loops.walk:  # what is behind a sequence's end nobody reads
            made = [np.stack([np.where(np.arange(steps)[:, None] < n, x, 0) for n, x in zip(lengths, m)]) for m in made]
        assert made[0].tobytes() == made[1].tobytes(), loop.name
        if loop is loops.spread:
            scores[...] = made[0]


def test_the_logarithm() -> None:
    x = np.linspace(1, 3, 4001, dtype=np.float32)
    found = np.array([loops.log_up_to_3(one) for one in x])
    np.testing.assert_allclose(found, np.log(x.astype(np.float64)), rtol=3e-7, atol=3e-7)


def _loss(inputs: np.ndarray, labels: list[list[int]], lengths: list[int], merge: bool) -> tuple[Any, Any]:
    where = np.array([(b, i) for b, row in enumerate(labels) for i in range(len(row))], np.int64).reshape(-1, 2)
    values = np.array([label for row in labels for label in row], np.int32)
    return ctc._loss(np, inputs, where, values, np.array(lengths, np.int32), ctc_merge_repeated=merge)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_as_in_double_precision(merge: bool, spread: float) -> None:
    """Which numpy sums."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 5, 6)) * spread
    labels = [[1, 1, 2], [0], [3, 4, 0, 4], [2, 2], [1]]
    for lengths in (
        [12, 7, 9, 4, 3],
        [12, 7, 9, 2, 1],
    ):  # equal labels need a blank between
        loss, gradient = _loss(x.astype(np.float32), labels, lengths, merge)
        exact, slope = _loss(x, labels, lengths, merge)
        assert np.isinf(loss).tolist() == np.isinf(exact).tolist() == [False] * 3 + [merge and lengths[3] == 2, False]
        np.testing.assert_allclose(loss, exact, rtol=2e-5)
        np.testing.assert_allclose(gradient, slope, atol=2e-4)
    assert ctc_sums.takes(x.astype(np.float32)) and not ctc_sums.takes(x)


def test_by_all_alignments() -> None:
    x = np.random.default_rng(1).standard_normal((4, 1, 3)).astype(np.float32)
    p = np.exp(ctc.log_softmax(np, x.astype(np.float64)))[:, 0]
    wanted = 0.0
    for path in itertools.product(range(3), repeat=4):
        read = [label for label, _ in itertools.groupby(path) if label != 2]
        if read == [0, 1]:
            wanted += np.prod([p[t, label] for t, label in enumerate(path)])
    loss, _ = _loss(x, [[0, 1]], [4], True)
    np.testing.assert_allclose(loss, [-np.log(wanted)], rtol=1e-5)


def test_no_number_gives_none() -> None:
    x = np.zeros((3, 2, 3), np.float32)
    x[1, 0, 1] = np.nan
    loss, gradient = _loss(x, [[0], [1]], [3, 3], True)
    assert np.isnan(loss[0]) and np.isfinite(loss[1]) and np.isfinite(gradient[:, 1]).all()


def test_inputs_in_any_layout() -> None:
    """Models transpose batches to [time, batch, classes], which is a view."""
    for loop in (loops.spread, loops.walk, loops.take):
        loop.compile()
    x = np.random.default_rng(2).standard_normal((2, 6, 4)).astype(np.float32)
    labels, lengths = [[1, 2], [0]], [6, 4]
    wanted = _loss(np.ascontiguousarray(x.transpose(1, 0, 2)), labels, lengths, True)
    for view in (x.transpose(1, 0, 2), np.asfortranarray(x.transpose(1, 0, 2))):
        for found, exact in zip(_loss(view, labels, lengths, True), wanted):
            np.testing.assert_array_equal(found, exact)
