"""Train ops in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sparkflow import summary, train
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array, array_select, clip, control_flow, init_ops, math, random
from sparkflow.ops.checks import assert_scalar
from sparkflow.ops.variable_scope import get_variable, variable_scope
from sparkflow.ops.variables import trainable_variables
from sparkflow.train.moving_averages import assign_moving_average
from sparkflow_runtime.wire.dtypes import float32

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Any]] = {
    "Adagrad": train.AdagradOptimizer,
    "Adam": train.AdamOptimizer,
    "Ftrl": train.FtrlOptimizer,
    "Momentum": lambda learning_rate: train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": train.RMSPropOptimizer,
    "SGD": train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
_USUAL = ("loss", "learning_rate", "global_gradient_norm")


def optimize_loss(
    loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None, clip_gradients: Any = None, learning_rate_decay_fn: Any = None,
    update_ops: Sequence[Any] | None = None, variables: Sequence[Any] | None = None, name: str | None = None,
    summaries: Sequence[str] | None = None, colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:  # fmt: skip
    """The loss, given out after one step of the optimizer (its name in OPTIMIZER_CLS_NAMES, its class, itself, or a
    function of the learning rate, or of nothing where that is None).

    learning_rate: a scalar tensor, or a float, which is kept in the variable <name>/learning_rate, so that it can be
    changed. global_step: by default the graph's, where it has one. gradient_noise_scale: of normal noise in the
    gradients. clip_gradients: a global norm as a float, or a function of the (gradient, variable) pairs. summaries: of
    OPTIMIZER_SUMMARIES; by default loss, learning_rate and global_gradient_norm.

    Raises ValueError on an argument of another kind, and where a decay has no global step.
    """
    loss = assert_scalar(convert_to_tensor(loss))
    if global_step is None:
        step = train.get_global_step()
    else:
        step = global_step
        train.assert_global_step(step)
    shown = _USUAL if summaries is None else tuple(summaries)
    for one in shown:
        if one not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {one}.")
    with variable_scope(name, "OptimizeLoss"):
        updates = get_default_graph().get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            loss = control_flow.with_dependencies(list(dict.fromkeys(updates)), loss)
        rate = _rate(learning_rate, learning_rate_decay_fn, step, shown)
        made = _optimizer(optimizer, rate)
        over = trainable_variables() if variables is None else variables
        pairs = made.compute_gradients(loss, over, colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = [(_noisy(grad, gradient_noise_scale), var) for grad, var in pairs]
        pairs = _multiplied(pairs, gradient_multipliers or {})
        norms = {"global_gradient_norm", "gradient_norm"} & set(shown)
        if norms:
            summary.scalar("global_norm/gradient_norm", clip.global_norm([g for g, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in shown:
            summary.scalar("loss", loss)
        _summarize(pairs, shown)
        if norms and clip_gradients is not None:
            summary.scalar("global_norm/clipped_gradient_norm", clip.global_norm([g for g, _ in pairs]))
        done = made.apply_gradients(pairs, step if increment_global_step else None, name="train")
        return control_flow.with_dependencies([done], loss)


def _rate(given: Any, decay: Any, step: Any, shown: Sequence[str]) -> Any:
    """The learning rate as a variable or a tensor, None for none."""
    if given is None:
        return None
    if isinstance(given, float):
        if given < 0.0:
            raise ValueError(f"Invalid learning_rate {given}.")
        rate = get_variable("learning_rate", [], initializer=init_ops.constant_initializer(given), trainable=False)
    elif isinstance(given, Tensor) and given._shape == ():
        rate = given
    else:
        raise ValueError(f"Learning rate should be 0d Tensor or float. Got {given!r} of type {type(given)}")
    if decay is None:
        return rate
    if step is None:
        raise ValueError("global_step is required for learning_rate_decay_fn.")
    rate = decay(rate, step)
    if "learning_rate" in shown:
        summary.scalar("learning_rate", rate)
    return rate


def _optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, train.Optimizer):
        return optimizer
    if isinstance(optimizer, (str, type)) and rate is None:
        raise ValueError(f"Learning rate is None, but should be specified if optimizer is {optimizer!r}.")
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {optimizer}."
            )
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    made = optimizer
    if callable(optimizer):
        made = optimizer() if rate is None else optimizer(rate)
    if not isinstance(made, train.Optimizer):
        raise ValueError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
            f"function with one argument. Got {made!r}."
        )
    return made


def _values(grad: Any, function: Callable[[Any], Any]) -> Any:
    """function(grad), of the rows alone where grad is IndexedSlices; None stays."""
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)
    return None if grad is None else function(grad)


def _noisy(grad: Any, scale: float) -> Any:
    """grad with normal noise everywhere: IndexedSlices become dense by it."""
    if grad is None:
        return None
    dense = convert_to_tensor(grad)
    return math.add(dense, math.multiply(random.truncated_normal(array.shape(dense), dtype=dense.dtype), scale))


def _times(factor: Any, grad: Tensor) -> Tensor:
    return math.multiply(grad, math.cast(factor, grad.dtype))


def _multiplied(pairs: Sequence[Any], factors: Any) -> list[Any]:
    found = []
    for grad, var in pairs:
        factor = factors.get(var, factors.get(var.name))
        if factor is not None:
            grad = _values(grad, partial(_times, factor))
        found.append((grad, var))
    return found


def _clipped(pairs: Sequence[Any], limit: Any) -> Sequence[Any]:
    if limit is None:
        return pairs
    if callable(limit):
        return limit(pairs)
    if not isinstance(limit, float):
        raise ValueError(f"Unknown type {type(limit)} for clip_gradients")
    grads, _ = clip.clip_by_global_norm([g for g, _ in pairs], limit)
    return list(zip(grads, [v for _, v in pairs]))


def _summarize(pairs: Sequence[Any], shown: Sequence[str]) -> None:
    for grad, var in pairs:
        values = grad.values if isinstance(grad, IndexedSlices) else grad
        name = var.name.replace(":", "_")
        if values is not None and "gradients" in shown:
            summary.histogram(f"gradients/{name}", values)
        if values is not None and "gradient_norm" in shown:
            summary.scalar(f"gradient_norm/{name}", clip.global_norm([values]))


def adaptive_clipping_fn(
    std_factor: float = 2.0, decay: float = 0.95, static_max_norm: float | None = None, global_step: Any = None,
    report_summary: bool = False, epsilon: float = 1e-8, name: str | None = None,
) -> Callable[[Sequence[Any]], list[Any]]:  # fmt: skip
    """A clip_gradients of optimize_loss: where the global norm is above exp(mean + std_factor * std) of its logarithm's
    moving mean and deviation, the gradients are scaled to a norm of exp(mean). Source: Krueger and Memisevic 2015.

    decay: of the averages; faster at first where global_step is given. static_max_norm: a limit that always holds.
    """

    def averaged(what: str, value: Tensor, rate: Any) -> Any:
        kept = get_variable(what, value.shape, value.dtype, init_ops.zeros_initializer(), trainable=False)
        return assign_moving_average(kept, value, rate, zero_debias=False)

    def limits(norm: Tensor) -> tuple[Tensor, Tensor]:
        with variable_scope(name, "AdaptiveMaxNorm"):
            logarithm = math.log(norm + epsilon)
            rate: Any = decay
            if global_step is not None:
                count = math.cast(global_step, float32)
                rate = math.minimum(decay, count / (count + 1.0))
            mean, squares = averaged("mean", logarithm, rate), averaged("sq_mean", math.square(logarithm), rate)
            std = math.sqrt(math.maximum(epsilon, squares - math.square(mean)))
            return math.exp(mean + std_factor * std), math.exp(mean)

    def clipped(pairs: Sequence[Any]) -> list[Any]:
        norm = clip.global_norm([g for g, _ in pairs])
        largest, usual = limits(norm)
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", largest)
        factor = array_select.where(math.less(norm, largest), array.ones_like(norm), usual / norm)
        if static_max_norm is not None:
            factor = math.minimum(static_max_norm / norm, factor)
        return [(_values(grad, partial(_times, factor)), var) for grad, var in pairs]

    return clipped
