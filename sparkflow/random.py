"""tf.random."""

from sparkflow.framework.random_seed import get_seed, set_random_seed
from sparkflow.ops.candidates import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from sparkflow.ops.random import random_normal as normal
from sparkflow.ops.random import random_shuffle as shuffle
from sparkflow.ops.random import random_uniform as uniform
from sparkflow.ops.random import truncated_normal
from sparkflow.ops.random_more import categorical, multinomial
from sparkflow.ops.random_more import random_gamma as gamma
from sparkflow.ops.random_more import random_poisson as poisson
from sparkflow.ops.random_stateless import stateless_categorical, stateless_multinomial, stateless_truncated_normal
from sparkflow.ops.random_stateless import stateless_random_normal as stateless_normal
from sparkflow.ops.random_stateless import stateless_random_uniform as stateless_uniform
