"""tf.distributions: densities, statistics and divergences, with gradients by values and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import noise, positive
from tests.oracle.compare import Tolerance
from tests.oracle.programs.api import F, expression

_SUMS = Tolerance(2048, scaled=True)
_LOC, _SCALE, _X = noise(F, 3, 1), positive(F, 4), noise(F, 2, 3, 4)
_SHARE = (np.random.default_rng(1).random((3, 4)) * 0.8 + 0.1).astype(F)
_STATS = ("mean", "variance", "stddev", "mode", "entropy")


def _all(d: Any, x: Any, *more: str, stats: Any = _STATS) -> list[Any]:
    """What all densities have, what only some have, and statistics."""
    return [d.log_prob(x), d.prob(x), *(getattr(d, m)(x) for m in more), *(getattr(d, s)() for s in stats)]


_TAILS = ("cdf", "log_cdf", "survival_function", "log_survival_function")
expression(
    "normal", [_LOC, _SCALE, _X], lambda tf, m, s, x: _all(tf.distributions.Normal(m, s), x, *_TAILS), True,
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "normal-tails", [np.array([-30, -12, -8, -3, 0, 4, 7, 12], F)],
    lambda tf, x: [tf.distributions.Normal(0.0, 1.0).log_cdf(x), tf.distributions.Normal(0.0, 2.0).log_cdf(x)], True,
    tolerance=_SUMS,
)  # fmt: skip
# without gradients: TensorFlow's, of the tails, are not the slopes that small steps give
expression(
    "laplace", [_LOC, _SCALE, _X], lambda tf, m, s, x: _all(tf.distributions.Laplace(m, s), x, *_TAILS),
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "uniform", [_LOC, _SCALE, _X],
    lambda tf, m, s, x: _all(tf.distributions.Uniform(m, m + s), x, "cdf", stats=("mean", "variance", "entropy")),
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "student", [positive(F, 3, 1) * 4 + 2, _LOC, _SCALE, _X],
    lambda tf, df, m, s, x: _all(tf.distributions.StudentT(df, m, s), x, stats=("mean", "variance", "entropy", "mode")),
    tolerance=_SUMS,
)  # fmt: skip
expression("student-few", [np.array([0.5, 1.5, 2.0, 3.0], F)], lambda tf, df: [
    tf.distributions.StudentT(df, 0.0, 2.0).mean(), tf.distributions.StudentT(df, 0.0, 2.0).variance(),
    tf.distributions.StudentT(df, 0.0, 2.0).cdf([-1.0, 0.5, 2.0, 0.0]),
])  # fmt: skip
expression(
    "gamma", [positive(F, 3, 1) + 1, _SCALE, np.abs(_X) + 0.1],
    lambda tf, a, b, x: _all(tf.distributions.Gamma(a, b), x, "cdf"), tolerance=_SUMS,
)  # fmt: skip
expression(
    "exponential", [_SCALE, np.abs(_X) + 0.1],
    lambda tf, b, x: _all(tf.distributions.Exponential(b), x, "cdf", stats=("mean", "variance", "entropy")),
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "beta", [positive(F, 3, 4) + 1, positive(F, 3, 4, seed=7) + 1, _SHARE],
    lambda tf, a, b, x: _all(tf.distributions.Beta(a, b), x, "cdf"), tolerance=_SUMS,
)  # fmt: skip
expression(
    "dirichlet", [positive(F, 3, 4) + 1, _SHARE / _SHARE.sum(1, keepdims=True)],
    lambda tf, a, x: [
        *_all(tf.distributions.Dirichlet(a), x, stats=("mean", "variance", "entropy", "covariance")),
    ], True, tolerance=_SUMS,
)  # fmt: skip
expression(
    "bernoulli", [_LOC, (_X > 0).astype(np.int32)],
    lambda tf, logits, x: _all(tf.distributions.Bernoulli(logits=logits), x, stats=("mean", "entropy", "mode")), True,
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "bernoulli-probs", [_SHARE],
    lambda tf, p: _all(tf.distributions.Bernoulli(probs=p), [[1, 0, 1, 1]], stats=("entropy", "mode")), True,
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "categorical", [noise(F, 3, 4), np.array([[0, 1, 3], [2, 2, 0]], np.int32)],
    lambda tf, logits, x: [
        r for logits in [tf.ensure_shape(logits, [None, 4])]
        for r in _all(tf.distributions.Categorical(logits=logits), x, stats=("entropy", "mode"))
    ], True, tolerance=_SUMS,
)  # fmt: skip
_COUNTS = np.array([[1, 2, 0, 2], [5, 0, 0, 0], [1, 1, 1, 2]], F)
expression(
    "multinomial", [noise(F, 3, 4), _COUNTS],
    lambda tf, logits, x: _all(
        tf.distributions.Multinomial(5.0, logits=logits), x, stats=("mean", "variance", "covariance")
    ),
    tolerance=_SUMS,
)  # fmt: skip
expression(
    "dirichlet-multinomial", [positive(F, 3, 4), _COUNTS],
    lambda tf, a, x: _all(
        tf.distributions.DirichletMultinomial(5.0, a), x, stats=("mean", "variance", "covariance")
    ), tolerance=_SUMS,
)  # fmt: skip


def _divergences(tf: Any, a: Any, b: Any) -> list[Any]:
    d = tf.distributions
    pairs = [
        (d.Normal(a, b), d.Normal(b, a)),
        (d.Bernoulli(logits=a), d.Bernoulli(logits=b)),
        (d.Categorical(logits=a), d.Categorical(logits=b)),
        (d.Gamma(a, b), d.Gamma(b, a)),
        (d.Beta(a, b), d.Beta(b, a)),
        (d.Dirichlet(a), d.Dirichlet(b)),
    ]
    return [tf.distributions.kl_divergence(*pair) for pair in pairs] + [pairs[0][0].cross_entropy(pairs[0][1])]


expression("divergences", [positive(F, 3, 4), positive(F, 3, 4, seed=9)], _divergences, True, tolerance=_SUMS)
