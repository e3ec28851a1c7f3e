"""Distributions of positive numbers, of fractions, and of shares that add up to 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.distributions.base import FULLY_REPARAMETERIZED, Distribution, defined, parameter, spread
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.random_seed import salted
from sparkflow.ops import array, array_join, linalg_parts, math, math_reduce, operators  # noqa: F401 - x + y
from sparkflow.ops.math_special import betainc, digamma, igamma, lbeta, lgamma, xlogy
from sparkflow.ops.random import random_uniform
from sparkflow.ops.random_more import random_gamma


def _like(*values: Any) -> Any:
    return next((v for v in values if isinstance(v, Tensor)), None)


class Gamma(Distribution):
    """x^(concentration - 1) exp(-rate x) rate^concentration / gamma(concentration), for x > 0."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Gamma",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            like = _like(concentration, rate)
            self._concentration = parameter(concentration, "concentration", positive=validate_args, like=like)
            self._rate = parameter(rate, "rate", positive=validate_args, like=self._concentration)
        super().__init__(
            self._rate.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1]
        )

    @property
    def concentration(self) -> Tensor:
        return self._concentration

    @property
    def rate(self) -> Tensor:
        return self._rate

    def _parts(self) -> list[Tensor]:
        return [self._concentration, self._rate]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return random_gamma(array.reshape(n, [1]), self._concentration, self._rate, self.dtype, seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        log_norm = lgamma(self._concentration) - self._concentration * math.log(self._rate)
        return xlogy(self._concentration - 1.0, x) - self._rate * x - log_norm

    def _cdf(self, x: Tensor) -> Tensor:
        concentration, scaled = self._concentration + array.zeros_like(self._rate), self._rate * x
        return igamma(concentration + array.zeros_like(scaled), scaled + array.zeros_like(concentration))

    def _entropy(self) -> Tensor:
        a = self._concentration
        return a - math.log(self._rate) + lgamma(a) + (1.0 - a) * digamma(a)

    def _mean(self) -> Tensor:
        return self._concentration / self._rate

    def _variance(self) -> Tensor:
        return self._concentration / math.square(self._rate)

    def _stddev(self) -> Tensor:
        return math.sqrt(self._concentration) / self._rate

    def _mode(self) -> Tensor:
        found = (self._concentration - 1.0) / self._rate
        return defined(self, spread(self, self._concentration) > 1.0, found, "mode not defined for concentration <= 1")


class Exponential(Gamma):
    """rate exp(-rate x), for x > 0."""

    def __init__(self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"):
        own = dict(locals())
        rate = parameter(rate, "rate")
        super().__init__(array.ones_like(rate), rate, validate_args, allow_nan_stats, name)
        self._parameters = {k: v for k, v in own.items() if k not in ("self", "__class__")}

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        """By the inverse of the distribution function, of uniform values above 0."""
        shape = array_join.concat([array.reshape(n, [1]), self._whole_tensor()], 0)
        least = float(np.finfo(self.dtype.np).tiny)
        return -math.log(random_uniform(shape, least, 1.0, self.dtype, seed)) / self._rate


class Beta(Distribution):
    """x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / B(concentration1, concentration0), for 0 < x < 1."""

    def __init__(
        self, concentration1: Any = None, concentration0: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Beta",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            like = _like(concentration1, concentration0)
            self._one = parameter(concentration1, "concentration1", positive=validate_args, like=like)
            self._zero = parameter(concentration0, "concentration0", positive=validate_args, like=self._one)
        super().__init__(
            self._one.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1]
        )

    @property
    def concentration1(self) -> Tensor:
        return self._one

    @property
    def concentration0(self) -> Tensor:
        return self._zero

    @property
    def total_concentration(self) -> Tensor:
        return self._one + self._zero

    def _parts(self) -> list[Tensor]:
        return [self._one, self._zero]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        """A gamma value over the sum of two."""
        one, zero = (
            random_gamma(array.reshape(n, [1]), spread(self, t), None, self.dtype, salted(seed, "beta") if i else seed)
            for i, t in enumerate((self._one, self._zero))
        )
        return one / (one + zero)

    def _log_beta(self) -> Tensor:
        return lgamma(self._one) + lgamma(self._zero) - lgamma(self.total_concentration)

    def _log_prob(self, x: Tensor) -> Tensor:
        return xlogy(self._one - 1.0, x) + (self._zero - 1.0) * math.log1p(-x) - self._log_beta()

    def _cdf(self, x: Tensor) -> Tensor:
        whole = array.zeros_like(x + self._one + self._zero)
        return betainc(self._one + whole, self._zero + whole, x + whole)

    def _entropy(self) -> Tensor:
        total = self.total_concentration
        return (
            self._log_beta() - (self._one - 1.0) * digamma(self._one) - (self._zero - 1.0) * digamma(self._zero)
            + (total - 2.0) * digamma(total)
        )  # fmt: skip

    def _mean(self) -> Tensor:
        return self._one / self.total_concentration

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration)

    def _mode(self) -> Tensor:
        found = (self._one - 1.0) / (self.total_concentration - 2.0)
        both = math.logical_and(self._one > 1.0, self._zero > 1.0)
        return defined(self, both, found, "mode undefined for concentration1 <= 1 or concentration0 <= 1")


class Dirichlet(Distribution):
    """prod x_i^(concentration_i - 1) / B(concentration), for shares x [..., k] of 1."""

    _event_rank = 1

    def __init__(
        self, concentration: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Dirichlet"
    ):
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._concentration = parameter(concentration, "concentration", positive=validate_args)
            self._total = math_reduce.reduce_sum(self._concentration, -1)
        super().__init__(
            self._concentration.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own,
            name=scope[:-1],
        )  # fmt: skip

    @property
    def concentration(self) -> Tensor:
        return self._concentration

    @property
    def total_concentration(self) -> Tensor:
        return self._total

    def _parts(self) -> list[Tensor]:
        return [self._concentration]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        drawn = random_gamma(array.reshape(n, [1]), self._concentration, None, self.dtype, seed)
        return drawn / math_reduce.reduce_sum(drawn, -1, True)

    def _log_prob(self, x: Tensor) -> Tensor:
        return math_reduce.reduce_sum(xlogy(self._concentration - 1.0, x), -1) - lbeta(self._concentration)

    def _count(self) -> Tensor:
        return math.cast(array.shape(self._concentration)[-1], self.dtype)

    def _entropy(self) -> Tensor:
        turn = math_reduce.reduce_sum((self._concentration - 1.0) * digamma(self._concentration), -1)
        return lbeta(self._concentration) + (self._total - self._count()) * digamma(self._total) - turn

    def _mean(self) -> Tensor:
        return self._concentration / array.expand_dims(self._total, -1)

    def _variance(self) -> Tensor:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + array.expand_dims(self._total, -1))

    def _covariance(self) -> Tensor:
        mean = self._mean()
        scaled = mean / (1.0 + array.expand_dims(self._total, -1))
        outer = -math.matmul(array.expand_dims(scaled, -1), array.expand_dims(mean, -2))
        return linalg_parts.matrix_set_diag(outer, self._variance())

    def _mode(self) -> Tensor:
        found = (self._concentration - 1.0) / (array.expand_dims(self._total, -1) - self._count())
        return defined(self, self._concentration > 1.0, found, "mode undefined for concentration <= 1")
