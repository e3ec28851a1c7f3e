"""Distributions on the line: normal, uniform, Laplace's, Student's."""

from __future__ import annotations

import math as pymath
from typing import Any

import numpy as np

from sparkflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    Distribution,
    defined,
    parameter,
    spread,
)
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.random_seed import salted
from sparkflow.ops import array, array_join, array_select, checks, math, operators, random  # noqa: F401 - x + y
from sparkflow.ops.math_special import betainc, digamma, erfc, lbeta, lgamma, ndtri
from sparkflow.ops.random_more import random_gamma

_LOG_2PI = pymath.log(2 * pymath.pi)


def _shaped(distribution: Distribution, n: Tensor) -> Tensor:
    """The shape of n samples."""
    return array_join.concat([array.reshape(n, [1]), distribution._whole_tensor()], 0)


def _ndtr(x: Tensor) -> Tensor:
    """The normal distribution function, exact in the lower tail."""
    return erfc(x * -pymath.sqrt(0.5)) * 0.5


def _log_ndtr(x: Tensor) -> Tensor:
    """Its logarithm: by an asymptotic series (Abramowitz and Stegun 26.2.12) where it would underflow."""
    low, high = (-20.0, 8.0) if x.dtype.np == np.float64 else (-10.0, 5.0)
    middle = math.log(_ndtr(math.maximum(math.minimum(x, high), low)))
    far = math.minimum(x, low)
    square = math.square(far)
    series = 1.0 - 1.0 / square + 3.0 / math.square(square) - 15.0 / (square * math.square(square))
    tail = -0.5 * square - math.log(-far) - 0.5 * _LOG_2PI + math.log(series)
    return array_select.where(x > high, -_ndtr(-x), array_select.where(x > low, middle, tail))


class _Located(Distribution):
    """A shape that is moved by loc and stretched by scale."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool, allow_nan_stats: bool, own: dict[str, Any]):
        with get_default_graph().name_scope(own["name"]) as scope:
            self._loc = parameter(loc, "loc", like=scale if isinstance(scale, Tensor) else None)
            self._scale = parameter(scale, "scale", positive=validate_args, like=self._loc)
        super().__init__(
            self._scale.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1]
        )

    @property
    def loc(self) -> Tensor:
        """Where it lies."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """How wide it is."""
        return self._scale

    def _parts(self) -> list[Tensor]:
        return [self._loc, self._scale]

    def _z(self, x: Tensor) -> Tensor:
        return (x - self._loc) / self._scale

    def _mode(self) -> Tensor:
        return self._mean()

    def _mean(self) -> Tensor:
        return spread(self, self._loc)


class Normal(_Located):
    """exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi))."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"
    ):
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()))

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return random.random_normal(_shaped(self, n), dtype=self.dtype, seed=seed) * self._scale + self._loc

    def _log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * math.square(self._z(x)) - (0.5 * _LOG_2PI + math.log(self._scale))

    def _cdf(self, x: Tensor) -> Tensor:
        return _ndtr(self._z(x))

    def _log_cdf(self, x: Tensor) -> Tensor:
        return _log_ndtr(self._z(x))

    def _survival_function(self, x: Tensor) -> Tensor:
        return _ndtr(-self._z(x))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        return _log_ndtr(-self._z(x))

    def _quantile(self, p: Tensor) -> Tensor:
        return ndtri(p) * self._scale + self._loc

    def _entropy(self) -> Tensor:
        return spread(self, 0.5 + 0.5 * _LOG_2PI + math.log(self._scale))

    def _stddev(self) -> Tensor:
        return spread(self, self._scale)


class Laplace(_Located):
    """exp(-|x - loc| / scale) / (2 scale)."""

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Laplace"
    ):
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()))

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        """The inverse of the distribution function at uniform values, from above -1."""
        least = float(np.nextafter(self.dtype.np.type(-1), self.dtype.np.type(0)))
        u = random.random_uniform(_shaped(self, n), least, 1.0, self.dtype, seed)
        return self._loc - self._scale * math.sign(u) * math.log1p(-math.abs(u))

    def _log_prob(self, x: Tensor) -> Tensor:
        return -math.abs(self._z(x)) - pymath.log(2) - math.log(self._scale)

    def _log_cdf(self, x: Tensor) -> Tensor:
        """By one of two formulas, each taken only where it is exact."""
        z = self._z(x)
        below = -pymath.log(2) + z
        above = math.log1p(-0.5 * math.exp(-math.abs(z)))
        return array_select.where(z < 0.0, below, above)

    def _cdf(self, x: Tensor) -> Tensor:
        z = self._z(x)
        return 0.5 + 0.5 * math.sign(z) * (1.0 - math.exp(-math.abs(z)))

    def _log_survival_function(self, x: Tensor) -> Tensor:
        z = self._z(x)
        below = math.log1p(-0.5 * math.exp(-math.abs(z)))
        return array_select.where(z < 0.0, below, -pymath.log(2) - z)

    def _entropy(self) -> Tensor:
        return spread(self, pymath.log(2) + 1 + math.log(self._scale))

    def _stddev(self) -> Tensor:
        return spread(self, pymath.sqrt(2) * self._scale)


class Uniform(Distribution):
    """1 / (high - low) in [low, high)."""

    def __init__(
        self, low: Any = 0.0, high: Any = 1.0, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "Uniform",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._low = parameter(low, "low", like=high if isinstance(high, Tensor) else None)
            self._high = parameter(high, "high", like=self._low)
            if validate_args:
                with get_default_graph().control_dependencies([checks.assert_less(self._low, self._high)]):
                    self._low, self._high = array.identity(self._low), array.identity(self._high)
        super().__init__(
            self._low.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1]
        )

    @property
    def low(self) -> Tensor:
        return self._low

    @property
    def high(self) -> Tensor:
        return self._high

    def range(self, name: str = "range") -> Tensor:
        """high - low."""
        return math.subtract(self._high, self._low, name)

    def _parts(self) -> list[Tensor]:
        return [self._low, self._high]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return self._low + self.range() * random.random_uniform(_shaped(self, n), dtype=self.dtype, seed=seed)

    def _prob(self, x: Tensor) -> Tensor:
        own = array.ones_like(x) / self.range()
        nothing = array.zeros_like(own)
        outside = math.logical_or(x < self._low, x >= self._high)
        found = array_select.where(array.broadcast_to(outside, array.shape(own)), nothing, own)
        unknown = array.broadcast_to(math.is_nan(x), array.shape(own))
        return array_select.where(unknown, array.broadcast_to(x, array.shape(own)), found)

    def _cdf(self, x: Tensor) -> Tensor:
        shape = array.shape(x + self._low + self._high)
        x, low, high = (array.broadcast_to(t, shape) for t in (x, self._low, self._high))
        inner = array_select.where(x < low, array.zeros_like(x), (x - low) / (high - low))
        return array_select.where(x >= high, array.ones_like(x), inner)

    def _quantile(self, p: Tensor) -> Tensor:
        return (1.0 - p) * self._low + p * self._high

    def _entropy(self) -> Tensor:
        return math.log(self.range())

    def _mean(self) -> Tensor:
        return (self._low + self._high) / 2.0

    def _variance(self) -> Tensor:
        return math.square(self.range()) / 12.0


class StudentT(Distribution):
    """(1 + z^2 / df)^(-(df + 1) / 2) / (scale sqrt(df) B(1/2, df/2)), z = (x - loc) / scale."""

    def __init__(
        self, df: Any, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "StudentT",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            tensors = [t for t in (df, loc, scale) if isinstance(t, Tensor)]
            self._df = parameter(df, "df", positive=validate_args, like=tensors[0] if tensors else None)
            self._loc, self._scale = parameter(loc, "loc", like=self._df), parameter(scale, "scale", like=self._df)
        super().__init__(
            self._df.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1]
        )

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self._df

    @property
    def loc(self) -> Tensor:
        return self._loc

    @property
    def scale(self) -> Tensor:
        return self._scale

    def _parts(self) -> list[Tensor]:
        return [self._df, self._loc, self._scale]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        """A normal value over the root of a chi-square's mean."""
        normal = random.random_normal(_shaped(self, n), dtype=self.dtype, seed=seed)
        df = self._df * array.ones(self._whole_tensor(), dtype=self.dtype)
        square = random_gamma(array.reshape(n, [1]), 0.5 * df, 0.5, self.dtype, seed=salted(seed, "student_t"))
        return self._loc + self._scale * normal * math.rsqrt(square / df)

    def _log_prob(self, x: Tensor) -> Tensor:
        z = (x - self._loc) / self._scale
        kernel = -0.5 * (self._df + 1.0) * math.log1p(math.square(z) / self._df)
        return kernel - self._log_normalization()

    def _log_normalization(self) -> Tensor:
        gammas = lgamma(0.5 * self._df) - lgamma(0.5 * (self._df + 1.0))
        return math.log(math.abs(self._scale)) + 0.5 * math.log(self._df) + 0.5 * pymath.log(pymath.pi) + gammas

    def _cdf(self, x: Tensor) -> Tensor:
        z = (x - self._loc) / math.abs(self._scale)
        df = self._df + array.zeros_like(z)
        tail = 0.5 * betainc(0.5 * df, 0.5 * array.ones_like(z), df / (math.square(z) + df))
        return array_select.where(z < 0.0, tail, 1.0 - tail)

    def _entropy(self) -> Tensor:
        half = spread(self, 0.5 * self._df)
        beta = lbeta(array_join.stack([half, 0.5 * array.ones_like(half)], -1))
        turn = 0.5 * (self._df + 1.0) * (digamma(0.5 * (self._df + 1.0)) - digamma(0.5 * self._df))
        return math.log(math.abs(self._scale)) + 0.5 * math.log(self._df) + beta + turn

    def _mean(self) -> Tensor:
        return defined(self, spread(self, self._df) > 1.0, spread(self, self._loc), "mean not defined for df <= 1")

    def _variance(self) -> Tensor:
        """df scale^2 / (df - 2); infinite for df in (1, 2]."""
        df = spread(self, self._df)
        safe = array_select.where(df > 2.0, df - 2.0, array.ones_like(df))
        finite = math.square(spread(self, self._scale)) * df / safe
        infinite = array.fill(array.shape(df), math.cast(float("inf"), self.dtype))
        found = array_select.where(df > 2.0, finite, infinite)
        return defined(self, df > 1.0, found, "variance not defined for df <= 1")

    def _mode(self) -> Tensor:
        return array.identity(self._loc)
