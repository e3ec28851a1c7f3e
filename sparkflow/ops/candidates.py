"""Training with few of many classes: candidate samplers, noise contrastive estimation, sampled softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.random_seed import get_seed
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, math, math_reduce, nn_loss, rules, sparse
from sparkflow.ops.embedding import embedding_lookup
from sparkflow_runtime.wire import dtypes

_SIGNATURE = (
    "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float32, sampled_expected_count: float32"
)


def _sampled_rule(op: Operation) -> list[Dims]:
    rows, _ = rules.require_matrix(op, "true_classes", op.inputs[0])
    n = op.attrs["num_sampled"]
    return [(n,), (rows, op.attrs["num_true"]), (n,)]


for _kind in ("LogUniform", "Uniform", "LearnedUnigram"):
    op(f"{_kind}CandidateSampler", _SIGNATURE, _sampled_rule, stateful=True, seed=0, seed2=0)
op("AllCandidateSampler", _SIGNATURE, _sampled_rule, stateful=True, seed=0, seed2=0)
op(
    "FixedUnigramCandidateSampler",
    _SIGNATURE,
    _sampled_rule,
    stateful=True,
    vocab_file="",
    distortion=1.0,
    num_reserved_ids=0,
    num_shards=1,
    shard=0,
    unigrams=[],
    seed=0,
    seed2=0,
)
op(
    "ComputeAccidentalHits",
    "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, weights: float32",
    lambda op: [(None,), (None,), (None,)],
    seed=0,
    seed2=0,
)


class Sampled(NamedTuple):
    """Classes drawn [n], and how often the true ones [batch, num_true] and these were to be expected."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


def _sampler(kind: str, doc: str) -> Callable[..., Sampled]:
    def build(
        true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
        name: str | None = None,
    ) -> Sampled:  # fmt: skip
        return _drawn(f"{kind}CandidateSampler", true_classes, num_true, num_sampled, unique, seed, name,
                      range_max=range_max)  # fmt: skip

    build.__doc__ = doc + " unique: none is drawn twice."
    return build


def _drawn(
    op_type: str, true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None, name: str | None,
    **more: Any,
) -> Sampled:  # fmt: skip
    seed1, seed2 = get_seed(seed)
    attrs = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique, "seed": seed1, "seed2": seed2, **more}
    return Sampled(*apply_op(op_type, [convert_to_tensor(true_classes, dtypes.int64)], attrs, name))


log_uniform_candidate_sampler = _sampler(
    "LogUniform",
    "num_sampled classes of range_max, class c with probability log((c + 2) / (c + 1)) / log(range_max + 1).",
)
uniform_candidate_sampler = _sampler("Uniform", "num_sampled classes of range_max, each equally likely.")
learned_unigram_candidate_sampler = _sampler(
    "LearnedUnigram", "num_sampled classes of range_max, as often as they were seen among the true classes so far."
)


def fixed_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, vocab_file: str = "",
    distortion: float = 1.0, num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0,
    unigrams: Sequence[float] = (), seed: int | None = None, name: str | None = None,
) -> Sampled:  # fmt: skip
    """num_sampled classes, by their counts: `unigrams`, or the last column of the lines of vocab_file; to the power of
    distortion."""
    return _drawn(
        "FixedUnigramCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max,
        vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids, num_shards=num_shards,
        shard=shard, unigrams=[float(u) for u in unigrams],
    )  # fmt: skip


def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Sampled:
    """The classes 0 ... num_sampled - 1, all of them: for testing."""
    return _drawn("AllCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name)


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, positions among the sampled, a weight that makes their logits vanish) where a true class was drawn."""
    seed1, seed2 = get_seed(seed)
    inputs = [convert_to_tensor(t, dtypes.int64) for t in (true_classes, sampled_candidates)]
    attrs = {"num_true": num_true, "seed": seed1, "seed2": seed2}
    return apply_op("ComputeAccidentalHits", inputs, attrs, name)


# ---------------------------------------------------------------------- losses


def _sampled_logits(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int,
    values: Any, subtract_log_q: bool, remove_hits: bool, strategy: str, seed: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(logits, labels) [batch, num_true + n]: the true classes first, each with 1 / num_true."""
    inputs = convert_to_tensor(inputs, name="inputs")
    labels = math.cast(convert_to_tensor(labels), dtypes.int64)
    flat = array.reshape(labels, [-1])
    drawn = values or log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
    sampled, true_count, sampled_count = (apply_op("StopGradient", [t]) for t in drawn)
    every = apply_op("ConcatV2", [[flat, sampled], 0])
    rows = embedding_lookup(weights, every, strategy)
    shift = embedding_lookup(biases, every, strategy)
    count = array.shape(flat)[0]
    true_w, sampled_w = rows[:count], rows[count:]
    true_b, sampled_b = shift[:count], shift[count:]
    width = array.shape(true_w)[1]
    per_true = math.multiply(array.expand_dims(inputs, 1), array.reshape(true_w, [-1, num_true, width]))
    true_logits = math_reduce.reduce_sum(per_true, 2)
    true_logits = math.add(true_logits, array.reshape(true_b, [-1, num_true]))
    sampled_logits = math.add(math.matmul(inputs, sampled_w, transpose_b=True), sampled_b)
    if remove_hits:
        sampled_logits = _without_hits(sampled_logits, labels, sampled, num_true)
    if subtract_log_q:
        true_logits = math.subtract(true_logits, math.log(math.cast(true_count, true_logits.dtype)))
        sampled_logits = math.subtract(sampled_logits, math.log(math.cast(sampled_count, sampled_logits.dtype)))
    logits = apply_op("ConcatV2", [[true_logits, sampled_logits], 1])
    share = math.truediv(array.ones_like(true_logits), float(num_true))
    return logits, apply_op("ConcatV2", [[share, array.zeros_like(sampled_logits)], 1])


def _without_hits(logits: Tensor, labels: Tensor, sampled: Tensor, num_true: int) -> Tensor:
    rows, ids, weights = compute_accidental_hits(labels, sampled, num_true)
    at = apply_op("Pack", [[math.cast(rows, dtypes.int32), math.cast(ids, dtypes.int32)]], {"axis": 1})
    hits = sparse.sparse_to_dense(
        at, array.shape(logits), math.cast(weights, logits.dtype), 0.0, validate_indices=False
    )
    return math.add(logits, hits)


def nce_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = False, partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:  # fmt: skip
    """[batch]: the logistic losses of telling the true classes from num_sampled noise ones (Gutmann, Hyvarinen 2010).

    weights [num_classes, dim] and biases [num_classes], or lists of shards; labels [batch, num_true]; inputs
    [batch, dim].
    """
    with get_default_graph().name_scope(name):
        logits, truth = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
            remove_accidental_hits, partition_strategy, None,
        )  # fmt: skip
        losses = nn_loss.sigmoid_cross_entropy_with_logits(labels=truth, logits=logits)
        return math_reduce.reduce_sum(losses, -1)


def sampled_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = True, partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss", seed: int | None = None,
) -> Tensor:  # fmt: skip
    """[batch]: the softmax cross entropy over the true classes and num_sampled drawn ones (Jean et al. 2014). For
    training alone; arguments as of nce_loss."""
    with get_default_graph().name_scope(name):
        logits, truth = _sampled_logits(
            weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values, True,
            remove_accidental_hits, partition_strategy, seed,
        )  # fmt: skip
        truth = apply_op("StopGradient", [truth])
        return nn_loss.softmax_cross_entropy_with_logits_v2(labels=truth, logits=logits)


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(c) - z c for log_input c and targets z; the full loss adds Stirling's z log z - z + log(2 pi z) / 2."""
    with get_default_graph().name_scope(name or "log_poisson_loss"):
        c = convert_to_tensor(log_input, name="log_input")
        z = convert_to_tensor(targets, c.dtype.base_dtype, "targets")
        z.shape.assert_is_compatible_with(c.shape)
        loss = math.subtract(math.exp(c), math.multiply(c, z))
        if not compute_full_loss:
            return loss
        one = array.ones_like(z)
        large = math.greater(z, one)
        safe = apply_op("Select", [large, z, one])
        stirling = math.add(
            math.subtract(math.multiply(safe, math.log(safe)), safe),
            math.multiply(0.5, math.log(math.multiply(6.283185307179586, safe))),
        )
        return math.add(loss, apply_op("Select", [large, stirling, array.zeros_like(z)]))


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of values that are 0."""
    with get_default_graph().name_scope(name or "zero_fraction"):
        value = convert_to_tensor(value, name="value")
        zero = math.cast(math.equal(value, array.zeros_like(value)), dtypes.float32)
        return math_reduce.reduce_mean(zero)
