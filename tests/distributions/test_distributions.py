"""Distributions: samples against their own statistics, densities that integrate to 1, gradients, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.wire.errors import InvalidArgumentError

tfd = tf.distributions
D = np.float64

SAMPLED = {
    "normal": lambda: tfd.Normal([0.0, 2.0], [1.0, 0.5]),
    "laplace": lambda: tfd.Laplace([0.0, 2.0], 0.5),
    "uniform": lambda: tfd.Uniform([0.0, -1.0], [1.0, 3.0]),
    "student": lambda: tfd.StudentT(9.0, [0.0, 1.0], 2.0),
    "gamma": lambda: tfd.Gamma([0.5, 3.0], 2.0),
    "exponential": lambda: tfd.Exponential([0.5, 3.0]),
    "beta": lambda: tfd.Beta([0.5, 3.0], 2.0),
    "dirichlet": lambda: tfd.Dirichlet([[1.0, 2.0, 0.5], [3.0, 3.0, 3.0]]),
    "bernoulli": lambda: tfd.Bernoulli(probs=[0.2, 0.9]),
    "multinomial": lambda: tfd.Multinomial([4.0, 7.0], probs=[[0.2, 0.8], [0.5, 0.5]]),
    "dirichlet-multinomial": lambda: tfd.DirichletMultinomial(5.0, [2.0, 1.0, 3.0]),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_have_the_mean_and_the_variance(graph: Any, name: str) -> None:
    tf.set_random_seed(4)
    d = SAMPLED[name]()
    count = 2_000 if "multinomial" in name else 20_000
    drawn = d.sample(count, seed=2)
    assert drawn.shape.as_list() == [count, *d.batch_shape.as_list(), *d.event_shape.as_list()]
    with tf.Session() as session:
        values, mean, variance = session.run([drawn, d.mean(), d.variance()])
    error = np.sqrt(variance / count)
    assert (np.abs(values.mean(0) - mean) < 5 * error + 1e-6).all()
    np.testing.assert_allclose(values.var(0), variance, rtol=0.25)


def test_classes_come_as_often_as_they_should(graph: Any) -> None:
    probs = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32)
    drawn = tfd.Categorical(probs=probs).sample([100, 50], seed=3)
    assert drawn.shape.as_list() == [100, 50, 2] and drawn.dtype == tf.int32
    with tf.Session() as session:
        values = session.run(drawn).reshape(-1, 2)
    found = np.stack([np.bincount(v, minlength=3) for v in values.T]) / len(values)
    np.testing.assert_allclose(found, probs, atol=0.03)


GRID = np.linspace(1e-4, 1 - 1e-4, 20_001)
DENSITIES = {
    "normal": (lambda: tfd.Normal(D(0.3), D(0.05)), GRID),
    "laplace": (lambda: tfd.Laplace(D(0.5), D(0.03)), GRID),
    "student": (lambda: tfd.StudentT(D(5), D(0.5), D(0.01)), GRID),
    "gamma": (lambda: tfd.Gamma(D(2), D(1)), GRID * 30),
    "beta": (lambda: tfd.Beta(D(2), D(3)), GRID),
    "uniform": (lambda: tfd.Uniform(D(0.2), D(0.7)), GRID),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_are_the_slopes_of_their_sums(graph: Any, name: str) -> None:
    build, x = DENSITIES[name]
    d = build()
    with tf.Session() as session:
        density, below = session.run([d.prob(x), d.cdf(x)])
    sums = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))])
    np.testing.assert_allclose(sums + below[0], below, atol=1e-3)
    assert abs(sums[-1] - 1) < 2e-3


def test_samples_move_with_their_parameters(graph: Any) -> None:
    """d/d loc of the mean of x is 1; d/d scale of the mean of (x - loc)^2 is 2 scale."""
    loc, scale = tf.constant(0.5), tf.constant(2.0)
    drawn = tfd.Normal(loc, scale).sample(10_000, seed=1)
    by_loc, by_scale = tf.gradients(tf.reduce_mean(drawn), loc) + tf.gradients(
        tf.reduce_mean(tf.square(drawn - tf.stop_gradient(loc))), scale
    )
    with tf.Session() as session:
        np.testing.assert_allclose(session.run([by_loc, by_scale]), [1, 4], rtol=0.05)
    assert tfd.Normal(0.0, 1.0).reparameterization_type is tfd.FULLY_REPARAMETERIZED
    assert tf.gradients(tfd.Bernoulli(logits=loc, dtype=tf.float32).sample(), loc) == [None]


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="not both"):
        tfd.Bernoulli(logits=0.0, probs=0.5)
    with pytest.raises(NotImplementedError, match="cdf is not implemented: Dirichlet"):
        tfd.Dirichlet([1.0, 2.0]).cdf([0.5, 0.5])
    with pytest.raises(NotImplementedError, match="Normal and distribution_b type Gamma"):
        tfd.kl_divergence(tfd.Normal(0.0, 1.0), tfd.Gamma(1.0, 1.0))
    with pytest.raises(TypeError, match="float"):
        tfd.Normal(0, 1)
    with pytest.raises(ValueError, match="already"):
        tfd.RegisterKL(tfd.Normal, tfd.Normal)(lambda a, b, name=None: a)
    checked = tfd.Normal(0.0, tf.placeholder("float32", [], "s"), validate_args=True)
    with tf.Session() as session, pytest.raises(InvalidArgumentError):
        session.run(checked.sample(), {"s:0": -1.0})


def test_copies_and_names(graph: Any) -> None:
    d = tfd.Normal(loc=[0.0, 1.0], scale=2.0, name="mine")
    assert d.name == "mine" and d.copy(scale=3.0).parameters["scale"] == 3.0
    assert "batch_shape=(2,)" in repr(d)
    with tf.Session() as session:
        assert session.run(d.batch_shape_tensor()).tolist() == [2]
        np.testing.assert_allclose(session.run(d.copy(scale=3.0).stddev()), [3, 3])
