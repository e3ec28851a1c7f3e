"""The optimizers. Each is its factors, its slots, and the nodes of one update; the kernels hold the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow.ops.training  # noqa: F401  (the rows of the update ops)
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import control_flow, init_ops, math, state
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, as_var_type


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * grad. learning_rate: a number, a tensor, or a function that gives one."""

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        rate = as_var_type(self._learning_rate_tensor, var)
        return apply_op("ApplyGradientDescent", [var, rate, grad], {"use_locking": self._use_locking})

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Tensor:
        """Subtraction is linear: repeated rows need no summing first."""
        delta = math.multiply(grad.values, as_var_type(self._learning_rate_tensor, var))
        return state.scatter_sub(var, grad.indices, delta, use_locking=self._use_locking)


class MomentumOptimizer(Optimizer):
    """accum = momentum * accum + grad; var -= learning_rate * accum (Nesterov: of the gradient one step ahead).

    Slot: momentum. Source: Sutskever et al. 2013.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ):
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._use_nesterov = learning_rate, momentum, use_nesterov

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._tensor(self._momentum, "momentum")

    def _inputs(self, var: Variable) -> tuple[Any, ...]:
        factors = (as_var_type(t, var) for t in (self._learning_rate_tensor, self._momentum_tensor))
        return (self.get_slot(var, "momentum"), *factors)

    def _attrs(self) -> dict[str, Any]:
        return {"use_locking": self._use_locking, "use_nesterov": self._use_nesterov}

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        accum, rate, momentum = self._inputs(var)
        return apply_op("ApplyMomentum", [var, accum, rate, grad, momentum], self._attrs())

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        accum, rate, momentum = self._inputs(var)
        return apply_op("SparseApplyMomentum", [var, accum, rate, grad.values, grad.indices, momentum], self._attrs())


class AdagradOptimizer(Optimizer):
    """accum += grad ** 2; var -= learning_rate * grad / sqrt(accum). Slot: accumulator. Source: Duchi et al. 2011."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ):
        if initial_accumulator_value <= 0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._initial_accumulator_value = learning_rate, initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            start = init_ops.constant_initializer(self._initial_accumulator_value)
            self._get_or_make_slot_with_initializer(v, start, v._shape, v.dtype.base_dtype, "accumulator", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        rate = as_var_type(self._learning_rate_tensor, var)
        inputs = [var, self.get_slot(var, "accumulator"), rate, grad]
        return apply_op("ApplyAdagrad", inputs, {"use_locking": self._use_locking})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        rate = as_var_type(self._learning_rate_tensor, var)
        inputs = [var, self.get_slot(var, "accumulator"), rate, grad.values, grad.indices]
        return apply_op("SparseApplyAdagrad", inputs, {"use_locking": self._use_locking})


class AdamOptimizer(Optimizer):
    """Adam: running means m of the gradient and v of its square, each corrected for its start at zero.

    Of a sparse gradient, m and v of all rows decay and all rows move, as in TensorFlow 1. Slots: m, v.
    Source: Kingma and Ba 2015, the form before section 2.1 (epsilon is the paper's epsilon hat).
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda v: v.name)
        for factor, name in ((self._beta1, "beta1_power"), (self._beta2, "beta2_power")):
            self._create_non_slot_variable(self._call_if_callable(factor), name, first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._tensor(self._lr, "learning_rate")
        self._beta1_t, self._beta2_t = self._tensor(self._beta1, "beta1"), self._tensor(self._beta2, "beta2")
        self._epsilon_t = self._tensor(self._epsilon, "epsilon")

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """The variables beta1 ** (t + 1) and beta2 ** (t + 1) before update t; None before `_create_slots`."""
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _factors(self, var: Variable) -> list[Tensor]:
        """Powers of both betas, rate, betas and epsilon, in the type of var."""
        powers = [power.value() for power in self._get_beta_accumulators()]
        return [as_var_type(t, var) for t in (*powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        inputs = [var, self.get_slot(var, "m"), self.get_slot(var, "v"), *self._factors(var), grad]
        return apply_op("ApplyAdam", inputs, {"use_locking": self._use_locking})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        power1, power2, rate, beta1, beta2, epsilon = self._factors(var)
        rate = rate * math.sqrt(1 - power2) / (1 - power1)
        m = self._decayed(self.get_slot(var, "m"), beta1, grad.indices, grad.values * (1 - beta1))
        v = self._decayed(self.get_slot(var, "v"), beta2, grad.indices, grad.values * grad.values * (1 - beta2))
        update = state.assign_sub(var, rate * m / (math.sqrt(v) + epsilon), use_locking=self._use_locking)
        return control_flow.group(update, m, v)

    def _decayed(self, slot: Variable, beta: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
        """slot = beta * slot, then rows added where they belong."""
        decay = state.assign(slot, slot.value() * beta, use_locking=self._use_locking)
        with get_default_graph().control_dependencies([decay]):
            return state.scatter_add(slot, indices, rows, use_locking=self._use_locking)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        """The powers of the betas move on when all updates have used them."""
        graph, powers = get_default_graph(), self._get_beta_accumulators()
        with graph.control_dependencies(update_ops), graph.colocate_with(powers[0]):
            betas = (self._beta1_t, self._beta2_t)
            moved = [p.assign(p.value() * beta, self._use_locking) for p, beta in zip(powers, betas)]
        return control_flow.group(*update_ops, *moved, name=name_scope)


class FtrlOptimizer(Optimizer):
    """FTRL-Proximal: Adagrad's rates, with l1 that keeps weights at exactly zero.

    beta: of the paper, 0 when None. l2_shrinkage_regularization_strength: an l2 penalty on the loss itself (>= 0).
    learning_rate_power: <= 0; -0.5 is Adagrad's. Slots: accum, linear. Source: McMahan et al. 2013.
    """

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ):
        not_negative = {
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for label, value in not_negative.items():
            if value < 0.0:
                raise ValueError(f"{label} {value} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        super().__init__(use_locking, name)
        self._learning_rate, self._learning_rate_power = learning_rate, learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1, self._l2, self._shrinkage = (
            l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength)  # fmt: skip
        self._beta = 0.0 if beta is None else beta
        self._accum_name, self._linear_name = accum_name, linear_name

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            start = init_ops.constant_initializer(self._initial_accumulator_value)
            name = self._accum_name or self._name
            self._get_or_make_slot_with_initializer(v, start, v._shape, v.dtype.base_dtype, "accum", name)
            self._zeros_slot(v, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = rate = self._tensor(self._learning_rate, "learning_rate")
        self._l1_tensor = self._tensor(self._l1, "l1_regularization_strength")
        # beta of the paper is an l2 penalty of beta / (2 * rate); the rate may be zero
        self._l2_tensor = self._l2 + self._beta / (2.0 * math.maximum(rate, 1e-36))
        self._shrinkage_tensor = self._tensor(self._shrinkage, "l2_shrinkage_regularization_strength")
        self._learning_rate_power_tensor = self._tensor(self._learning_rate_power, "learning_rate_power")

    def _inputs(self, var: Variable, gradient: list[Any]) -> list[Any]:
        shrinkage = [self._shrinkage_tensor] if self._shrinkage > 0 else []
        rates = [self._learning_rate_tensor, self._l1_tensor, self._l2_tensor]
        factors = [*rates, *shrinkage, self._learning_rate_power_tensor]
        slots = [self.get_slot(var, "accum"), self.get_slot(var, "linear")]
        return [var, *slots, *gradient, *(as_var_type(f, var) for f in factors)]

    def _op_type(self, base: str) -> str:
        return base + "V2" if self._shrinkage > 0 else base

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return apply_op(self._op_type("ApplyFtrl"), self._inputs(var, [grad]), {"use_locking": self._use_locking})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        inputs = self._inputs(var, [grad.values, grad.indices])
        return apply_op(self._op_type("SparseApplyFtrl"), inputs, {"use_locking": self._use_locking})
