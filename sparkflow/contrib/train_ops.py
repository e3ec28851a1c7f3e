"""Train ops of a loss and an optimizer, and loops that run them (tf.contrib.training and tf.contrib.slim.learning)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sparkflow import logging, summary, train
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import clip, control_flow, math
from sparkflow.ops.variables import trainable_variables

Pairs = list[tuple[Any, Any]]  # a gradient, or None, and its variable
GLOBAL_STEP: Any = 0  # stands for the graph's


def _of_values(grad: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """function of a gradient, or of the rows of a sparse one."""
    if not isinstance(grad, IndexedSlices):
        return function(grad)
    return IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)


def clip_gradient_norms(gradients_to_variables: Sequence[Any], max_norm: float) -> Pairs:
    """The pairs, each gradient clipped to that norm by itself."""
    return [
        (None if g is None else _of_values(g, lambda x: clip.clip_by_norm(x, max_norm)), v)
        for g, v in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Sequence[Any]], Pairs]:
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def multiply_gradients(grads_and_vars: Sequence[Any], gradient_multipliers: Mapping[Any, Any]) -> Pairs:
    """The pairs, the gradients of the variables in gradient_multipliers (or of the names of their ops) multiplied.

    Raises ValueError where grads_and_vars is no list, gradient_multipliers no dict or empty, or a gradient is None.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
        raise ValueError(f"`gradient_multipliers` must be a dict that is not empty, got {gradient_multipliers!r}.")
    found: Pairs = []
    for grad, var in grads_and_vars:
        factor = gradient_multipliers.get(var, gradient_multipliers.get(var.op.name))
        if factor is not None:
            if grad is None:
                raise ValueError(f"Requested multiple of `None` gradient, of {var.op.name}.")
            times = convert_to_tensor(factor, dtype=grad.dtype)
            grad = _of_values(grad, partial(math.multiply, times))
        found.append((grad, var))
    return found


def add_gradients_summaries(grads_and_vars: Sequence[Any]) -> list[Any]:
    """A histogram and the norm of each gradient, in the collection of summaries."""
    made = []
    for grad, var in grads_and_vars:
        if grad is None:
            logging.info("Var %s has no gradient", var.op.name)
            continue
        values = grad.values if isinstance(grad, IndexedSlices) else grad
        made.append(summary.histogram(f"{var.op.name}_gradient", values))
        made.append(summary.scalar(f"{var.op.name}_gradient_norm", clip.global_norm([values])))
    return made


def create_train_op(
    total_loss: Tensor, optimizer: Any, global_step: Any = GLOBAL_STEP, update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None, transform_grads_fn: Callable[[Pairs], Sequence[Any]] | None = None,
    summarize_gradients: bool = False, gate_gradients: int = train.Optimizer.GATE_OP,
    aggregation_method: int | None = None, colocate_gradients_with_ops: bool = False, check_numerics: bool = True,
) -> Tensor:  # fmt: skip
    """A tensor that makes one step of training and has the loss of before it; it is in the collection TRAIN_OP.

    update_ops (the collection UPDATE_OPS) run before the gradients; global_step None: none is counted.
    transform_grads_fn: of the (gradient, variable) pairs. check_numerics: a loss that is no number is an error.
    """
    graph = get_default_graph()
    step = train.get_or_create_global_step() if global_step is GLOBAL_STEP else global_step
    everything = graph.get_collection(GraphKeys.UPDATE_OPS)
    updates = everything if update_ops is None else list(update_ops)
    if any(op not in updates for op in everything):
        logging.warning("update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS")
    if updates:
        with graph.control_dependencies(updates):
            barrier = control_flow.no_op(name="update_barrier")
        total_loss = control_flow.with_dependencies([barrier], total_loss)
    variables = trainable_variables() if variables_to_train is None else list(variables_to_train)
    if not variables:
        raise ValueError("create_train_op: there is no variable to train")
    pairs = optimizer.compute_gradients(
        total_loss, variables, gate_gradients=gate_gradients, aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )  # fmt: skip
    pairs = list(transform_grads_fn(pairs)) if transform_grads_fn is not None else pairs
    if summarize_gradients:
        with graph.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    done = optimizer.apply_gradients(pairs, step)
    with graph.name_scope("train_op"):
        if check_numerics:
            total_loss = control_flow.check_numerics(total_loss, "LossTensor is inf or nan")
        op = control_flow.with_dependencies([done], total_loss)
    graph.add_to_collection(GraphKeys.TRAIN_OP, op)
    return op


def run_training(
    train_op: Any, logdir: str | None, master: str = "", is_chief: bool = True, scaffold: Any = None,
    hooks: Sequence[Any] | None = None, chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: float | None = 600, save_summaries_steps: int | None = 100, config: Any = None,
    max_wait_secs: float = 7200, run_metadata: Any = None,
) -> Any:  # fmt: skip
    """Run train_op in a MonitoredTrainingSession until a hook stops it; the last value of it (None if there is none).

    Raises ValueError where the chief has no logdir but is to save something there.
    """
    if logdir is None and is_chief and (save_summaries_steps or save_checkpoint_secs):
        raise ValueError(
            "logdir cannot be None when save_summaries_steps or save_checkpoint_secs is not None, got "
            f"{save_summaries_steps} and {save_checkpoint_secs}"
        )
    loss = None
    with train.MonitoredTrainingSession(
        master=master, is_chief=is_chief, checkpoint_dir=logdir, scaffold=scaffold, hooks=hooks,
        chief_only_hooks=chief_only_hooks, save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps, config=config, max_wait_secs=max_wait_secs,
    ) as session:  # fmt: skip
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
