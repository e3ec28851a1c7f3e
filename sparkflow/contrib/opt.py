"""tf.contrib.opt: Adam for rows that are seen seldom, and optimizers whose weights decay on their own.

Source: Loshchilov and Hutter 2017 (decoupled weight decay).
"""

from __future__ import annotations

from typing import Any

from sparkflow.contrib.opt_conditional import (
    DropStaleGradientOptimizer,
    MultitaskOptimizerWrapper,
    clip_gradients_by_global_norm,
)
from sparkflow.contrib.opt_delays import DelayCompensatedGradientDescentOptimizer
from sparkflow.contrib.opt_elastic import ElasticAverageCustomGetter, ElasticAverageOptimizer
from sparkflow.contrib.opt_external import ExternalOptimizerInterface, ScipyOptimizerInterface
from sparkflow.contrib.opt_model_average import ModelAverageCustomGetter, ModelAverageOptimizer
from sparkflow.contrib.opt_rules import (
    AdaMaxOptimizer,
    MovingAverageOptimizer,
    NadamOptimizer,
    VariableClippingOptimizer,
)
from sparkflow.contrib.opt_signs import (
    AddSignOptimizer,
    LARSOptimizer,
    PowerSignOptimizer,
    get_cosine_decay_fn,
    get_linear_decay_fn,
    get_restart_decay_fn,
)
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array_slice, control_flow, math, operators, state
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import as_var_type
from sparkflow.train.optimizers import AdamOptimizer, MomentumOptimizer


class LazyAdamOptimizer(AdamOptimizer):
    """Adam that, of a sparse gradient, moves the rows of this gradient alone, and their m and v."""

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        power1, power2, rate, beta1, beta2, epsilon = self._factors(var)
        rate = rate * math.sqrt(1 - power2) / (1 - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        rows_m = array_slice.gather(m, grad.indices) * beta1 + grad.values * (1 - beta1)
        rows_v = array_slice.gather(v, grad.indices) * beta2 + math.square(grad.values) * (1 - beta2)
        locked = self._use_locking
        step = rate * rows_m / (math.sqrt(rows_v) + epsilon)
        return control_flow.group(
            state.scatter_sub(var, grad.indices, step, use_locking=locked),
            state.scatter_update(m, grad.indices, rows_m, use_locking=locked),
            state.scatter_update(v, grad.indices, rows_v, use_locking=locked),
        )


class DecoupledWeightDecayExtension:
    """Before an optimizer: each variable (or those of decay_var_list) loses weight_decay of itself at every step, apart
    from the gradient; of a sparse gradient its rows alone. The factor is not multiplied by the learning rate."""

    def __init__(self, weight_decay: Any, **kwargs: Any):
        self._weight_decay = weight_decay
        self._decayed_variables: set[Any] | None = None
        super().__init__(**kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """As Optimizer.minimize; decay_var_list: the variables that decay (all)."""
        self._decayed_variables = set(decay_var_list) if decay_var_list else None
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(self, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """As Optimizer.apply_gradients; decay_var_list: the variables that decay (all)."""
        if decay_var_list:
            self._decayed_variables = set(decay_var_list)
        return super().apply_gradients(*args, **kwargs)  # type: ignore[misc]

    def _decays(self, var: Variable) -> bool:
        return self._decayed_variables is None or var in self._decayed_variables

    def _decay(self, var: Variable) -> Tensor:
        return math.cast(self._weight_decay() if callable(self._weight_decay) else self._weight_decay, var.dtype)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        if not self._decays(var):
            return super()._apply_dense(grad, var)  # type: ignore[misc]
        with get_default_graph().control_dependencies([grad]):  # which the variable before the step belongs to
            less = state.assign_sub(var, self._decay(var) * var.value())
        with get_default_graph().control_dependencies([less]):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        if not self._decays(var):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]
        with get_default_graph().control_dependencies([grad.values]):
            rows = self._decay(var) * array_slice.gather(var, grad.indices)
            less = state.scatter_sub(var, grad.indices, rows)
        with get_default_graph().control_dependencies([less]):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999,
        epsilon: Any = 1e-8, use_locking: bool = False, name: str = "AdamW",
    ):  # fmt: skip
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon,
            use_locking=use_locking, name=name,
        )  # fmt: skip


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self, weight_decay: Any, learning_rate: Any, momentum: Any, use_locking: bool = False, name: str = "MomentumW",
        use_nesterov: bool = False,
    ):  # fmt: skip
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum, use_locking=use_locking, name=name,
            use_nesterov=use_nesterov,
        )  # fmt: skip


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """The class of that optimizer with decoupled weight decay: weight_decay is its first argument, the others are
    named."""
    return type(f"{base_optimizer.__name__}W", (DecoupledWeightDecayExtension, base_optimizer), {})
