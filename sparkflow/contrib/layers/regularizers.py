"""Regularizers: functions of a variable that give a scalar loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import math, math_reduce, nn

Regularizer = Callable[[Any], Tensor | None]


def _scaled(name: str, scale: Any, measure: Callable[[Tensor], Tensor], scope: str | None) -> Regularizer:
    if isinstance(scale, int) and not isinstance(scale, bool):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if not isinstance(scale, Tensor):  # one that is fed may be anything
        if scale < 0.0:
            raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
        if scale == 0.0:
            return lambda weights: None

    def regularize(weights: Any) -> Tensor:
        with get_default_graph().name_scope(scope or name) as inside:
            weights = convert_to_tensor(weights, name="weights")
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return math.multiply(factor, measure(weights), name=inside)

    return regularize


def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """scale * sum |w|; nothing where scale is 0, which may be a tensor. Raises ValueError on one below 0 or whole."""
    return _scaled("l1_regularizer", scale, lambda w: math_reduce.reduce_sum(math.abs(w)), scope)


def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """scale * sum w ** 2 / 2; nothing where scale is 0. scale may be a tensor. Raises ValueError as l1_regularizer."""
    return _scaled("l2_regularizer", scale, nn.l2_loss, scope)


def l1_l2_regularizer(scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None) -> Regularizer:
    """The sum of both."""
    summed = sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope or "l1_l2_regularizer")
    assert summed is not None  # of two that are there
    return summed


def sum_regularizer(regularizer_list: Sequence[Regularizer | None], scope: str | None = None) -> Regularizer | None:
    """The sum of what several give; None among them is left out, and none at all make None."""
    kept = [r for r in regularizer_list if r is not None]
    if not kept:
        return None

    def regularize(weights: Any) -> Tensor | None:
        with get_default_graph().name_scope(scope or "sum_regularizer"):
            found = [loss for loss in (r(weights) for r in kept) if loss is not None]
            return math.add_n(found) if found else None

    return regularize


def apply_regularization(regularizer: Regularizer, weights_list: Sequence[Any] | None = None) -> Tensor:
    """The sum over the weights (of the collection WEIGHTS), collected in REGULARIZATION_LOSSES."""
    graph = get_default_graph()
    weights = graph.get_collection("weights") if weights_list is None else list(weights_list)
    if not weights:
        raise ValueError("No weights to regularize.")
    penalties = [p if p is not None else constant(0.0) for p in map(regularizer, weights)]
    total = math.add_n(penalties) if len(penalties) > 1 else penalties[0]
    graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total
