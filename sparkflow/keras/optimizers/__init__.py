"""tf.keras.optimizers: Keras' rules of one step, for a model's `compile` or for `minimize`.

Factors are variables (`optimizer.lr`), so that callbacks may change them between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow.ops.training
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.keras.learning_rates import LearningRateSchedule
from sparkflow.keras.optimizer import Optimizer, Slots, TFOptimizer, named
from sparkflow.keras.optimizers import schedules
from sparkflow.ops import math, operators
from sparkflow.train.optimizer import Optimizer as TrainOptimizer
from sparkflow.train.optimizers import AdamOptimizer

__all__ = ["LearningRateSchedule", "Optimizer", "schedules"]


class SGD(Optimizer):
    """var -= lr * grad; with momentum, var += velocity after velocity = momentum * velocity - lr * grad."""

    _hypers = ("learning_rate", "momentum")

    def __init__(
        self, learning_rate: Any = 0.01, momentum: Any = 0.0, nesterov: bool = False, name: str = "SGD", **kwargs: Any
    ):
        super().__init__(name, {"learning_rate": learning_rate, "momentum": momentum}, kwargs)
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError(f"`momentum` must be between [0, 1], got {momentum}")
        self._moves = not isinstance(momentum, (int, float)) or momentum > 0
        self.nesterov = nesterov
        self._slot_names = ("momentum",) if self._moves else ()

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        if not self._moves:
            return f["lr"] * grad, {}
        velocity = f["momentum"] * slots["momentum"] - f["lr"] * grad
        step = f["lr"] * grad - f["momentum"] * velocity if self.nesterov else -velocity
        return step, {"momentum": velocity}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "nesterov": self.nesterov}


class RMSprop(Optimizer):
    """rms follows grad ** 2; var -= lr * grad / (sqrt(rms) + epsilon). centered: of the variance instead."""

    _hypers = ("learning_rate", "rho", "momentum")
    _sparse = "decays"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: float | None = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ):
        super().__init__(name, {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}, kwargs, epsilon)
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError(f"`momentum` must be between [0, 1], got {momentum}")
        self.centered, self._moves = centered, not isinstance(momentum, (int, float)) or momentum > 0
        self._slot_names = ("rms", *(["momentum"] if self._moves else []), *(["mg"] if centered else []))
        self._sparse = "rows" if self._moves else "decays"

    def _decay(self, slot: str, f: Slots) -> Tensor:
        return f["rho"]

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        rho, rate = f["rho"], f["lr"]
        new = {"rms": rho * slots["rms"] + (1.0 - rho) * math.square(grad)}
        spread = new["rms"]
        if self.centered:
            new["mg"] = rho * slots["mg"] + (1.0 - rho) * grad
            spread = spread - math.square(new["mg"])
        if not self._moves:
            return rate * grad / (math.sqrt(spread) + f["epsilon"]), new
        new["momentum"] = f["momentum"] * slots["momentum"] + rate * grad / math.sqrt(spread + f["epsilon"])
        return new["momentum"], new

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon, "centered": self.centered}


class Adagrad(Optimizer):
    """accumulator += grad ** 2; var -= lr * grad / (sqrt(accumulator) + epsilon)."""

    _slot_names = ("accumulator",)

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float | None = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ):
        if initial_accumulator_value < 0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}")
        super().__init__(name, {"learning_rate": learning_rate}, kwargs, epsilon)
        self._initial_accumulator_value = self._starts["accumulator"] = initial_accumulator_value

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        total = slots["accumulator"] + math.square(grad)
        return f["lr"] * grad / (math.sqrt(total) + f["epsilon"]), {"accumulator": total}

    def get_config(self) -> dict[str, Any]:
        own = {"initial_accumulator_value": self._initial_accumulator_value, "epsilon": self.epsilon}
        return {**super().get_config(), **own}


class Adadelta(Optimizer):
    """The gradient, scaled by the running root mean square of steps over that of gradients."""

    _hypers = ("learning_rate", "rho")
    _slot_names = ("accum_grad", "accum_var")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: float | None = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ):
        super().__init__(name, {"learning_rate": learning_rate, "rho": rho}, kwargs, epsilon)

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        rho, epsilon = f["rho"], f["epsilon"]
        grads = rho * slots["accum_grad"] + (1.0 - rho) * math.square(grad)
        step = math.sqrt(slots["accum_var"] + epsilon) / math.sqrt(grads + epsilon) * grad
        steps = rho * slots["accum_var"] + (1.0 - rho) * math.square(step)
        return f["lr"] * step, {"accum_grad": grads, "accum_var": steps}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


class _OfMoments(Optimizer):
    """With running means m of the gradient and v of its size, by beta_1 and beta_2."""

    _hypers = ("learning_rate", "beta_1", "beta_2")
    _slot_names: Sequence[str] = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float | None = 1e-7,
        name: str | None = None,
        **kwargs: Any,
    ):
        factors = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        super().__init__(name or type(self).__name__, factors, kwargs, epsilon)

    def _more_factors(self, f: Slots, step: Tensor) -> Slots:
        return {"power_1": math.pow(f["beta_1"], step), "power_2": math.pow(f["beta_2"], step)}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


class Adam(_OfMoments):
    """Running means m of the gradient and v of its square, each corrected for its start at zero. amsgrad: the largest
    v so far instead. Of a sparse gradient all rows decay and move. Source: Kingma and Ba 2015, Reddi et al. 2018."""

    _sparse = "dense"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float | None = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, **kwargs)
        self.amsgrad = amsgrad
        self._slot_names = ("m", "v", "vhat") if amsgrad else ("m", "v")

    def _apply_dense(self, grad: Tensor, var: Any, f: Slots) -> Operation:
        if self.amsgrad:
            return super()._apply_dense(grad, var, f)
        factors = [f[n] for n in ("power_1", "power_2", "lr", "beta_1", "beta_2", "epsilon")]
        slots = [self.get_slot(var, "m"), self.get_slot(var, "v")]
        return apply_op("ApplyAdam", [var, *slots, *factors, grad], {"use_locking": False}).op

    def _apply_sparse(self, grad: Any, var: Any, f: Slots) -> Operation:
        return super()._apply_sparse(grad, var, f) if self.amsgrad else _SparseAdam(self, f)._apply_sparse(grad, var)

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        rate = f["lr"] * math.sqrt(1.0 - f["power_2"]) / (1.0 - f["power_1"])
        new = {
            "m": f["beta_1"] * slots["m"] + (1.0 - f["beta_1"]) * grad,
            "v": f["beta_2"] * slots["v"] + (1.0 - f["beta_2"]) * math.square(grad),
        }
        new["vhat"] = math.maximum(slots["vhat"], new["v"])
        return rate * new["m"] / (math.sqrt(new["vhat"]) + f["epsilon"]), new

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "amsgrad": self.amsgrad}


class _SparseAdam(AdamOptimizer):
    """tf.train's nodes of a sparse step, which the runtime makes one of, with the slots and factors of another."""

    def __init__(self, owner: Adam, factors: Slots):
        super().__init__(name=owner._name)
        self._owner, self._known = owner, factors

    def get_slot(self, var: Any, name: str) -> Any:
        return self._owner.get_slot(var, name)

    def _factors(self, var: Any) -> list[Tensor]:
        return [self._known[n] for n in ("power_1", "power_2", "lr", "beta_1", "beta_2", "epsilon")]


class Adamax(_OfMoments):
    """Adam with the largest size of the gradient so far, decayed, instead of v. Source: Kingma and Ba 2015, s. 7.1."""

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        m = f["beta_1"] * slots["m"] + (1.0 - f["beta_1"]) * grad
        v = math.maximum(f["beta_2"] * slots["v"], math.abs(grad))
        return f["lr"] / (1.0 - f["power_1"]) * m / (v + f["epsilon"]), {"m": m, "v": v}


class Nadam(_OfMoments):
    """Adam with Nesterov's momentum, whose factor grows with the steps. Source: Dozat 2016."""

    _sparse = "decays"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: Any = 0.9,
        beta_2: Any = 0.999,
        epsilon: float | None = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ):
        kwargs["decay"] = kwargs.pop("schedule_decay", 0.004)
        if isinstance(learning_rate, LearningRateSchedule):
            raise ValueError("The Nadam optimizer does not support a LearningRateSchedule as its learning rate")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, **kwargs)
        self._rate_decays = False

    def _more_factors(self, f: Slots, step: Tensor) -> Slots:
        """The factor of this step and of the next, and the product of all up to now."""
        grown = lambda t: f["beta_1"] * (1.0 - 0.5 * math.pow(0.96, f["decay"] * t))  # noqa: E731
        now, after = grown(step), grown(step + 1.0)
        product = self._shared("momentum_cache", 1.0, f["lr"].dtype)
        f["all"] = product * now
        return {"now": now, "after": after, "power_2": math.pow(f["beta_2"], step)}

    def _end(self, f: Slots) -> list[Any]:
        return [self._shared("momentum_cache", 1.0, f["lr"].dtype).assign(f["all"])]

    def _decay(self, slot: str, f: Slots) -> Tensor:
        return f["beta_1"] if slot == "m" else f["beta_2"]

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        m = f["beta_1"] * slots["m"] + (1.0 - f["beta_1"]) * grad
        v = f["beta_2"] * slots["v"] + (1.0 - f["beta_2"]) * math.square(grad)
        ahead = (1.0 - f["now"]) * grad / (1.0 - f["all"]) + f["after"] * m / (1.0 - f["all"] * f["after"])
        return f["lr"] * ahead / (math.sqrt(v / (1.0 - f["power_2"])) + f["epsilon"]), {"m": m, "v": v}


class Ftrl(Optimizer):
    """FTRL-Proximal: Adagrad's rates, with l1 that keeps weights at exactly zero. Source: McMahan et al. 2013."""

    _slot_names = ("accumulator", "linear")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(name, {"learning_rate": learning_rate}, kwargs)
        self._own = {
            "learning_rate_power": learning_rate_power,
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
            "beta": beta,
        }
        self._starts["accumulator"] = initial_accumulator_value

    def _slot_order(self, params: list[Any]) -> list[tuple[str, Any]]:
        return [(slot, var) for var in params for slot in self._slot_names]

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        own, rate, var = self._own, f["lr"], slots["var"]
        l2 = own["l2_regularization_strength"] + own["beta"] / (2.0 * rate)
        shrunk = grad + 2.0 * own["l2_shrinkage_regularization_strength"] * var
        total = slots["accumulator"] + math.square(grad)
        power = -own["learning_rate_power"]
        grown = math.pow(total, power)
        linear = slots["linear"] + shrunk - (grown - math.pow(slots["accumulator"], power)) / rate * var
        l1 = own["l1_regularization_strength"]
        pulled = math.maximum(math.minimum(linear, l1), -l1) - linear
        return var - pulled / (grown / rate + 2.0 * l2), {"accumulator": total, "linear": linear}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._own}


_BY_NAME = {c.__name__.lower(): c for c in (SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam, Ftrl)}


def get(identifier: Any) -> Any:
    """The optimizer of that name, of that config, or itself; a tf.train one in a TFOptimizer. Raises ValueError."""
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, TrainOptimizer):
        return TFOptimizer(identifier)
    if isinstance(identifier, dict):
        return deserialize(identifier)
    return named(_BY_NAME, identifier)()


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    kinds = {**_BY_NAME, **{k.lower(): v for k, v in (custom_objects or {}).items()}}
    return named(kinds, config["class_name"]).from_config(config["config"])


def serialize(optimizer: Any) -> dict[str, Any]:
    return {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}
