"""Distributions of vectors: normals, independent or not, and a class as a vector of zeros and a one."""

from __future__ import annotations

import math as pymath
from typing import Any

from sparkflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    parameter,
    spread,
)
from sparkflow.distributions.classes import Categorical
from sparkflow.distributions.divergence import RegisterKL, kl_divergence
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_select, linalg_parts, math, math_reduce, random
from sparkflow.ops.broadcasting import broadcast_dynamic_shape
from sparkflow.ops.linalg import cholesky, matrix_triangular_solve
from sparkflow.ops.linear_operators import LinearOperatorLowerTriangular
from sparkflow.ops.nn import log_softmax
from sparkflow_runtime.wire import dtypes

_LOG_2PI = pymath.log(2 * pymath.pi)


class _Normal(Distribution):
    """Vectors [..., k] of normals around `_loc`, of which the derived class knows the scale: `_log_det()` is the
    logarithm of its determinant."""

    _event_rank = 1
    _loc: Tensor
    loc = property(lambda self: self._loc)

    def _log_det(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what the determinant of its scale is")

    def _size(self) -> Tensor:
        return math.cast(array.shape(self._loc)[-1], self.dtype)

    def _density(self, square: Tensor) -> Tensor:
        """The logarithm of it, of the square of the distance to the mean in units of the scale."""
        return -0.5 * square - 0.5 * _LOG_2PI * self._size() - self._log_det()

    def _entropy(self) -> Tensor:
        return 0.5 * (1.0 + _LOG_2PI) * self._size() + self._log_det()

    def _mean(self) -> Tensor:
        return spread(self, self._loc)

    _mode = _mean


class MultivariateNormalDiag(_Normal):
    """Vectors [..., k] of independent normals: loc (0) and scale_diag (1), times scale_identity_multiplier [...].

    Raises ValueError where neither loc nor scale_diag is given.
    """

    def __init__(
        self, loc: Any = None, scale_diag: Any = None, scale_identity_multiplier: Any = None,
        validate_args: bool = False, allow_nan_stats: bool = True, name: str = "MultivariateNormalDiag",
    ):  # fmt: skip
        own = dict(locals())
        if loc is None and scale_diag is None:
            raise ValueError("MultivariateNormalDiag: give loc, scale_diag, or both")
        with get_default_graph().name_scope(name) as scope:
            diag = None if scale_diag is None else parameter(scale_diag, "scale_diag")
            self._loc = array.zeros_like(diag) if loc is None else parameter(loc, "loc", like=diag)
            self._diag = array.ones_like(self._loc) if diag is None else diag
            if scale_identity_multiplier is not None:
                factor = parameter(scale_identity_multiplier, "scale_identity_multiplier", like=self._loc)
                self._diag = math.multiply(self._diag, array.expand_dims(factor, -1))
        kind = self._loc.dtype.base_dtype
        super().__init__(kind, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    def _parts(self) -> list[Tensor]:
        return [self._loc, self._diag]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        shape = array_join.concat([array.reshape(n, [1]), self._whole_tensor()], 0)
        return math.add(math.multiply(random.random_normal(shape, dtype=self.dtype, seed=seed), self._diag), self._loc)

    def _log_det(self) -> Tensor:
        return math_reduce.reduce_sum(math.log(math.abs(spread(self, self._diag))), -1)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._density(math_reduce.reduce_sum(math.square(math.divide(x - self._loc, self._diag)), -1))

    def _variance(self) -> Tensor:
        return math.square(spread(self, self._diag))

    def _covariance(self) -> Tensor:
        return linalg_parts.matrix_diag(self._variance())


def _solved(tril: Tensor, right: Tensor) -> Tensor:
    """The sum of the squares of tril^-1 right, [...]; the axes before the last two are broadcast."""
    outer = broadcast_dynamic_shape(array.shape(tril)[:-2], array.shape(right)[:-2])
    left, right = (array.broadcast_to(t, array_join.concat([outer, array.shape(t)[-2:]], 0)) for t in (tril, right))
    return math_reduce.reduce_sum(math.square(matrix_triangular_solve(left, right)), [-2, -1])


class MultivariateNormalTriL(_Normal):
    """Vectors [..., k] of normals with covariance L L': loc (0) and L = scale_tril [..., k, k] (1), of which only the
    lower triangle counts. Raises ValueError where neither is given."""

    def __init__(
        self, loc: Any = None, scale_tril: Any = None, validate_args: bool = False, allow_nan_stats: bool = True,
        name: str = "MultivariateNormalTriL",
    ):  # fmt: skip
        own = dict(locals())
        if loc is None and scale_tril is None:
            raise ValueError(f"{type(self).__name__}: give loc, scale_tril, or both")
        with get_default_graph().name_scope(name) as scope:
            like = None if scale_tril is None else parameter(scale_tril, "scale_tril")
            self._loc = array.zeros_like(linalg_parts.matrix_diag_part(like)) if loc is None else parameter(
                loc, "loc", like=like
            )  # fmt: skip
            whole = linalg_parts.matrix_diag(array.ones_like(self._loc)) if like is None else like
            self._tril = linalg_parts.matrix_band_part(whole, -1, 0)
        kind = self._loc.dtype.base_dtype
        super().__init__(kind, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    @property
    def scale(self) -> LinearOperatorLowerTriangular:
        return LinearOperatorLowerTriangular(self._tril)

    def _diag(self) -> Tensor:
        return linalg_parts.matrix_diag_part(self._tril)

    def _parts(self) -> list[Tensor]:
        return [self._loc, self._diag()]

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        shape = array_join.concat([array.reshape(n, [1]), self._whole_tensor()], 0)
        drawn = array.expand_dims(random.random_normal(shape, dtype=self.dtype, seed=seed), -1)
        return math.add(array.squeeze(math.matmul(self._tril, drawn), [-1]), self._loc)

    def _log_det(self) -> Tensor:
        return math_reduce.reduce_sum(math.log(math.abs(spread(self, self._diag()))), -1)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._density(_solved(self._tril, array.expand_dims(x - self._loc, -1)))

    def _variance(self) -> Tensor:
        return spread(self, math_reduce.reduce_sum(math.square(self._tril), -1))

    def _covariance(self) -> Tensor:
        return math.matmul(self._tril, self._tril, transpose_b=True)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """MultivariateNormalTriL by its covariance, which must be symmetric and positive definite."""

    def __init__(
        self, loc: Any = None, covariance_matrix: Any = None, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "MultivariateNormalFullCovariance",
    ):  # fmt: skip
        own = dict(locals())
        tril = None if covariance_matrix is None else cholesky(parameter(covariance_matrix, "covariance_matrix"))
        super().__init__(loc, tril, validate_args, allow_nan_stats, name)
        self._parameters = {k: v for k, v in own.items() if k not in ("self", "__class__")}


class OneHotCategorical(Distribution):
    """One of k classes, with probabilities probs [..., k] or their logits, as a vector of zeros and a one."""

    def __init__(
        self, logits: Any = None, probs: Any = None, dtype: Any = dtypes.int32, validate_args: bool = False,
        allow_nan_stats: bool = True, name: str = "OneHotCategorical",
    ):  # fmt: skip
        own = dict(locals())
        with get_default_graph().name_scope(name) as scope:
            self._classes = Categorical(logits, probs, validate_args=validate_args)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, own, name=scope[:-1])

    logits = property(lambda self: self._classes.logits)
    probs = property(lambda self: self._classes.probs)
    event_size = property(lambda self: self._classes.event_size)

    def _parts(self) -> list[Tensor]:
        return [self._classes.logits]

    def _of_value(self, value: Any) -> Tensor:
        return convert_to_tensor(value, name="value")  # of floats too

    def _one_hot(self, classes: Tensor) -> Tensor:
        return array_select.one_hot(classes, self.event_size, dtype=self.dtype)

    def _sample_n(self, n: Tensor, seed: int | None) -> Tensor:
        return self._one_hot(self._classes._sample_n(n, seed))

    def _log_prob(self, x: Tensor) -> Tensor:
        logs = log_softmax(self._classes.logits)
        return math_reduce.reduce_sum(math.multiply(math.cast(x, logs.dtype), logs), -1)

    def _entropy(self) -> Tensor:
        return self._classes.entropy()

    def _mode(self) -> Tensor:
        return self._one_hot(self._classes.mode())

    def _mean(self) -> Tensor:
        return array.identity(self._classes.probs)

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean())

    def _covariance(self) -> Tensor:
        p = self._mean()
        outer = -math.matmul(array.expand_dims(p, -1), array.expand_dims(p, -2))
        return linalg_parts.matrix_set_diag(outer, self._variance())


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _normals(a: Any, b: Any, name: str | None = None) -> Tensor:
    ratio = math.square(math.divide(a._diag, b._diag))
    apart = math.square(math.divide(math.subtract(a._loc, b._loc), b._diag))
    return 0.5 * math_reduce.reduce_sum(math.add(ratio, apart) - 1.0 - math.log(ratio), -1)


@RegisterKL(MultivariateNormalTriL, MultivariateNormalTriL)
def _dependent_normals(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Half of |Lb^-1 La|^2 + |Lb^-1 (ma - mb)|^2 - k, and the difference of the logarithms of the determinants."""
    squares = _solved(b._tril, a._tril) + _solved(b._tril, array.expand_dims(math.subtract(b._loc, a._loc), -1))
    return 0.5 * (squares - a._size()) + b._log_det() - a._log_det()


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _one_hots(a: Any, b: Any, name: str | None = None) -> Tensor:
    return kl_divergence(a._classes, b._classes)
