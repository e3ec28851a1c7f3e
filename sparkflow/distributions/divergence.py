"""Kullback-Leibler divergences: a table of pairs of classes. Source: Penny 2001, and the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.distributions.base import Distribution
from sparkflow.distributions.classes import Bernoulli, Categorical
from sparkflow.distributions.lines import Normal
from sparkflow.distributions.positive import Beta, Dirichlet, Gamma
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, checks, math, math_reduce, operators  # noqa: F401 - x + y on tensors
from sparkflow.ops.math_special import digamma, lbeta, lgamma
from sparkflow.ops.nn import log_softmax, softplus

Rule = Callable[..., Tensor]
_RULES: dict[tuple[type, type], Rule] = {}


class RegisterKL:
    """`@RegisterKL(A, B)` over `fn(a, b, name=None)`: what kl_divergence of an A and a B is. Raises ValueError on a
    second function of one pair."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type):
        self._key = dist_cls_a, dist_cls_b

    def __call__(self, kl_fn: Rule) -> Rule:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, got {kl_fn!r}")
        if self._key in _RULES:
            raise ValueError(f"KL({self._key[0].__name__} || {self._key[1].__name__}) has already been registered")
        _RULES[self._key] = kl_fn
        return kl_fn


def _find(a: type, b: type) -> Rule | None:
    """The rule of the nearest base classes."""
    pairs = ((i + j, (x, y)) for i, x in enumerate(a.__mro__) for j, y in enumerate(b.__mro__))
    return next((_RULES[pair] for _, pair in sorted(pairs, key=lambda p: p[0]) if pair in _RULES), None)


def kl_divergence(
    distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Tensor:
    """The mean of log(a / b) under a, of each of the batch: 0 where both are alike.

    Raises NotImplementedError where no rule is registered for the two classes.
    """
    rule = _find(type(distribution_a), type(distribution_b))
    if rule is None:
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{type(distribution_a).__name__} and distribution_b type {type(distribution_b).__name__}; use RegisterKL"
        )
    with get_default_graph().name_scope(name or "KullbackLeibler"):
        found = rule(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return found
        said = "KL calculation returned NaN values, which allow_nan_stats=False does not allow"
        checked = checks.assert_equal(math_reduce.reduce_any(math.is_nan(found)), False, message=said)
        with get_default_graph().control_dependencies([checked]):
            return array.identity(found)


@RegisterKL(Normal, Normal)
def _normal(a: Any, b: Any, name: str | None = None) -> Tensor:
    ratio = math.square(a.scale) / math.square(b.scale)
    return math.square(a.loc - b.loc) / (2.0 * math.square(b.scale)) + 0.5 * (ratio - 1.0 - math.log(ratio))


@RegisterKL(Bernoulli, Bernoulli)
def _bernoulli(a: Any, b: Any, name: str | None = None) -> Tensor:
    turn = math.sigmoid(a.logits) * (softplus(-b.logits) - softplus(-a.logits))
    return turn + math.sigmoid(-a.logits) * (softplus(b.logits) - softplus(a.logits))


@RegisterKL(Categorical, Categorical)
def _categorical(a: Any, b: Any, name: str | None = None) -> Tensor:
    return math_reduce.reduce_sum(a.probs * (log_softmax(a.logits) - log_softmax(b.logits)), -1)


@RegisterKL(Gamma, Gamma)
def _gamma(a: Any, b: Any, name: str | None = None) -> Tensor:
    p, q = a.concentration, b.concentration
    return (
        (p - q) * digamma(p) + lgamma(q) - lgamma(p) + q * math.log(a.rate) - q * math.log(b.rate)
        + p * (b.rate / a.rate - 1.0)
    )  # fmt: skip


@RegisterKL(Beta, Beta)
def _beta(a: Any, b: Any, name: str | None = None) -> Tensor:
    d1, d0 = (getattr(b, k) - getattr(a, k) for k in ("concentration1", "concentration0"))
    total = b.total_concentration - a.total_concentration
    logs = b._log_beta() - a._log_beta()
    return (
        logs - digamma(a.concentration1) * d1 - digamma(a.concentration0) * d0
        + digamma(a.total_concentration) * total
    )  # fmt: skip


@RegisterKL(Dirichlet, Dirichlet)
def _dirichlet(a: Any, b: Any, name: str | None = None) -> Tensor:
    p, q = a.concentration, b.concentration
    turn = digamma(p) - array.expand_dims(digamma(a.total_concentration), -1)
    return math_reduce.reduce_sum((p - q) * turn, -1) - lbeta(p) + lbeta(q)
