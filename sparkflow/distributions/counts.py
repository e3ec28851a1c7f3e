"""Distributions of counts of k classes among total_count draws."""

from __future__ import annotations

from typing import Any

from sparkflow.distributions.base import NOT_REPARAMETERIZED, Distribution, parameter
from sparkflow.distributions.classes import WithLogits, logits_and_probs
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.random_seed import salted
from sparkflow.ops import array, array_join, array_select, linalg_parts, math, math_reduce, operators  # noqa: F401
from sparkflow.ops.functional import map_fn
from sparkflow.ops.math_special import lbeta, lgamma
from sparkflow.ops.nn import log_softmax
from sparkflow.ops.random_more import multinomial, random_gamma


class _Counts(Distribution):
    """`_weights` has one value for each class along its last axis."""

    _event_rank = 1
    _total: Tensor
    _weights: Tensor

    @property
    def total_count(self) -> Tensor:
        return self._total

    def _parts(self) -> list[Tensor]:
        return [array.expand_dims(self._total, -1), self._weights]

    def _combinations(self, counts: Tensor) -> Tensor:
        """log of total_count! / prod counts!."""
        return lgamma(self._total + 1.0) - math_reduce.reduce_sum(lgamma(counts + 1.0), -1)

    def _drawn(self, logits: Tensor, totals: Tensor, n: Tensor, seed: int | None) -> Tensor:
        """[rows, n, k] counts of draws; logits [rows, k], totals [rows]. Row by row, as TensorFlow draws those of
        one row; of several it begins with any."""
        k = array.shape(logits)[-1]

        def one(row: Any) -> Tensor:
            scores, total = row
            kinds = multinomial(array.expand_dims(scores, 0), n * total, seed)
            return math_reduce.reduce_sum(array_select.one_hot(array.reshape(kinds, [n, -1]), k, dtype=self.dtype), -2)

        return map_fn(one, [logits, math.cast(totals, "int32")], dtype=self.dtype)


class Multinomial(_Counts, WithLogits):
    """total_count! prod probs_i^counts_i / counts_i!."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Multinomial",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args)
            self._total = parameter(total_count, "total_count", like=self._probs)
            self._weights = self._logits
        kind = self._probs.dtype.base_dtype
        super().__init__(kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        whole = self._whole_tensor()
        logits = array.reshape(array.broadcast_to(self._logits, whole), [-1, whole[-1]])
        totals = array.reshape(array.broadcast_to(self._total, whole[:-1]), [-1])
        drawn = array.transpose(self._drawn(logits, totals, n, seed), [1, 0, 2])
        return array.reshape(drawn, array_join.concat([array.reshape(n, [1]), whole], 0))

    def _log_prob(self, counts: Tensor) -> Tensor:
        return self._combinations(counts) + math_reduce.reduce_sum(counts * log_softmax(self._logits), -1)

    def _mean(self) -> Tensor:
        return self._probs * array.expand_dims(self._total, -1)

    def _covariance(self) -> Tensor:
        mean = self._mean() + array.zeros_like(self._probs)
        outer = -math.matmul(array.expand_dims(mean, -1), array.expand_dims(self._probs + array.zeros_like(mean), -2))
        return linalg_parts.matrix_set_diag(outer, self._variance())

    def _variance(self) -> Tensor:
        mean = self._mean()
        return mean - mean * self._probs


class DirichletMultinomial(_Counts):
    """Counts of draws whose probabilities are themselves drawn, by Dirichlet's distribution."""

    def __init__(
        self, total_count: Any, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._weights = parameter(concentration, "concentration", positive=validate_args)
            self._total = parameter(total_count, "total_count", like=self._weights)
            self._sum = math_reduce.reduce_sum(self._weights, -1)
        kind = self._weights.dtype.base_dtype
        super().__init__(kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    @property
    def concentration(self) -> Tensor:
        return self._weights

    @property
    def total_concentration(self) -> Tensor:
        return self._sum

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        whole = array.broadcast_to(self._weights, self._whole_tensor())
        logits = math.log(random_gamma(array.reshape(n, [1]), whole, None, self.dtype, seed))
        outer, k = array.shape(logits), array.shape(logits)[-1]
        logits, own = array.reshape(logits, [-1, k]), salted(seed, "dirichlet_multinomial")
        if self._total.shape.ndims == 0:
            kinds = multinomial(logits, math.cast(self._total, "int32"), own)
            return array.reshape(math_reduce.reduce_sum(array_select.one_hot(kinds, k, dtype=self.dtype), -2), outer)
        totals = array.reshape(array.broadcast_to(self._total, outer[:-1]), [-1])
        return array.reshape(self._drawn(logits, totals, convert_to_tensor(1), own), outer)

    def _log_prob(self, counts: Tensor) -> Tensor:
        return lbeta(self._weights + counts) - lbeta(self._weights) + self._combinations(counts)

    def _mean(self) -> Tensor:
        return array.expand_dims(self._total, -1) * self._shares()

    def _shares(self) -> Tensor:
        return self._weights / array.expand_dims(self._sum, -1)

    def _scale(self) -> Tensor:
        """How much wider than a multinomial distribution it is."""
        sums = array.expand_dims(self._sum, -1)
        return math.sqrt((1.0 + sums) / (array.expand_dims(self._total, -1) + sums))

    def _variance(self) -> Tensor:
        """total_count p (1 - p) (total_count + sum) / (1 + sum)."""
        mean, shares = self._mean(), self._shares()
        return mean * (1.0 - shares) / math.square(self._scale())

    def _covariance(self) -> Tensor:
        scale = self._scale()
        mean = self._mean() / math.square(scale)
        outer = -math.matmul(array.expand_dims(mean, -1), array.expand_dims(self._shares() + 0.0 * mean, -2))
        return linalg_parts.matrix_set_diag(outer, self._variance())
