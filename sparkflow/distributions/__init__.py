"""tf.distributions: random variables with densities, samples that gradients go through, and divergences."""

from sparkflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from sparkflow.distributions.classes import Bernoulli, Categorical
from sparkflow.distributions.counts import DirichletMultinomial, Multinomial
from sparkflow.distributions.divergence import RegisterKL, kl_divergence
from sparkflow.distributions.lines import Laplace, Normal, StudentT, Uniform
from sparkflow.distributions.positive import Beta, Dirichlet, Exponential, Gamma
