"""tf.contrib.distributions: tf.distributions under its older home."""

from sparkflow.contrib.distributions.vectors import MultivariateNormalDiag, OneHotCategorical
from sparkflow.distributions import *
