"""Optimizers whose step ends in a proximal one: l1 and l2 penalties, l1 leaving weights at exactly zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow.ops.training  # noqa: F401  (the rows of the update ops)
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array, init_ops, math
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, as_var_type


class _Penalized(Optimizer):
    """Has a rate and the strengths of both penalties."""

    def __init__(self, learning_rate: Any, l1: Any, l2: Any, use_locking: bool, name: str):
        super().__init__(use_locking, name)
        self._learning_rate, self._l1, self._l2 = learning_rate, l1, l2

    def _prepare(self) -> None:
        named = {
            "learning_rate": self._learning_rate,
            "l1_regularization_strength": self._l1,
            "l2_regularization_strength": self._l2,
        }
        self._factors = [self._tensor(value, name) for name, value in named.items()]

    def _rates(self, var: Variable) -> list[Tensor]:
        return [as_var_type(t, var) for t in self._factors]

    def _filled_slot(self, var: Variable, value: float, slot: str) -> None:
        start = init_ops.constant_initializer(value)
        self._get_or_make_slot_with_initializer(var, start, var._shape, var.dtype.base_dtype, slot, self._name)

    def _apply(self, op_type: str, inputs: list[Any]) -> Tensor:
        return apply_op(op_type, inputs, {"use_locking": self._use_locking})


class ProximalGradientDescentOptimizer(_Penalized, Optimizer):
    """A step of gradient descent, then towards zero by the penalties. Source: Duchi and Singer 2009."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ):
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return self._apply("ApplyProximalGradientDescent", [var, *self._rates(var), grad])

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        inputs = [var, *self._rates(var), grad.values, grad.indices]
        return self._apply("SparseApplyProximalGradientDescent", inputs)


class ProximalAdagradOptimizer(_Penalized, Optimizer):
    """Adagrad's step, then towards zero by the penalties at its rates. Slot: accumulator.

    Source: Duchi and Singer 2009, Duchi et al. 2011.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._start = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._filled_slot(v, self._start, "accumulator")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return self._apply("ApplyProximalAdagrad", [var, self.get_slot(var, "accumulator"), *self._rates(var), grad])

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        inputs = [var, self.get_slot(var, "accumulator"), *self._rates(var), grad.values, grad.indices]
        return self._apply("SparseApplyProximalAdagrad", inputs)


class AdagradDAOptimizer(_Penalized, Optimizer):
    """Adagrad by dual averaging: a weight follows from the sums of its gradients and of their squares alone.

    A weight of a sparse model stays at zero until its gradients outweigh l1; all start at zero in effect, whatever
    their initial values. global_step: counts the updates. Slots: gradient_accumulator, gradient_squared_accumulator.
    Source: Duchi et al. 2011.
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ):
        start = initial_gradient_squared_accumulator_value
        if start <= 0.0:
            raise ValueError(f"initial_gradient_squared_accumulator_value must be positive: {start}")
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._start, self._global_step = start, global_step

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._filled_slot(v, 0.0, "gradient_accumulator")
            self._filled_slot(v, self._start, "gradient_squared_accumulator")

    def _prepare(self) -> None:
        super()._prepare()
        with get_default_graph().colocate_with(self._factors[0].op):
            step = array.identity(convert_to_tensor(self._global_step))
            self._step = math.cast(math.add(step, 1), "int64")

    def _inputs(self, var: Variable, gradient: list[Tensor]) -> list[Any]:
        slots = (self.get_slot(var, f"gradient_{kind}accumulator") for kind in ("", "squared_"))
        return [var, *slots, *gradient, *self._rates(var), self._step]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return self._apply("ApplyAdagradDA", self._inputs(var, [grad]))

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        return self._apply("SparseApplyAdagradDA", self._inputs(var, [grad.values, grad.indices]))
