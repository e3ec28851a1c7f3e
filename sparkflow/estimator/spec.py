"""The model function's contract (tf.estimator): what it is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkflow.framework.apply import is_tensor_like
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.ops import array
from sparkflow.ops.ragged import RaggedTensor
from sparkflow.train.scaffold import Scaffold
from sparkflow.train.session_run_hook import SessionRunHook


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
        self._check_types()
        for key, metric in (self.eval_metric_ops or {}).items():
            if not isinstance(metric, tuple) or len(metric) != 2:
                raise TypeError(
                    "Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                    f"given: {metric} for key: {key}"
                )
            _check_run(f"Update op of eval_metric_ops {key!r}", metric[1])

    def _check_types(self) -> None:
        """Raises TypeError where a part would only fail when the model is trained, evaluated or exported."""
        if self.train_op is not None:
            _check_run("train_op", self.train_op)
        given = self.predictions
        for value in given.values() if isinstance(given, Mapping) else () if given is None else (given,):
            if not is_tensor_like(value) and not isinstance(value, RaggedTensor):
                raise TypeError(f"predictions must be Tensors, given: {value!r}")
        if self.export_outputs is not None and not isinstance(self.export_outputs, Mapping):
            raise TypeError(f"export_outputs must be a dict of ExportOutputs by name, given: {self.export_outputs!r}")
        for hooks in ("training_chief_hooks", "training_hooks", "evaluation_hooks", "prediction_hooks"):
            if wrong := [hook for hook in getattr(self, hooks) if not isinstance(hook, SessionRunHook)]:
                raise TypeError(f"All {hooks} must be SessionRunHook instances, given: {wrong[0]!r}")
        if self.scaffold is not None and not isinstance(self.scaffold, Scaffold):
            raise TypeError(f"scaffold must be a tf.train.Scaffold, given: {self.scaffold!r}")


def _check_run(what: str, value: Any) -> None:
    if not is_tensor_like(value) and not isinstance(value, Operation):
        raise TypeError(f"{what} must be an Operation or a Tensor, given: {value!r}")
