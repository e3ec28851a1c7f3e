"""The distributions of tf.contrib: densities and moments against scipy's, samples against their own moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import sparkflow as tf

tfd = tf.contrib.distributions
AT = np.array([0.0, 1.0, 2.0, 5.0])
CASES = {
    "poisson": (lambda: tfd.Poisson(np.float64(1.7)), stats.poisson(1.7), AT),
    "poisson of logs": (lambda: tfd.Poisson(log_rate=np.log(1.7)), stats.poisson(1.7), AT),
    "binomial": (lambda: tfd.Binomial(5.0, probs=np.float64(0.3)), stats.binom(5, 0.3), AT),
    "chi2": (lambda: tfd.Chi2(np.float64(5.0)), stats.chi2(5), AT[1:]),
    "inverse gamma": (lambda: tfd.InverseGamma(np.float64(5.0), np.float64(2.0)), stats.invgamma(5, scale=2), AT[1:]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_scipy(graph: Any, name: str) -> None:
    make, theirs, x = CASES[name]
    d = make()
    density = theirs.logpmf if hasattr(theirs.dist, "logpmf") else theirs.logpdf
    with tf.Session() as session:
        found = session.run([d.log_prob(x), d.cdf(x), d.mean(), d.variance()])
    for ours, wanted in zip(found, [density(x), theirs.cdf(x), *theirs.stats("mv")], strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", ["poisson", "chi2", "inverse gamma"])
def test_samples(graph: Any, name: str) -> None:
    tf.set_random_seed(3)
    make, theirs, _ = CASES[name]
    drawn = make().sample([100, 200], seed=1)
    assert drawn.shape.as_list() == [100, 200]
    with tf.Session() as session:
        values = session.run(drawn)
    assert abs(values.mean() - theirs.mean()) < 5 * theirs.std() / np.sqrt(values.size)


def test_modes_and_refusals(graph: Any) -> None:
    steps = tfd.Poisson([1.5, 2.5], interpolate_nondiscrete=False)
    with tf.Session() as session:
        assert session.run(steps.log_prob([1.5, -1.0])).tolist() == [-np.inf, -np.inf]
        assert session.run([steps.mode(), steps.cdf([-0.5, -1.0])])[1].tolist() == [0, 0]
        assert session.run(tfd.Binomial([5.0, 3.0], probs=0.5).mode()).tolist() == [3, 2]
        np.testing.assert_allclose(session.run(tfd.InverseGamma([0.5, 3.0], 2.0).mean()), [np.nan, 1])
        np.testing.assert_allclose(
            session.run(tfd.InverseGamma(3.0, 2.0).entropy()), stats.invgamma(3, scale=2).entropy(), 1e-5
        )
    with pytest.raises(ValueError, match="one of rate and log_rate"):
        tfd.Poisson()
    with pytest.raises(NotImplementedError, match="Binomial"):
        tfd.Binomial(3.0, probs=0.5).sample()
    with pytest.raises(ValueError, match="give loc, scale_tril, or both"):
        tfd.MultivariateNormalTriL()


def test_dependent_normals(graph: Any) -> None:
    tf.set_random_seed(1)
    tril = np.array([[1.0, 9.0], [0.5, 2.0]])  # above the diagonal is nothing
    covariance, loc = np.tril(tril) @ np.tril(tril).T, np.array([[1.0, -1.0], [0.0, 3.0]])
    theirs = [stats.multivariate_normal(m, covariance) for m in loc]
    d, same = tfd.MultivariateNormalTriL(loc, tril), tfd.MultivariateNormalFullCovariance(loc, covariance)
    x = np.array([0.3, 0.7])
    standard = tfd.MultivariateNormalTriL(tf.zeros([2], tf.float64))
    assert d.batch_shape.as_list() == [2] and d.event_shape.as_list() == [2]
    with tf.Session() as session:
        for each in (d, same):
            np.testing.assert_allclose(session.run(each.log_prob(x)), [t.logpdf(x) for t in theirs])
            np.testing.assert_allclose(session.run(each.entropy()), [t.entropy() for t in theirs])
            np.testing.assert_allclose(session.run(each.covariance()), covariance)
            np.testing.assert_allclose(session.run(each.variance()), [np.diag(covariance)] * 2)
        np.testing.assert_allclose(session.run(standard.log_prob(x)), stats.norm.logpdf(x).sum())
        values = session.run(d.sample(20_000, seed=5))
        assert values.shape == (20_000, 2, 2) and np.abs(values.mean(0) - loc).max() < 0.1
        np.testing.assert_allclose(np.cov(values[:, 0].T), covariance, atol=0.15)
        given = session.run([d.kl_divergence(standard), d.log_prob(d.sample(5000, seed=2)), d.scale.to_dense()])
        wanted = 0.5 * (np.trace(covariance) + (loc**2).sum(1) - 2 - np.log(np.linalg.det(covariance)))
        np.testing.assert_allclose(given[0], wanted)
        np.testing.assert_allclose(-given[1].mean(0), [t.entropy() for t in theirs], atol=0.1)
        np.testing.assert_allclose(given[2], np.tril(tril))
    assert all(g is not None for g in tf.gradients(d.sample(), [d.loc, d._tril])), "the way back through a sample"
