"""tf.contrib.opt: steps that are larger where a gradient agrees with the mean of those before, and rates by layer.

Sources: Bello, Zoph, Vasudevan and Le 2017 (AddSign, PowerSign), You, Gitman and Ginsburg 2017 (LARS).
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import array_select, array_slice, control_flow, linalg, math, state
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer, as_var_type
from sparkflow_runtime.wire import dtypes

DecayFn = Callable[[Any], Tensor]


class _SignOptimizer(Optimizer):
    """Slot m: the mean of gradients, decaying by beta. A subclass says what a gradient is multiplied by, given whether
    its sign is that of m."""

    def __init__(self, learning_rate: Any, beta: Any, sign_decay_fn: DecayFn | None, use_locking: bool, name: str):
        super().__init__(use_locking, name)
        self._lr, self._beta, self._sign_decay_fn = learning_rate, beta, sign_decay_fn
        self._sign_decay_t: Any = 1.0

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        if self._sign_decay_fn is not None:
            self._sign_decay_t = convert_to_tensor(self._sign_decay_fn(global_step), name="sign_decay")
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._zeros_slot(v, "m", self._name)

    def _prepare(self) -> None:
        self._lr_t = self._tensor(self._lr, "learning_rate")
        self._beta_t = self._tensor(self._beta, "beta")

    def _factor(self, agreement: Tensor, var: Variable) -> Tensor:
        """agreement: sign of the gradient by sign of m, times what has decayed."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it scales a gradient: define _factor")

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        m, beta = self.get_slot(var, "m"), as_var_type(self._beta_t, var)
        now = state.assign(m, beta * m.value() + (1 - beta) * grad, use_locking=self._use_locking)
        return state.assign_sub(var, self._step(grad, now, var), use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Operation:
        """All of m decays; the gradient's rows alone of the variable move."""
        m, beta, locked = self.get_slot(var, "m"), as_var_type(self._beta_t, var), self._use_locking
        now = state.assign(m, beta * m.value(), use_locking=locked)
        now = state.scatter_add(now, grad.indices, (1 - beta) * grad.values, use_locking=locked)
        step = self._step(grad.values, array_slice.gather(now, grad.indices), var)
        return control_flow.group(state.scatter_sub(var, grad.indices, step, use_locking=locked), now)

    def _step(self, grad: Tensor, m: Tensor, var: Variable) -> Tensor:
        decay = as_var_type(convert_to_tensor(self._sign_decay_t), var)
        return as_var_type(self._lr_t, var) * self._factor(decay * math.sign(grad) * math.sign(m), var) * grad


class AddSignOptimizer(_SignOptimizer):
    """Steps of rate * (alpha + f * sign(g) * sign(m)) * g. sign_decay_fn: f of the global step, 1 by default."""

    def __init__(
        self, learning_rate: Any = 0.1, alpha: Any = 1.0, beta: Any = 0.9, sign_decay_fn: DecayFn | None = None,
        use_locking: bool = False, name: str = "AddSignOptimizer",
    ):  # fmt: skip
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._alpha = alpha

    def _factor(self, agreement: Tensor, var: Variable) -> Tensor:
        return as_var_type(self._tensor(self._alpha, "alpha"), var) + agreement


class PowerSignOptimizer(_SignOptimizer):
    """Steps of rate * base ** (f * sign(g) * sign(m)) * g. sign_decay_fn: f of the global step, 1 by default."""

    def __init__(
        self, learning_rate: Any = 0.1, base: Any = python_math.e, beta: Any = 0.9,
        sign_decay_fn: DecayFn | None = None, use_locking: bool = False, name: str = "PowerSignOptimizer",
    ):  # fmt: skip
        super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
        self._base = base

    def _factor(self, agreement: Tensor, var: Variable) -> Tensor:
        return math.exp(math.log(as_var_type(self._tensor(self._base, "base"), var)) * agreement)


class LARSOptimizer(Optimizer):
    """Momentum, whose rate for a variable is eeta times the ratio of its norm to its gradient's. Slot: momentum.

    skip_list: parts of the names of variables that have the learning rate itself, and no decay.
    """

    def __init__(
        self, learning_rate: Any, momentum: Any = 0.9, weight_decay: float = 0.0001, eeta: float = 0.001,
        epsilon: float = 0.0, name: str = "LARSOptimizer", skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ):  # fmt: skip
        momentum_given = self._call_if_callable(momentum)
        if isinstance(momentum_given, (int, float)) and momentum_given < 0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(False, name)
        self._learning_rate, self._momentum = learning_rate, momentum
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list, self._use_nesterov = skip_list, use_nesterov

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self) -> None:
        self._learning_rate_tensor = self._tensor(self._learning_rate, "learning_rate")
        self._momentum_tensor = self._tensor(self._momentum, "momentum")

    def compute_lr(self, grad: Tensor, var: Variable) -> tuple[Tensor, Tensor]:
        """The rate for a variable, and its gradient with the decay's."""
        rate = as_var_type(self._learning_rate_tensor, var)
        if any(part in var.name for part in self._skip_list or ()):
            return rate, grad
        weights, gradients = linalg.norm(var.value()), linalg.norm(grad)
        ratio = self._eeta * weights / (gradients + self._weight_decay * weights + self._epsilon)
        sound = math.logical_and(math.greater(weights, 0), math.greater(gradients, 0))
        ratio = array_select.where(sound, ratio, convert_to_tensor(1, ratio.dtype))
        return rate * ratio, grad + self._weight_decay * var.value()

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        rate, grad = self.compute_lr(grad, var)
        one, momentum = (as_var_type(t, var) for t in (self._tensor(1.0, "one"), self._momentum_tensor))
        inputs = [var, self.get_slot(var, "momentum"), one, grad * rate, momentum]
        return apply_op("ApplyMomentum", inputs, {"use_locking": False, "use_nesterov": self._use_nesterov})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        """With the learning rate itself: the norm of some rows says little of the whole."""
        rate, momentum = (as_var_type(t, var) for t in (self._learning_rate_tensor, self._momentum_tensor))
        inputs = [var, self.get_slot(var, "momentum"), rate, grad.values, grad.indices, momentum]
        return apply_op("SparseApplyMomentum", inputs, {"use_locking": False, "use_nesterov": self._use_nesterov})


def get_linear_decay_fn(decay_steps: Any) -> DecayFn:
    """From 1 at step 0 to 0 at decay_steps, and 0 from there on."""

    def decay(global_step: Any) -> Tensor:
        return math.maximum(1 - _share(global_step, decay_steps), 0.0)

    return decay


def get_cosine_decay_fn(decay_steps: Any, num_periods: Any = 0.5, zero_after: Any = None) -> DecayFn:
    """(1 + cos(2 pi num_periods step / decay_steps)) / 2, after decay_steps as there; 0 after zero_after periods."""
    _check_zero_after(zero_after)

    def decay(global_step: Any) -> Tensor:
        periods = num_periods * math.minimum(_share(global_step, decay_steps), 1.0)
        return _zero_after(0.5 * (1 + math.cos(2 * python_math.pi * periods)), periods, zero_after)

    return decay


def get_restart_decay_fn(decay_steps: Any, num_periods: Any = 1, zero_after: Any = None) -> DecayFn:
    """Half a cosine from 1 to 0, num_periods times in decay_steps; 0 after zero_after periods."""
    _check_zero_after(zero_after)

    def decay(global_step: Any) -> Tensor:
        periods = num_periods * math.minimum(_share(global_step, decay_steps), 1.0)
        wave = 0.5 * (
            1 + math.cos(python_math.pi * math.floormod(periods, 1.0))
        )  # at a period's end 1, as in TensorFlow
        return _zero_after(wave, periods, zero_after)

    return decay


def _share(global_step: Any, decay_steps: Any) -> Tensor:
    if global_step is None:
        raise ValueError("global_step is required for the decay of signs: give it to minimize or apply_gradients")
    return math.cast(global_step, dtypes.float32) / math.cast(decay_steps, dtypes.float32)


def _check_zero_after(zero_after: Any) -> None:
    if zero_after is not None and zero_after <= 0:
        raise ValueError(f"zero_after must be larger than 0, got {zero_after}")


def _zero_after(wave: Tensor, periods: Tensor, zero_after: Any) -> Tensor:
    if zero_after is None:
        return wave
    return wave * math.cast(math.less(periods, zero_after), dtypes.float32)
