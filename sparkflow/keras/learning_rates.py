"""tf.keras.optimizers.schedules: learning rates as functions of the step, by tf.train's formulas."""

from __future__ import annotations

from typing import Any, ClassVar

from sparkflow.train import learning_rate as rates


class LearningRateSchedule:
    """A subclass says __call__(step) and get_config()."""

    def __call__(self, step: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its rate: define __call__(step)")

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say what it is made of: define get_config()")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class _Known(LearningRateSchedule):
    """One of tf.train's functions; `_names`: its arguments with their defaults."""

    _names: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any):
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        missing = [n for n, default in self._names.items() if default is ... and n not in given]
        unknown = sorted(set(given) - set(self._names))
        if missing or unknown or len(args) > len(self._names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._names)}: missing {missing}, not {unknown}")
        self._config = {**self._names, **given}

    def get_config(self) -> dict[str, Any]:
        return dict(self._config)


class ExponentialDecay(_Known):
    """initial_learning_rate * decay_rate ** (step / decay_steps)."""

    _names: ClassVar[dict[str, Any]] = {
        "initial_learning_rate": ..., "decay_steps": ..., "decay_rate": ..., "staircase": False, "name": None,
    }  # fmt: skip

    def __call__(self, step: Any) -> Any:
        c = self._config
        return rates.exponential_decay(
            c["initial_learning_rate"], step, c["decay_steps"], c["decay_rate"], c["staircase"], c["name"]
        )


class InverseTimeDecay(ExponentialDecay):
    """initial_learning_rate / (1 + decay_rate * step / decay_steps)."""

    def __call__(self, step: Any) -> Any:
        c = self._config
        return rates.inverse_time_decay(
            c["initial_learning_rate"], step, c["decay_steps"], c["decay_rate"], c["staircase"], c["name"]
        )


class PiecewiseConstantDecay(_Known):
    """values[i] up to boundaries[i], the last of the values beyond."""

    _names: ClassVar[dict[str, Any]] = {"boundaries": ..., "values": ..., "name": None}

    def __call__(self, step: Any) -> Any:
        bounds = [float(b) for b in self._config["boundaries"]]
        return rates.piecewise_constant(step, bounds, self._config["values"], self._config["name"])


class PolynomialDecay(_Known):
    """From initial_learning_rate to end_learning_rate in decay_steps."""

    _names: ClassVar[dict[str, Any]] = {
        "initial_learning_rate": ..., "decay_steps": ..., "end_learning_rate": 0.0001, "power": 1.0, "cycle": False,
        "name": None,
    }  # fmt: skip

    def __call__(self, step: Any) -> Any:
        c = self._config
        return rates.polynomial_decay(
            c["initial_learning_rate"],
            step,
            c["decay_steps"],
            c["end_learning_rate"],
            c["power"],
            c["cycle"],
            c["name"],
        )


class CosineDecay(_Known):
    """From initial_learning_rate to alpha of it along a cosine."""

    _names: ClassVar[dict[str, Any]] = {"initial_learning_rate": ..., "decay_steps": ..., "alpha": 0.0, "name": None}

    def __call__(self, step: Any) -> Any:
        c = self._config
        return rates.cosine_decay(c["initial_learning_rate"], step, c["decay_steps"], c["alpha"], c["name"])


class CosineDecayRestarts(_Known):
    """CosineDecay again and again, each t_mul times as long and m_mul times as high."""

    _names: ClassVar[dict[str, Any]] = {
        "initial_learning_rate": ..., "first_decay_steps": ..., "t_mul": 2.0, "m_mul": 1.0, "alpha": 0.0, "name": None,
    }  # fmt: skip

    def __call__(self, step: Any) -> Any:
        c = self._config
        return rates.cosine_decay_restarts(
            c["initial_learning_rate"], step, c["first_decay_steps"], c["t_mul"], c["m_mul"], c["alpha"], c["name"]
        )


_ALL = (ExponentialDecay, InverseTimeDecay, PiecewiseConstantDecay, PolynomialDecay, CosineDecay, CosineDecayRestarts)


def serialize(schedule: LearningRateSchedule) -> dict[str, Any]:
    return {"class_name": type(schedule).__name__, "config": schedule.get_config()}


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    kinds = {c.__name__: c for c in _ALL} | dict(custom_objects or {})
    return kinds[config["class_name"]].from_config(config["config"])
