"""RMSProp, plain and centred, and Adadelta: step sizes by running means of squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow.ops.training  # noqa: F401  (the rows of the update ops)
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import init_ops
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, as_var_type


class RMSPropOptimizer(Optimizer):
    """ms: a running mean of grad ** 2; mom = momentum * mom + learning_rate * grad / sqrt(ms + epsilon); var -= mom.

    centered: the square of the running mean of grad is subtracted from ms, which leaves its variance (Graves 2013).
    Slots: rms, momentum, and mg where centred. Source: Tieleman and Hinton 2012.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ):
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum, self._epsilon = learning_rate, decay, momentum, epsilon
        self._centered = centered

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            ones = init_ops.ones_initializer(dtype=v.dtype.base_dtype)
            self._get_or_make_slot_with_initializer(v, ones, v._shape, v.dtype.base_dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(v, "mg", self._name)
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        self._decay_tensor = self._tensor(self._decay, "decay")
        self._momentum_tensor = self._tensor(self._momentum, "momentum")
        self._epsilon_tensor = self._tensor(self._epsilon, "epsilon")

    def _inputs(self, var: Variable) -> list[Any]:
        slots = ("mg", "rms", "momentum") if self._centered else ("rms", "momentum")
        factors = (self._learning_rate_tensor, self._decay_tensor, self._momentum_tensor, self._epsilon_tensor)
        return [var, *(self.get_slot(var, s) for s in slots), *(as_var_type(t, var) for t in factors)]

    def _op_type(self) -> str:
        return "ApplyCenteredRMSProp" if self._centered else "ApplyRMSProp"

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return apply_op(self._op_type(), [*self._inputs(var), grad], {"use_locking": self._use_locking})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        inputs = [*self._inputs(var), grad.values, grad.indices]
        return apply_op("Sparse" + self._op_type(), inputs, {"use_locking": self._use_locking})


class AdadeltaOptimizer(Optimizer):
    """The step is the gradient, scaled by the running root mean square of steps over that of gradients.

    learning_rate 1.0 is the paper's form. Slots: accum, accum_update. Source: Zeiler 2012.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._zeros_slot(v, "accum", self._name)
            self._zeros_slot(v, "accum_update", self._name)

    def _prepare(self) -> None:
        self._lr_t, self._rho_t = self._tensor(self._lr, "lr"), self._tensor(self._rho, "rho")
        self._epsilon_t = self._tensor(self._epsilon, "epsilon")

    def _inputs(self, var: Variable) -> list[Any]:
        slots = [self.get_slot(var, "accum"), self.get_slot(var, "accum_update")]
        return [var, *slots, *(as_var_type(t, var) for t in (self._lr_t, self._rho_t, self._epsilon_t))]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor:
        return apply_op("ApplyAdadelta", [*self._inputs(var), grad], {"use_locking": self._use_locking})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        inputs = [*self._inputs(var), grad.values, grad.indices]
        return apply_op("SparseApplyAdadelta", inputs, {"use_locking": self._use_locking})
