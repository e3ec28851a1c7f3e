"""tf.contrib.stateless: random numbers by a seed alone."""

from sparkflow.ops.random_stateless import (
    stateless_multinomial,
    stateless_random_normal,
    stateless_random_uniform,
    stateless_truncated_normal,
)
