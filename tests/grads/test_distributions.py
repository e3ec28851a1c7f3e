"""Gradients of densities, of their sums and of divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

tfd = tf.distributions
RNG = np.random.default_rng(12)


def _normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 3, shape)


SMOOTH = [
    ("normal", lambda m, s, x: tfd.Normal(m, s).log_prob(x), (_normal(3, 1), _positive(4), _normal(3, 4))),
    ("normal cdf", lambda m, s, x: tfd.Normal(m, s).log_cdf(x), (_normal(3), _positive(3), _normal(3) * 3)),
    ("laplace", lambda m, s, x: tfd.Laplace(m, s).log_prob(x), (_normal(3), _positive(3), _normal(3))),
    ("laplace cdf", lambda m, s, x: tfd.Laplace(m, s).cdf(x), (_normal(3), _positive(3), _normal(3))),
    ("laplace log cdf", lambda m, s, x: tfd.Laplace(m, s).log_cdf(x), (_normal(3), _positive(3), _normal(3))),
    (
        "laplace above",
        lambda m, s, x: tfd.Laplace(m, s).log_survival_function(x),
        (_normal(3), _positive(3), _normal(3)),
    ),
    ("student", lambda n, s, x: tfd.StudentT(n, n, s).log_prob(x), (_positive(3), _positive(3), _normal(3))),
    ("gamma", lambda a, b, x: tfd.Gamma(a, b).log_prob(x), (_positive(3), _positive(3), _positive(3))),
    ("beta", lambda a, b, x: tfd.Beta(a, b).log_prob(x), (_positive(3), _positive(3), RNG.uniform(0.1, 0.9, 3))),
    ("dirichlet", lambda a: tfd.Dirichlet(a).entropy(), (_positive(3, 4),)),
    ("bernoulli", lambda z: tfd.Bernoulli(logits=z).log_prob([1, 0, 1]), (_normal(3),)),
    ("categorical", lambda z: tfd.Categorical(logits=z).log_prob([1, 0, 2]), (_normal(3, 3),)),
    ("kl normal", lambda a, b: tfd.kl_divergence(tfd.Normal(a, b), tfd.Normal(b, a)), (_positive(3), _positive(3))),
    ("kl gamma", lambda a, b: tfd.kl_divergence(tfd.Gamma(a, b), tfd.Gamma(b, a)), (_positive(3), _positive(3))),
    ("kl dirichlet", lambda a, b: tfd.kl_divergence(tfd.Dirichlet(a), tfd.Dirichlet(b)), (_positive(3), _positive(3))),
]


@pytest.mark.parametrize("name, build, values", SMOOTH, ids=[c[0] for c in SMOOTH])
def test_gradient(check_gradient: Any, name: str, build: Any, values: Any) -> None:
    check_gradient(build, *values)
