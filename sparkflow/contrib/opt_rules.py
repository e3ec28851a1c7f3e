"""tf.contrib.opt: other forms of Adam, and optimizers around another one.

Sources: Dozat 2016 (Nadam), Kingma and Ba 2015, section 7 (AdaMax), Polyak and Juditsky 1992 (averages);
tensorflow/contrib/opt/python/training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array_slice, clip, control_flow, math, state, variables
from sparkflow.ops.variables import Variable
from sparkflow.train.moving_averages import ExponentialMovingAverage
from sparkflow.train.optimizer import GradsAndVars, Optimizer, as_var_type
from sparkflow.train.optimizers import AdamOptimizer
from sparkflow.train.saver import Saver


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum; of a sparse gradient, its rows alone move."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        inputs = [var, self.get_slot(var, "m"), self.get_slot(var, "v"), *self._factors(var), grad]
        return apply_op("ApplyAdam", inputs, {"use_locking": self._use_locking, "use_nesterov": True})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        power1, power2, rate, beta1, beta2, epsilon = self._factors(var)
        rate = rate * math.sqrt(1 - power2) / (1 - power1)
        now = grad.values * (1 - beta1)
        m = self._decayed(self.get_slot(var, "m"), beta1, grad.indices, now)
        v = self._decayed(self.get_slot(var, "v"), beta2, grad.indices, grad.values * grad.values * (1 - beta2))
        ahead = now + beta1 * array_slice.gather(m, grad.indices)
        step = rate * ahead / (math.sqrt(array_slice.gather(v, grad.indices)) + epsilon)
        update = state.scatter_sub(var, grad.indices, step, use_locking=self._use_locking)
        return control_flow.group(update, m, v)


class AdaMaxOptimizer(AdamOptimizer):
    """Adam whose v is the largest gradient seen, decaying. Slots: m, v."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
        use_locking: bool = False, name: str = "AdaMax",
    ):  # fmt: skip
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _power(self) -> Any:
        return self._get_non_slot_variable("beta1_power")

    def _of(self, var: Variable) -> list[Tensor]:
        """The rate, corrected for m's start at zero, betas and epsilon, in the type of var."""
        factors = (self._power().value(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        power, rate, *rest = (as_var_type(t, var) for t in factors)
        return [rate / (1 - power), *rest]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        rate, beta1, beta2, epsilon = self._of(var)
        m, v, locked = self.get_slot(var, "m"), self.get_slot(var, "v"), self._use_locking
        m_now = state.assign(m, m.value() + (grad - m.value()) * (1 - beta1), use_locking=locked)
        v_now = state.assign(v, math.maximum(beta2 * v.value(), math.abs(grad)), use_locking=locked)
        return state.assign_sub(var, rate * (m_now / (v_now + epsilon)), use_locking=locked)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        rate, beta1, beta2, epsilon = self._of(var)
        m, v, locked, rows = self.get_slot(var, "m"), self.get_slot(var, "v"), self._use_locking, grad.indices
        m_rows = array_slice.gather(m, rows) * beta1 + grad.values * (1 - beta1)
        v_rows = math.maximum(beta2 * array_slice.gather(v, rows), math.abs(grad.values))
        return control_flow.group(
            state.scatter_sub(var, rows, rate * (m_rows / (v_rows + epsilon)), use_locking=locked),
            state.scatter_update(m, rows, m_rows, use_locking=locked),
            state.scatter_update(v, rows, v_rows, use_locking=locked),
        )

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        graph, power = get_default_graph(), self._power()
        with graph.control_dependencies(update_ops), graph.colocate_with(power):
            moved = power.assign(power.value() * self._beta1_t, self._use_locking)
        return control_flow.group(*update_ops, moved, name=name_scope)


class _Around(Optimizer):
    """Another optimizer's gradients and slots."""

    def __init__(self, opt: Optimizer, name: str):
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._opt.get_slot_names()

    def variables(self) -> list[Variable]:
        return self._opt.variables()


class MovingAverageOptimizer(_Around, Optimizer):
    """Another optimizer, and running averages of the variables that it trains, which swapping_saver saves under the
    variables' names.

    sequential_update: averages are of the values after the step.
    """

    def __init__(
        self, opt: Optimizer, average_decay: float = 0.9999, num_updates: Any = None, sequential_update: bool = True
    ):  # fmt: skip
        super().__init__(opt, "MovingAverageOptimizer")
        self._average = ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._after, self._swapped = sequential_update, dict[str, str]()

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        pairs = list(grads_and_vars)
        step = self._opt.apply_gradients(pairs, global_step, name)
        trained = [var for grad, var in pairs if grad is not None]
        with get_default_graph().control_dependencies([step] if self._after else []):
            averages = self._average.apply(trained)
        for var in trained:
            average = self._average.average(var)
            self._swapped |= {var.op.name: average.op.name, average.op.name: var.op.name}
        return control_flow.group(step, averages, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **settings: Any) -> Saver:
        """A Saver that exchanges the names of variables and their averages. Raises RuntimeError before
        apply_gradients, ValueError where one of a pair is missing."""
        if not self._swapped:
            raise RuntimeError("swapping_saver: there are no averages before apply_gradients or minimize")
        given = variables.global_variables() if var_list is None else var_list
        named = dict(given) if isinstance(given, dict) else {var.op.name: var for var in given}
        missing = [other for key, other in self._swapped.items() if key in named and other not in named]
        if missing:
            raise ValueError(f"swapping_saver: {missing[0]} is averaged, and not among the variables to save")
        return Saver({self._swapped.get(key, key): var for key, var in named.items()}, name=name, **settings)


class VariableClippingOptimizer(_Around, Optimizer):
    """Another optimizer, after whose steps variables are clipped to a norm.

    vars_to_clip_dims: variable -> the axes that the norm is taken over. max_norm: what it becomes at most.
    """

    def __init__(
        self, opt: Optimizer, vars_to_clip_dims: dict[Any, Any], max_norm: float, use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False, name: str = "VariableClipping",
    ):  # fmt: skip
        super().__init__(opt, name)
        self._dims = {var.op: list(dims) for var, dims in vars_to_clip_dims.items()}
        self._max_norm = max_norm

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        graph, pairs = get_default_graph(), list(grads_and_vars)
        with graph.name_scope(name or self._name):
            step = self._opt.apply_gradients(pairs, global_step)
            with graph.control_dependencies([step]):
                clipped = [self._clipped(var) for _, var in pairs if var.op in self._dims]
            return control_flow.group(step, *clipped)

    def _clipped(self, var: Variable) -> Any:
        with get_default_graph().colocate_with(var.op):
            return var.assign(clip.clip_by_norm(var.read_value(), self._max_norm, self._dims[var.op]))
