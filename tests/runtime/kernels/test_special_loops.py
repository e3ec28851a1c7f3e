"""The loops of error, gamma and beta functions: both versions have the same bits, whatever lies beside a value; and the
values are those of the C library, or of identities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import special, special_loops

LOOPS = {
    "erf_parts": (2, 1, (0,)),
    "erfc_parts": (2, 1, (0,)),
    "lgamma_parts": (1, 3, (0, 1, 2)),
    "digamma_parts": (1, 2, (0, 1)),
    "gamma_series": (2, 2, (1,)),
    "gamma_fraction": (2, 6, (4,)),
    "beta_fraction": (3, 6, (4,)),
}


def _inputs(name: str, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    if name.startswith("erf"):
        x = np.concatenate([rng.normal(0, 3, count), [0.0, -0.0, 0.46875, 4.0, -4.0, 30.0, np.inf, -np.inf, np.nan]])
        return [x, np.exp(-np.minimum(x * x, 700.0))]
    x = np.concatenate([rng.uniform(0, 3, count - 9), rng.uniform(0, 40, 6), [1.0, 2.0, 1e6]])
    if name.endswith("_parts"):
        return [np.concatenate([x, [0.0, 5e-324, np.inf, np.nan]])]
    a = rng.uniform(0.05, 5, count)
    if name == "beta_fraction":
        b = rng.uniform(0.05, 90, count)
        return [a, b, rng.uniform(0, 1, count) * (a + 1) / (a + b + 2)]
    return [a, rng.uniform(0.01, 1, count) * (a + 1) + (a + 1 if name == "gamma_fraction" else 0)]


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("epsilon", [2.0**-53, 2.0**-36])
def test_both_versions_have_the_same_bits(name: str, epsilon: float) -> None:
    loop, (count, room, at) = getattr(special_loops, name), LOOPS[name]
    arrays = _inputs(name, 700)
    numbers = [] if name.endswith("_parts") else [np.array([epsilon])]
    assert len(arrays) == count
    made = []
    for version in (loop.compile(), loop.numpy):
        outputs = np.full((room, len(arrays[0])), 3.0)
        version(*arrays, *numbers, *outputs, 5, len(arrays[0]) - 2)
        made.append(outputs[list(at)])
        assert (made[-1][:, :5] == 3).all() and (made[-1][:, -2:] == 3).all()
    alone = np.empty((room, 1))
    loop.numpy(*(x[9:10].copy() for x in arrays), *numbers, *alone, 0, 1)
    assert made[0].tobytes() == made[1].tobytes() and made[0][:, 9].tobytes() == alone[list(at), 0].tobytes()


def test_lgamma_keeps_its_digits_beside_its_roots() -> None:
    x = np.concatenate([np.linspace(0.01, 30, 999), 1 + 2.0 ** -np.arange(3, 50), 2 - 2.0 ** -np.arange(3, 50)])
    with np.errstate(all="ignore"):
        found = special.lgamma(np, x)
        ends = special.lgamma(np, np.array([0.0, -1.0, -2.0, np.inf, -np.inf, 1.0, 2.0]))
        below = special.lgamma(np, np.array([-0.5, -1.5, -7.25]))
    wanted = np.array([math.lgamma(v) for v in x])
    near = (np.abs(x - 1) < 1e-3) | (np.abs(x - 2) < 1e-3)
    np.testing.assert_allclose(found[~near], wanted[~near], rtol=1e-12)
    one, two = x - 1, x - 2  # where the C library's has lost its digits: by series
    gamma = np.euler_gamma
    np.testing.assert_allclose(
        found[near],
        np.where(
            np.abs(one) < 0.1,
            -gamma * one + math.pi**2 / 12 * one**2 - 0.40068563438653 * one**3,
            (1 - gamma) * two + (math.pi**2 / 6 - 1) / 2 * two**2 - 0.06735230105319 * two**3,
        )[near],
        rtol=1e-8,
    )
    assert ends.tolist() == [math.inf] * 5 + [0.0, 0.0]
    np.testing.assert_allclose(below, [math.lgamma(v) for v in (-0.5, -1.5, -7.25)], rtol=1e-12)


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_incomplete_integrals_of_whole_orders(dtype: Any, rtol: float) -> None:
    """More of them than one block, in any shape: P(n, x) and I_x(a, n) are sums of n terms."""
    x = np.random.default_rng(3).uniform(0.01, 9, (2, 70_000)).astype(dtype)
    u = (x / 10).astype(dtype)
    wide, n = x.astype(np.float64), 4
    tail = np.exp(-wide) * sum(wide**k / math.factorial(k) for k in range(n))
    v = u.astype(np.float64)
    beta = v**2 * sum((1 - v) ** k * (k + 1) for k in range(n))
    with tf.Graph().as_default(), tf.Session() as session:
        order = tf.constant(n, dtype)
        p, q, i = session.run([tf.igamma(order, x), tf.igammac(order, x), tf.betainc(dtype(2), order, u)])
    np.testing.assert_allclose(q, tail, rtol=rtol)
    np.testing.assert_allclose(p, 1 - tail, rtol=rtol, atol=rtol * 1e-2)
    np.testing.assert_allclose(i, beta, rtol=rtol)


@pytest.mark.parametrize(("function", "exact"), [(special.erf, math.erf), (special.erfc, math.erfc)])
def test_error_functions(function: Any, exact: Any) -> None:
    """Within a few units of the last digit, the tail of erfc too."""
    edges = [0.0, -0.0, 0.46875, np.nextafter(0.46875, 1), 4.0, np.nextafter(4.0, 5), 5.93, 26.5, 28.0, 1e300, np.inf]
    x = np.concatenate([np.linspace(-27, 27, 20001), edges, np.negative(edges), [5e-324, 1e-300, 1e-9]])
    with np.errstate(all="ignore"):
        found = function(np, x)
    wanted = np.array([exact(v) for v in x.tolist()])
    normal = np.abs(wanted) > 1e-300
    np.testing.assert_allclose(found[normal], wanted[normal], rtol=2e-15)
    np.testing.assert_allclose(found[~normal], wanted[~normal], rtol=0, atol=1e-300)
    with np.errstate(all="ignore"):
        assert np.isnan(function(np, np.array([np.nan]))).all()
