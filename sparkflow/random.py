"""tf.random."""

from sparkflow.framework.random_seed import get_seed, set_random_seed
from sparkflow.ops.random import random_normal as normal
from sparkflow.ops.random import random_shuffle as shuffle
from sparkflow.ops.random import random_uniform as uniform
from sparkflow.ops.random import truncated_normal
