"""Loss scaling: gradients of a loss times a factor, divided by it again, so that small ones are not lost in float16.

Source: tensorflow/python/training/experimental/loss_scale_optimizer.py; Micikevicius et al. 2018, "Mixed Precision
Training".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import reduce
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.tracked import Tracked
from sparkflow.ops import control_flow, math, math_reduce
from sparkflow.ops.control_flow_cond import cond, smart_cond
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer
from sparkflow_runtime.wire.dtypes import float32, int64


class LossScale(Tracked):
    """The factor: called, a float32 scalar. update(grads) gives (an op that adapts it, whether to apply them)."""

    def __call__(self) -> Tensor:
        raise NotImplementedError("a LossScale says its factor: define __call__")

    def update(self, grads: Any) -> tuple[Operation, Any]:
        raise NotImplementedError("a LossScale says what gradients make of it: define update")

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("a LossScale says its settings: define get_config")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LossScale:
        return cls(**config)

    def _variables(self) -> list[Variable]:
        return []


class FixedLossScale(LossScale):
    """One number, at least 1."""

    def __init__(self, loss_scale_value: float):
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError(f"loss_scale_value must be a Python int or float, got {loss_scale_value!r}")
        if loss_scale_value < 1:
            raise ValueError(f"loss_scale_value must be at least 1, got {loss_scale_value!r}")
        self._value = float(loss_scale_value)

    def __call__(self) -> Tensor:
        return convert_to_tensor(self._value, float32)

    def update(self, grads: Any) -> tuple[Operation, Any]:
        return control_flow.no_op(), True

    def get_config(self) -> dict[str, Any]:
        return {"loss_scale_value": self._value}


class DynamicLossScale(LossScale):
    """Begins as initial_loss_scale; times `multiplier` after increment_period steps whose gradients are all finite, and
    divided by it, to no less than 1, after one where they are not, which is not applied."""

    def __init__(self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0):
        self._initial, self._period, self._multiplier = initial_loss_scale, increment_period, float(multiplier)
        first = float(initial_loss_scale)
        self._current: Any = Variable(first, trainable=False, dtype=float32, name="current_loss_scale")
        self._good: Any = Variable(0, trainable=False, dtype=int64, name="good_steps")

    initial_loss_scale = property(lambda self: float(self._initial))
    increment_period = property(lambda self: int(self._period))
    multiplier = property(lambda self: self._multiplier)

    def __call__(self) -> Tensor:
        return self._current.read_value()

    def _variables(self) -> list[Variable]:
        return [self._current, self._good]

    def update(self, grads: Any) -> tuple[Operation, Any]:
        finite = _all_finite(nest.flatten(grads, expand_composites=True))

        def longer() -> Operation:
            wider = self._current * self._multiplier
            kept = cond(math.is_finite(wider), lambda: self._current.assign(wider), lambda: self._current * 1.0)
            return control_flow.group(kept, self._good.assign(0))

        def good() -> Operation:
            enough = math.greater_equal(self._good + 1, self._period)
            return control_flow.group(cond(enough, longer, lambda: self._good.assign_add(1).op))

        def bad() -> Operation:
            narrower = math.maximum(self._current / self._multiplier, 1.0)
            return control_flow.group(self._good.assign(0), self._current.assign(narrower))

        return control_flow.group(cond(finite, good, bad)), finite

    def get_config(self) -> dict[str, Any]:
        settings = {"initial_loss_scale": self.initial_loss_scale, "increment_period": self.increment_period}
        return {**settings, "multiplier": self.multiplier}


def _all_finite(grads: Iterable[Any]) -> Tensor:
    found = [math_reduce.reduce_all(math.is_finite(g)) for g in grads if g is not None and g.dtype.is_floating]
    return reduce(math.logical_and, found) if found else convert_to_tensor(True)


def get(identifier: Any) -> LossScale:
    """A LossScale of itself, of a number, or of "dynamic"."""
    if isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, (int, float)):
        return FixedLossScale(identifier)
    if identifier == "dynamic":
        return DynamicLossScale()
    raise ValueError(
        f"Could not interpret loss scale identifier: {identifier!r}. It is a number, 'dynamic' or a LossScale"
    )


class MixedPrecisionLossScaleOptimizer(Optimizer):
    """Another optimizer, of gradients that a LossScale scales. A step whose gradients are not finite changes neither
    variables nor the global step."""

    def __init__(self, opt: Optimizer, loss_scale: Any):
        if not isinstance(opt, Optimizer):
            raise ValueError(f'"opt" must be an instance of Optimizer, but got: {type(opt)}')
        super().__init__(opt._use_locking, opt.get_name())
        self._optimizer, self._loss_scale = opt, get(loss_scale)

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The gradients of the loss, computed of the scaled one."""
        scale = self._loss_scale()
        given = loss() if callable(loss) else loss
        found = self._optimizer.compute_gradients(given * math.cast(scale, given.dtype.base_dtype), *args, **kwargs)
        return [(None if g is None else _times(g, 1.0 / scale), v) for g, v in found]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        pairs = [(g, v) for g, v in grads_and_vars]
        if isinstance(self._loss_scale, FixedLossScale):
            return self._optimizer.apply_gradients(pairs, global_step, name)
        name = name or self.get_name()
        update, wanted = self._loss_scale.update([g for g, _ in pairs])
        applied = smart_cond(
            wanted,
            lambda: self._optimizer.apply_gradients(pairs, global_step, f"{name}-wrapped"),
            control_flow.no_op,
        )
        return control_flow.group(applied, update, name=name)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Variable]:
        return [*self._optimizer.variables(), *self._loss_scale._variables()]


def _times(grad: Any, factor: Tensor) -> Any:
    if isinstance(grad, IndexedSlices):
        values = grad.values * math.cast(factor, grad.values.dtype)
        return IndexedSlices(values, grad.indices, grad.dense_shape)
    return grad * math.cast(factor, grad.dtype.base_dtype)


def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic") -> MixedPrecisionLossScaleOptimizer:
    """The optimizer with its loss scaled. No op is made one of float16, as TensorFlow makes none on CPUs."""
    if isinstance(opt, MixedPrecisionLossScaleOptimizer):
        raise ValueError(
            '"opt" must not already be an instance of a MixedPrecisionLossScaleOptimizer. '
            "`enable_mixed_precision_graph_rewrite` will automatically wrap the optimizer with one."
        )
    warnings.warn(
        "tf.train.experimental.enable_mixed_precision_graph_rewrite: the loss is scaled, but ops stay those of float32",
        stacklevel=2,
    )
    return MixedPrecisionLossScaleOptimizer(opt, loss_scale)


def disable_mixed_precision_graph_rewrite() -> None:
    """Nothing is rewritten."""
