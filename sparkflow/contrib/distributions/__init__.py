"""tf.contrib.distributions: tf.distributions under its older home, and those that only this one had."""

from sparkflow.contrib.distributions.positive import Binomial, Chi2, InverseGamma, Poisson
from sparkflow.contrib.distributions.vectors import (
    MultivariateNormalDiag,
    MultivariateNormalFullCovariance,
    MultivariateNormalTriL,
    OneHotCategorical,
)
from sparkflow.distributions import *
