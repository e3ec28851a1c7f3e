"""Fused batch normalisation, local response normalisation and their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph
from sparkflow.ops import array, nn_norm
from sparkflow_runtime.wire.errors import InvalidArgumentError

RNG = np.random.default_rng(5)
X, SCALE, OFFSET = RNG.normal(2, 3, (4, 3, 5, 2)), np.array([1.5, -2.0]), np.array([0.5, 1.0])
MEAN, VARIANCE = np.array([1.0, 2.0]), np.array([4.0, 9.0])


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 5e-3), (np.float32, 1e-5)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_training(evaluate: Any, dtype: Any, tolerance: float, data_format: str) -> None:
    x = X.astype(dtype)
    given = np.moveaxis(x, 3, 1).copy() if data_format == "NCHW" else x

    def build(a: Any, s: Any, o: Any) -> Any:
        return nn_norm.fused_batch_norm(a, s, o, epsilon=0.01, data_format=data_format)

    y, mean, variance = evaluate(build, given, SCALE.astype("f4"), OFFSET.astype("f4"))
    y = np.moveaxis(y, 1, 3) if data_format == "NCHW" else y
    rows = x.astype("f8").reshape(-1, 2)
    want = (x.astype("f8") - rows.mean(0)) / np.sqrt(rows.var(0) + 0.01) * SCALE + OFFSET
    assert y.dtype == dtype and mean.dtype == np.float32
    np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-3)
    np.testing.assert_allclose(variance, rows.var(0, ddof=1), rtol=1e-3)


def test_inference_and_running_averages(evaluate: Any) -> None:
    x, s, o, m, v = (a.astype("f4") for a in (X, SCALE, OFFSET, MEAN, VARIANCE))

    def build(training: bool, factor: float) -> Any:
        def make(*args: Any) -> Any:
            return nn_norm.fused_batch_norm(*args, is_training=training, exponential_avg_factor=factor)

        return evaluate(make, x, s, o, m, v)

    y, mean, variance = build(False, 1.0)
    np.testing.assert_allclose(y, (X - MEAN) / np.sqrt(VARIANCE + 0.001) * SCALE + OFFSET, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal([mean, variance], [MEAN, VARIANCE])
    _, mean, variance = build(True, 0.25)
    np.testing.assert_allclose(mean, 0.75 * MEAN + 0.25 * X.reshape(-1, 2).mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance, 0.75 * VARIANCE + 0.25 * X.reshape(-1, 2).var(0, ddof=1), rtol=1e-5)


def test_refusals(graph: Graph) -> None:
    x = array.zeros([4, 3, 5, 2])
    with pytest.raises(ValueError, match="must be a 1D tensor when `is_training` is False"):
        nn_norm.fused_batch_norm(x, [1.0, 1.0], [0.0, 0.0], is_training=False)
    with pytest.raises(InvalidArgumentError, match="not compatible"):
        nn_norm.fused_batch_norm(x, [1.0, 1.0, 1.0], [0.0, 0.0])
    with pytest.raises(InvalidArgumentError, match="rank at least 4"):
        nn_norm.fused_batch_norm(array.zeros([4, 2]), [1.0, 1.0], [0.0, 0.0])


@pytest.mark.parametrize("radius", [1, 2, 9])
def test_local_response(evaluate: Any, radius: int) -> None:
    x = RNG.standard_normal((2, 3, 2, 7))
    got = evaluate(lambda a: nn_norm.lrn(a, radius, 1.5, 0.3, 0.75), x.astype("f4"))
    for c in range(7):
        near = np.square(x[..., max(0, c - radius) : c + radius + 1]).sum(-1)
        np.testing.assert_allclose(got[..., c], x[..., c] / (1.5 + 0.3 * near) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.5, 0.75, 0.9, 1.0])
def test_local_response_of_many_cells_is_that_of_each(evaluate: Any, beta: float) -> None:
    x = RNG.standard_normal((3, 20, 60, 24)).astype("f4")
    whole = evaluate(lambda a: nn_norm.lrn(a, 3, 1.5, 0.3, beta), x)
    parts = [
        evaluate(lambda a: nn_norm.lrn(a, 3, 1.5, 0.3, beta), x[:1, :, first : first + 20]) for first in (0, 20, 40)
    ]
    np.testing.assert_array_equal(whole[:1], np.concatenate(parts, 2))
    near = np.square(x[..., 2:9]).sum(-1, dtype="f8")
    np.testing.assert_allclose(whole[..., 5], x[..., 5] / (1.5 + 0.3 * near) ** beta, rtol=1e-5)


def test_old_batch_norm(evaluate: Any) -> None:
    def build(*args: Any, scaled: bool) -> Any:
        return nn_norm.batch_norm_with_global_normalization(*args, 0.1, scaled)

    plain = (X - MEAN) / np.sqrt(VARIANCE + 0.1)
    args = (X, MEAN, VARIANCE, OFFSET, SCALE)
    np.testing.assert_allclose(evaluate(lambda *a: build(*a, scaled=True), *args), plain * SCALE + OFFSET)
    np.testing.assert_allclose(evaluate(lambda *a: build(*a, scaled=False), *args), plain + OFFSET)


def test_crelu_and_weighted_moments(evaluate: Any) -> None:
    x, w = np.array([[1.0, -2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_array_equal(evaluate(nn_norm.crelu, x), [[1, 0, 0, 2], [3, 4, 0, 0]])
    mean, variance = evaluate(lambda a, b: nn_norm.weighted_moments(a, [0], b), x, w)
    np.testing.assert_allclose(mean, [2.5, -2])
    np.testing.assert_allclose(variance, [0.75, 0])
