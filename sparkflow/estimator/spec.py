"""The model function's contract (tf.estimator): what it is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.ops import array


class ModeKeys:
    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True)
class EstimatorSpec:
    """What a model function returns.

    predictions: a Tensor or a dict of Tensors, one row an example (PREDICT).
    loss: scalar, the mean over the batch (TRAIN and EVAL). train_op: runs one step and increments the global step
    (TRAIN).
    training_hooks: SessionRunHooks of every worker; training_chief_hooks: of the first one.
    Raises ValueError where the mode's parts are missing.
    """

    mode: str
    predictions: Any = None
    loss: Tensor | None = None
    train_op: Any = None
    eval_metric_ops: dict[str, Any] | None = None
    export_outputs: Any = None
    training_chief_hooks: Sequence[Any] = ()
    training_hooks: Sequence[Any] = ()
    scaffold: Any = None
    evaluation_hooks: Sequence[Any] = ()
    prediction_hooks: Sequence[Any] = ()

    def _replace(self, **fields: Any) -> EstimatorSpec:
        """A copy with other fields."""
        return replace(self, **fields)

    def _asdict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__dataclass_fields__}

    def __post_init__(self) -> None:
        needed = {ModeKeys.TRAIN: ("loss", "train_op"), ModeKeys.EVAL: ("loss",), ModeKeys.PREDICT: ("predictions",)}
        if self.mode not in needed:
            raise ValueError(f"EstimatorSpec: mode must be one of {sorted(needed)}, got {self.mode!r}")
        missing = [part for part in needed[self.mode] if getattr(self, part) is None]
        if missing:
            raise ValueError(f"EstimatorSpec: mode {self.mode!r} needs {' and '.join(missing)}")
        if self.loss is not None and self.loss.shape.ndims not in (0, None):
            if self.loss.shape.num_elements() not in (None, 1):
                raise ValueError(
                    f"EstimatorSpec: the loss must be a scalar, got shape {self.loss.shape} of {self.loss.name!r}"
                )
            object.__setattr__(self, "loss", array.reshape(self.loss, []))
        for hooks in ("training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks"):
            object.__setattr__(self, hooks, tuple(getattr(self, hooks) or ()))  # None is as good as none
        for key, metric in (self.eval_metric_ops or {}).items():
            if not isinstance(metric, tuple) or len(metric) != 2:
                raise TypeError(
                    "Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                    f"given: {metric} for key: {key}"
                )
