"""compute_weighted_loss: what every loss ends with."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import constant, convert_to_tensor
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.losses.collected import add_loss
from sparkflow.ops import array, control_flow, math, math_reduce
from sparkflow.ops.control_flow_cond import cond
from sparkflow_runtime.wire.dtypes import float32


class Reduction:
    """How the weighted losses of the elements become one."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"  # by the sum of the weights
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = SUM_OVER_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def validate(cls, key: str) -> None:
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key!r}: it can be one of {', '.join(cls.all())}")


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Any:
    """`losses` times `weights`, reduced; added to `loss_collection`.

    losses: any shape [d0, ..., dN]. weights: a scalar, or of the same rank with every size equal or 1.
    Returns a scalar, or a tensor of the shape of losses when reduction is NONE. Raises ValueError on weights that do
    not fit. Computed in float32 or the float type of losses.
    """
    Reduction.validate(reduction)
    with get_default_graph().name_scope(scope or "weighted_loss"):
        losses = convert_to_tensor(losses)
        given = losses.dtype
        losses = losses if given.is_floating else math.cast(losses, float32)
        weights = math.cast(convert_to_tensor(weights), losses.dtype)
        check_weights(weights, losses)
        if weights._shape != () and (
            reduction != Reduction.SUM_BY_NONZERO_WEIGHTS or None in (weights._shape, losses._shape)
        ):
            weights = broadcast_weights(weights, losses)  # where counting those present does not
        loss = math.multiply(losses, weights)
        if reduction != Reduction.NONE:
            total = math_reduce.reduce_sum(loss)
            loss = total if reduction == Reduction.SUM else _mean(total, losses, weights, reduction)
        loss = math.cast(loss, given)
        add_loss(loss, loss_collection)
        return loss


def _mean(total: Any, losses: Any, weights: Any, reduction: str) -> Any:
    if reduction == Reduction.MEAN:
        divisor = math_reduce.reduce_sum(array.ones_like(losses) * weights)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        divisor = math.cast(array.size(losses), losses.dtype)
    else:
        divisor = num_present(losses, weights)
    return math.div_no_nan(total, divisor, name="value")


def num_present(losses: Any, weights: Any, per_batch: bool = False) -> Any:
    """How many elements have a weight that is not 0; with per_batch one number a row."""
    present = broadcast_weights(math.cast(math.not_equal(weights, 0.0), losses.dtype), losses)
    if not per_batch:
        return math_reduce.reduce_sum(present, name="num_present")
    axes = math.range(1, array.rank(present))
    return math_reduce.reduce_sum(present, axis=axes, keepdims=True, name="num_present")


def check_weights(weights: Any, losses: Any) -> None:
    w, v = weights._shape, losses._shape
    if w is None or v is None or len(w) == 0:
        return
    fits = len(w) == len(v) and all(a is None or b is None or a in (1, b) for a, b in zip(w, v, strict=True))
    if not fits:
        raise ValueError(
            f"weights can not be broadcast to values: weights {shapes.show(w)} must be a scalar or of the rank of "
            f"values {shapes.show(v)}, every size equal or 1"
        )


def broadcast_weights(weights: Any, values: Any) -> Any:
    """The weights at the shape of values. Fails with InvalidArgumentError in a step whose shapes do not fit as
    `check_weights` wants them: values are never broadcast to weights.
    """
    w, v = weights._shape, values._shape
    if w is not None and v is not None and w == v and None not in w:
        return weights
    if w == ():
        return weights * array.ones_like(values, dtype=weights.dtype)
    if w is not None and v is not None:
        return array.broadcast_to(weights, array.shape(values))  # which refuses other sizes itself
    fits = _fits(array.shape(weights), array.shape(values))
    refusal = "weights can not be broadcast to values: weights, values ="
    with get_default_graph().control_dependencies(
        [control_flow.Assert(fits, [refusal, array.shape(weights), array.shape(values)])]
    ):
        return weights * array.ones_like(values, dtype=weights.dtype)


def _fits(weights: Any, values: Any) -> Any:
    """Of two shapes: a bool scalar, whether the first is of no axes, or of the axes of the second or of size 1."""
    rank = array.size(weights)

    def sizes() -> Any:
        return math_reduce.reduce_all(math.logical_or(math.equal(weights, 1), math.equal(weights, values)))

    same = cond(math.equal(rank, array.size(values)), sizes, lambda: constant(False))
    return math.logical_or(math.equal(rank, 0), same)
