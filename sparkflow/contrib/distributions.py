"""tf.contrib.distributions: tf.distributions under its older home."""

from sparkflow.distributions import *
