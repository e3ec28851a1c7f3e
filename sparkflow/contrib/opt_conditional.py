"""tf.contrib.opt: optimizers that leave another one's update out where a gradient is too old, or nothing but zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array, array_made, clip, control_flow, control_flow_cond, math, state
from sparkflow.ops.init_ops import zeros_initializer
from sparkflow.ops.variable_scope import get_variable
from sparkflow.summary.ops import scalar
from sparkflow.train.optimizer import GradsAndVars, Optimizer
from sparkflow.train.training_util import get_global_step
from sparkflow.train.wrapped_optimizer import WrappedOptimizer


class DropStaleGradientOptimizer(WrappedOptimizer):
    """Another optimizer, for asynchronous training: gradients are dropped that others have moved the variables by more
    than `staleness` steps under, by the global step. How many were is the variable stale_counter, and a summary."""

    def __init__(self, opt: Optimizer, staleness: int, use_locking: bool = False, name: str = "DropStaleGradient"):
        super().__init__(opt, name)
        self._staleness = staleness
        self._local_step: Tensor | None = None

    def compute_gradients(self, loss: Tensor, *args: Any, **kwargs: Any) -> GradsAndVars:
        """Raises ValueError where there is no global step, which tells how old a gradient is."""
        graph = get_default_graph()
        with graph.colocate_with(loss):
            self._local_step = array.identity(_global_step().read_value(), name="local_step")
        with graph.control_dependencies([self._local_step]):
            return self._opt.compute_gradients(array.identity(loss), *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """Raises ValueError before compute_gradients, and without global_step."""
        if self._local_step is None or global_step is None:
            raise ValueError(
                f"{self._name}: apply_gradients needs the global_step, and compute_gradients before it, which notes "
                "the step that gradients are of"
            )
        graph, pairs = get_default_graph(), list(grads_and_vars)
        with graph.colocate_with(global_step):
            dropped = get_variable("stale_counter", [], initializer=zeros_initializer(), trainable=False)
        computed = [_flat(grad) for grad, _ in pairs if grad is not None]
        with graph.control_dependencies(computed), graph.colocate_with(global_step):
            age = global_step.read_value() - math.cast(self._local_step, global_step.dtype.base_dtype)
            fresh = math.less_equal(array.reshape(age, []), self._staleness)

        def take() -> Tensor:
            with graph.control_dependencies([self._opt.apply_gradients(pairs, global_step, name)]):
                return constant(0.0)

        missed = control_flow_cond.cond(fresh, take, lambda: constant(1.0))
        with graph.colocate_with(global_step):
            train_op = state.assign_add(dropped, missed)
        steps = math.cast(global_step.read_value() + 1, dropped.dtype.base_dtype)
        scalar("Gradient staleness percentage", dropped.read_value() / steps)
        return train_op.op


class MultitaskOptimizerWrapper:
    """`opt`, which it changes: variables whose gradient is all zeros, as those of a task that a batch is not of, are
    left as they are, their slots too, where Adam, say, would move them still."""

    def __init__(self, opt: Optimizer):
        if not isinstance(opt, Optimizer):
            raise TypeError("Supplied optimizer must be an instance of tf.train.Optimizer")
        self._opt = opt
        for method in ("_apply_dense", "_apply_sparse_duplicate_indices"):
            setattr(opt, method, _unless_zeros(getattr(opt, method)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_opt"], name)


def clip_gradients_by_global_norm(
    gradients_variables: Iterable[tuple[Any, Any]], clip_norm: float = 20.0
) -> tuple[GradsAndVars, Tensor]:
    """The pairs, with gradients whose norm, of all together, is clip_norm at most; and what the norm was."""
    pairs = list(gradients_variables)
    clipped, norm = clip.clip_by_global_norm([grad for grad, _ in pairs], clip_norm)
    return [(grad, var) for grad, (_, var) in zip(clipped, pairs)], norm


def _unless_zeros(apply: Callable[..., Any]) -> Callable[..., Any]:
    def applied(grad: Any, var: Any) -> Any:
        def update() -> Operation:
            made = apply(grad, var)
            return control_flow.group(made)

        return control_flow_cond.cond(_all_zeros(_flat(grad)), control_flow.no_op, update).op

    return applied


def _flat(grad: Any) -> Tensor:
    return grad.values if isinstance(grad, IndexedSlices) else grad


def _all_zeros(grad: Tensor) -> Tensor:
    return math.equal(array_made.count_nonzero(grad), 0)


def _global_step() -> Any:
    step = get_global_step()
    if step is None:
        raise ValueError(
            "DropStaleGradientOptimizer: there is no global step; tf.train.get_or_create_global_step() makes it"
        )
    return step
