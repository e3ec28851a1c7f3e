"""tf.random."""

from types import SimpleNamespace as _SimpleNamespace

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
from sparkflow.ops.random_generator import (
    Algorithm,
    Generator,
    create_rng_state,
    get_global_generator,
    set_global_generator,
)
from sparkflow.ops.random_more import categorical, multinomial
from sparkflow.ops.random_more import random_gamma as gamma
from sparkflow.ops.random_more import random_poisson as poisson
from sparkflow.ops.random_stateless import (
    fold_in,
    stateless_categorical,
    stateless_multinomial,
    stateless_parameterized_truncated_normal,
    stateless_truncated_normal,
)
from sparkflow.ops.random_stateless import stateless_random_binomial as stateless_binomial
from sparkflow.ops.random_stateless import stateless_random_gamma as stateless_gamma
from sparkflow.ops.random_stateless import stateless_random_normal as stateless_normal
from sparkflow.ops.random_stateless import stateless_random_poisson as stateless_poisson
from sparkflow.ops.random_stateless import stateless_random_uniform as stateless_uniform
from sparkflow.ops.random_stateless import stateless_shuffle as _stateless_shuffle
from sparkflow.ops.random_stateless import stateless_split as split

experimental = _SimpleNamespace(
    Algorithm=Algorithm,
    Generator=Generator,
    create_rng_state=create_rng_state,
    get_global_generator=get_global_generator,
    set_global_generator=set_global_generator,
    stateless_fold_in=fold_in,
    stateless_shuffle=_stateless_shuffle,
    stateless_split=split,
)
