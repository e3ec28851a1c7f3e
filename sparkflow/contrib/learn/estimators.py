"""tf.contrib.learn's Estimator, whose model function is asked (features, labels, ...), and SKCompat around one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from sparkflow.contrib.learn import model_fn, run_config
from sparkflow.contrib.learn.fitting import Fits, stacked
from sparkflow.contrib.learn.model_fn import ModeKeys, spec_of
from sparkflow.estimator import Estimator as _Estimator
from sparkflow.estimator import EstimatorSpec
from sparkflow.framework.graph import Tensor
from sparkflow.framework.signatures import fn_args
from sparkflow.ops.array import placeholder

_SK_BATCH = 128
# As TensorFlow has them: estimators.model_fn.ModelFnOps, estimators.run_config.RunConfig.
constants = prediction_key = model_fn
RunConfig = run_config.RunConfig


class Estimator(Fits):
    """model_fn(features, labels, mode, params, config, model_dir) -> ModelFnOps, or (predictions, loss, train_op); the
    last four are passed where it names them. Of arrays, features and labels are tensors.

    feature_engineering_fn(features, labels) -> (features, labels) comes before it. A function that asks for labels gets
    placeholders for them where it predicts, as it may make a loss of them that nobody runs; they are known once the
    model was fitted or evaluated by this object.
    """

    _answer = None  # type: ignore[assignment]

    def __init__(
        self, model_fn: Callable[..., Any], model_dir: str | None = None, config: Any = None, params: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ):  # fmt: skip
        named = fn_args(model_fn)
        if params is not None and "params" not in named:
            raise ValueError(
                f"Estimator's model_fn ({model_fn}) does not have a params argument, but params ({params}) were passed "
                "to the Estimator's constructor."
            )
        if len(named) < 2:
            raise ValueError(f"model_fn ({model_fn}) must take features and labels, it takes {list(named)}")
        self._known: dict[str, Any] = {}  # labels, as they were last given: what there are placeholders of

        def asked(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
            if feature_engineering_fn is not None:
                features, labels = feature_engineering_fn(features, labels)
            given = {"mode": mode, "params": params, "config": config, "model_dir": self.model_dir}
            return spec_of(model_fn(features, labels, **{k: v for k, v in given.items() if k in named[2:]}), mode)

        super().__init__(asked, model_dir, config, params)

    def _call(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if labels is not None:
            self._known["labels"] = _each(labels, _of_any_batch)
        elif mode == ModeKeys.INFER and self._known:
            labels = _each(self._known["labels"], lambda known: placeholder(*known))
        return super()._call(features, labels, mode)

    def _features(self, x: Any) -> Any:
        return x

    def _old(self, predictions: Any, alone: Callable[[Any], Any]) -> Any:
        return predictions

    def _old_row(self, row: Any) -> Any:
        return row


def _of_any_batch(labels: Tensor) -> tuple[Any, Any]:
    """dtype and shape; of those that are predicted there may be other numbers."""
    dims = labels.shape.as_list() if labels.shape.ndims else None
    return labels.dtype.base_dtype, dims and [None, *dims[1:]]


def _each(labels: Any, of: Callable[[Any], Any]) -> Any:
    if isinstance(labels, Mapping):
        return {key: of(value) for key, value in labels.items() if isinstance(value, (Tensor, tuple))}
    return of(labels) if isinstance(labels, (Tensor, tuple)) else None


class SKCompat:
    """An estimator as scikit-learn asks one: of arrays alone, and answering with arrays. Raises ValueError on one that
    is not of tf.contrib.learn."""

    def __init__(self, estimator: Any):
        if isinstance(estimator, Fits):
            self._estimator = copy(estimator)
            return
        kind = "tf.estimator's, which has no fit" if isinstance(estimator, _Estimator) else type(estimator).__name__
        raise ValueError(f"SKCompat is for estimators of tf.contrib.learn, got {kind}")

    def fit(
        self, x: Any, y: Any, batch_size: int = _SK_BATCH, steps: int | None = None, max_steps: int | None = None,
        monitors: Any = None,
    ) -> SKCompat:  # fmt: skip
        self._estimator.fit(x, y, None, steps, batch_size, monitors, max_steps)
        return self

    def score(
        self, x: Any, y: Any, batch_size: int = _SK_BATCH, steps: int | None = None, metrics: Any = None,
        name: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The metrics, by name."""
        return dict(self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name))

    def predict(self, x: Any, batch_size: int = _SK_BATCH, outputs: Any = None) -> Any:
        """An array of each output, by name: of classifiers classes, probabilities and logits, of regressors scores."""
        if outputs is not None:
            return self._estimator.predict(x, None, batch_size, outputs, False)
        return stacked(self._estimator.all_outputs(x, None, batch_size))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"estimator": self._estimator}
