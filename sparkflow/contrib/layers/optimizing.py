"""Train ops in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow import train
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import clip, control_flow, math
from sparkflow.ops.variable_scope import variable_scope

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "Adagrad": train.AdagradOptimizer,
    "Adam": train.AdamOptimizer,
    "Ftrl": train.FtrlOptimizer,
    "Momentum": lambda learning_rate: train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": train.RMSPropOptimizer,
    "SGD": train.GradientDescentOptimizer,
}


def optimize_loss(
    loss: Tensor, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None, clip_gradients: Any = None, learning_rate_decay_fn: Any = None,
    update_ops: Sequence[Any] | None = None, variables: Sequence[Any] | None = None, name: str | None = None,
    summaries: Any = None, colocate_gradients_with_ops: bool = False, increment_global_step: bool = True,
) -> Tensor:  # fmt: skip
    """The loss, given out after one step of the optimizer (its name in OPTIMIZERS, its class, itself, or a function of
    the learning rate). clip_gradients: a global norm, or a function of the (gradient, variable) pairs.

    Raises ValueError on an unknown optimizer, and on gradient noise, which is not supported.
    """
    if gradient_noise_scale is not None:
        raise ValueError("optimize_loss: gradient_noise_scale is not supported; leave it out")
    with variable_scope(name, "OptimizeLoss"):
        step = train.get_or_create_global_step() if global_step is None else global_step
        updates = get_default_graph().get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            loss = control_flow.with_dependencies(list(updates), loss)
        rate = learning_rate if learning_rate_decay_fn is None else learning_rate_decay_fn(learning_rate, step)
        made = _optimizer(optimizer, rate)
        pairs = made.compute_gradients(loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops)
        pairs = _multiplied(pairs, gradient_multipliers or {})
        done = made.apply_gradients(_clipped(pairs, clip_gradients), step if increment_global_step else None)
        return control_flow.with_dependencies([done], loss)


def _optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"Optimizer name should be one of [{', '.join(OPTIMIZERS)}], you provided {optimizer}.")
        return OPTIMIZERS[optimizer](learning_rate=rate)
    return optimizer if isinstance(optimizer, train.Optimizer) else optimizer(rate) if rate is not None else optimizer()


def _multiplied(pairs: Sequence[Any], factors: Any) -> list[Any]:
    found = []
    for grad, var in pairs:
        factor = factors.get(var, factors.get(var.name))
        found.append((grad if factor is None or grad is None else math.multiply(grad, factor), var))
    return found


def _clipped(pairs: Sequence[Any], limit: Any) -> Sequence[Any]:
    if limit is None:
        return pairs
    if callable(limit):
        return limit(pairs)
    grads, _ = clip.clip_by_global_norm([g for g, _ in pairs], limit)
    return list(zip(grads, [v for _, v in pairs]))
