"""Which classes are drawn has no slope."""

from sparkflow.grads.registry import not_differentiable

not_differentiable(
    *(f"{kind}CandidateSampler" for kind in ("LogUniform", "Uniform", "LearnedUnigram", "FixedUnigram", "All")),
    "ComputeAccidentalHits",
)
