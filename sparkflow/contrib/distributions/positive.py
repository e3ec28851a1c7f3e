"""Distributions of counts and of positive numbers that only tf.contrib had."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    defined,
    parameter,
    spread,
)
from sparkflow.distributions.classes import WithLogits, logits_and_probs
from sparkflow.distributions.positive import Gamma
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_select, math, operators
from sparkflow.ops.math_special import betainc, digamma, igammac, lgamma, xlogy
from sparkflow.ops.nn import softplus
from sparkflow.ops.random_more import random_gamma, random_poisson


class Poisson(Distribution):
    """rate^k exp(-rate) / k!, for counts k. interpolate_nondiscrete: between counts too, else 0 and a step.

    Raises ValueError unless one of rate and log_rate is given.
    """

    def __init__(
        self, rate: Any = None, log_rate: Any = None, interpolate_nondiscrete: bool = True,
        validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Poisson",
    ):  # fmt: skip
        own = dict(locals())
        if (rate is None) == (log_rate is None):
            raise ValueError("Poisson: give one of rate and log_rate")
        with get_default_graph().name_scope(name) as scope:
            if rate is not None:
                self._rate = parameter(rate, "rate", positive=validate_args)
                self._log_rate = math.log(self._rate)
            else:
                self._log_rate = parameter(log_rate, "log_rate")
                self._rate = math.exp(self._log_rate)
        self._between = interpolate_nondiscrete
        kind = self._rate.dtype.base_dtype
        super().__init__(kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    rate = property(lambda self: self._rate)
    log_rate = property(lambda self: self._log_rate)
    interpolate_nondiscrete = property(lambda self: self._between)

    def _parts(self) -> list[Tensor]:
        return [self._rate]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return random_poisson(self._rate, array.reshape(n, [1]), self.dtype, seed)

    def _log_prob(self, k: Tensor) -> Tensor:
        found = xlogy(k, self._rate) - lgamma(k + 1.0) - self._rate
        if self._between:
            return found
        is_count = math.logical_and(math.equal(k, math.floor(k)), k >= 0.0)
        never = array.fill(array.shape(found), math.cast(-np.inf, self.dtype))
        return array_select.where(array.broadcast_to(is_count, array.shape(found)), found, never)

    def _cdf(self, k: Tensor) -> Tensor:
        """0 below the first count, where the function of k + 1 is not defined."""
        steps = k if self._between else math.floor(k)
        inside = math.cast(steps >= 0.0, self.dtype)
        whole = array.zeros_like(steps + self._rate)
        return inside * igammac(math.maximum(steps, 0.0) + 1.0 + whole, self._rate + whole)

    def _mean(self) -> Tensor:
        return array.identity(self._rate)

    _variance = _mean

    def _mode(self) -> Tensor:
        return math.floor(self._rate)


class Binomial(WithLogits, Distribution):
    """Successes among total_count draws, each with probability probs (or its logits)."""

    def __init__(
        self, total_count: Any, logits: Any = None, probs: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "Binomial",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args)
            self._total = parameter(total_count, "total_count", positive=validate_args, like=self._probs)
        kind = self._probs.dtype.base_dtype
        super().__init__(kind, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    total_count = property(lambda self: self._total)

    def _parts(self) -> list[Tensor]:
        return [self._total, self._probs]

    def _log_prob(self, k: Tensor) -> Tensor:
        n = self._total
        choices = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
        return choices - k * softplus(-self._logits) - (n - k) * softplus(self._logits)

    def _cdf(self, k: Tensor) -> Tensor:
        """1 from total_count on, where the integral is not defined."""
        k = math.floor(k)
        whole = array.zeros_like(k + self._total + self._probs)
        below = math.cast(k < self._total, self.dtype) + whole
        left = math.maximum(self._total - k, 1.0) + whole
        got = math.maximum(k, 0.0) + 1.0 + whole
        found = betainc(left, got, 1.0 - self._probs + whole) * below + (1.0 - below)
        return found * math.cast(k >= 0.0, self.dtype)

    def _mean(self) -> Tensor:
        return self._total * self._probs

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._probs)

    def _mode(self) -> Tensor:
        return math.floor((self._total + 1.0) * self._probs)


class Chi2(Gamma):
    """The sum of the squares of df normal values."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2"):
        own = dict(locals())
        self._df = parameter(df, "df", positive=validate_args)
        half = array.fill(array.shape(self._df), math.cast(0.5, self._df.dtype.base_dtype))
        super().__init__(0.5 * self._df, half, validate_args, allow_nan_stats, name)
        self._parameters = {k: v for k, v in own.items() if k not in ("self", "__class__")}

    df = property(lambda self: self._df)


class InverseGamma(Distribution):
    """1 over a value of Gamma(concentration, rate)."""

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "InverseGamma",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            like = next((v for v in (concentration, rate) if isinstance(v, Tensor)), None)
            self._concentration = parameter(concentration, "concentration", positive=validate_args, like=like)
            self._rate = parameter(rate, "rate", positive=validate_args, like=self._concentration)
        kind = self._rate.dtype.base_dtype
        super().__init__(kind, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    concentration = property(lambda self: self._concentration)
    rate = property(lambda self: self._rate)

    def _parts(self) -> list[Tensor]:
        return [self._concentration, self._rate]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return 1.0 / random_gamma(array.reshape(n, [1]), self._concentration, self._rate, self.dtype, seed)

    def _log_prob(self, x: Tensor) -> Tensor:
        a, b = self._concentration, self._rate
        return a * math.log(b) - lgamma(a) - (1.0 + a) * math.log(x) - b / x

    def _cdf(self, x: Tensor) -> Tensor:
        whole = array.zeros_like(x + self._concentration + self._rate)
        return igammac(self._concentration + whole, self._rate / x + whole)

    def _entropy(self) -> Tensor:
        a = self._concentration
        return a + math.log(self._rate) + lgamma(a) - (1.0 + a) * digamma(a)

    def _mean(self) -> Tensor:
        found = self._rate / (self._concentration - 1.0)
        return defined(self, spread(self, self._concentration) > 1.0, found, "mean undefined for concentration <= 1")

    def _variance(self) -> Tensor:
        a = self._concentration
        found = math.square(self._rate / (a - 1.0)) / (a - 2.0)
        return defined(self, spread(self, a) > 2.0, found, "variance undefined for concentration <= 2")

    def _mode(self) -> Tensor:
        return self._rate / (1.0 + self._concentration)
