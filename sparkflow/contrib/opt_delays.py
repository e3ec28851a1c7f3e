"""tf.contrib.opt: gradient descent of asynchronous workers, whose gradients are corrected for what others did.

Source: Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array_slice, control_flow, math, state
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, as_var_type


class DelayCompensatedGradientDescentOptimizer(Optimizer):
    """Steps of rate * (g + variance_parameter * g**2 * (w - shadow)), the shadow what w was when this worker last had
    moved it. Slots: shadow_0 ... of num_workers workers. worker_index, of minimize and apply_gradients: whose step it
    is."""

    def __init__(
        self, learning_rate: Any, variance_parameter: Any, num_workers: int = 1, use_locking: bool = False,
        name: str = "DelayCompensatedGradientDescent",
    ):  # fmt: skip
        if num_workers <= 0:
            raise ValueError(f"num_workers must be positive: {num_workers}")
        super().__init__(use_locking, name)
        self._learning_rate, self._variance, self._num_workers = learning_rate, variance_parameter, num_workers
        self._worker_index = 0

    def minimize(self, loss: Any, *args: Any, worker_index: int = 0, **kwargs: Any) -> Operation:
        self._worker_index = self._one_of_the_workers(worker_index)
        return super().minimize(loss, *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None,
        worker_index: int | None = None,
    ) -> Operation:  # fmt: skip
        """Raises ValueError where worker_index is none of num_workers."""
        if worker_index is not None:
            self._worker_index = self._one_of_the_workers(worker_index)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _one_of_the_workers(self, index: int) -> int:
        if not 0 <= index < self._num_workers:
            raise ValueError(f"worker index must be in the range [0, {self._num_workers}), got {index}")
        return index

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for index in range(self._num_workers):
            for var in var_list:
                self._get_or_make_slot(var, var.initialized_value(), f"shadow_{index}", self._name)

    def _prepare(self) -> None:
        self._rate_t = self._tensor(self._learning_rate, "learning_rate")
        self._variance_t = self._tensor(self._variance, "lambda")

    def _step(self, grad: Tensor, now: Tensor, shadow: Tensor, var: Variable) -> Tensor:
        rate, variance = as_var_type(self._rate_t, var), as_var_type(self._variance_t, var)
        return rate * (grad + variance * math.square(grad) * (now - shadow))

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        shadow, locked = self.get_slot(var, f"shadow_{self._worker_index}"), self._use_locking
        with get_default_graph().control_dependencies([grad]):  # what others did meanwhile is seen after it alone
            step = self._step(grad, var.read_value(), shadow.read_value(), var)
        moved = state.assign_sub(var, step, use_locking=locked)
        return control_flow.group(state.assign(shadow, moved, use_locking=locked))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        shadow, locked, rows = self.get_slot(var, f"shadow_{self._worker_index}"), self._use_locking, grad.indices
        with get_default_graph().control_dependencies([grad.values]):
            now, before = array_slice.gather(var, rows), array_slice.gather(shadow, rows)
        moved = state.scatter_sub(var, rows, self._step(grad.values, now, before, var), use_locking=locked)
        return control_flow.group(
            state.scatter_update(shadow, rows, array_slice.gather(moved, rows), use_locking=locked)
        )  # fmt: skip
