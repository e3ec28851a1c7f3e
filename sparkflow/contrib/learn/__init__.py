"""tf.contrib.learn: estimators with fit, and models ready to be fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow.contrib.layers.columns import real_valued_column
from sparkflow.contrib.learn import datasets, preprocessing
from sparkflow.estimator import Estimator, ModeKeys, RunConfig, canned, inputs
from sparkflow.ops import nn

__all__ = [
    "DNNClassifier", "DNNRegressor", "Estimator", "LinearClassifier", "LinearRegressor", "ModeKeys", "RunConfig",
    "datasets", "infer_real_valued_columns_from_input", "infer_real_valued_columns_from_input_fn", "preprocessing",
]  # fmt: skip

_FEATURE = ""  # of arrays, which have no names


class _Fits(Estimator):
    """fit, evaluate and predict of arrays, or of an input_fn. Comes before another Estimator in a class's bases."""

    def _input(self, x: Any, y: Any, input_fn: Any, batch_size: int | None, epochs: int | None, shuffle: bool) -> Any:
        if (x is None) == (input_fn is None):
            raise ValueError("Either x or input_fn must be provided.")
        if input_fn is not None:
            return input_fn
        features = x if isinstance(x, dict) else {_FEATURE: _floats(x)}
        rows = len(next(iter(features.values())))
        targets = None if y is None else np.asarray(y)
        return inputs.numpy_input_fn(features, targets, batch_size or rows, epochs, shuffle)

    def fit(
        self, x: Any = None, y: Any = None, input_fn: Callable[[], Any] | None = None, steps: int | None = None,
        batch_size: int | None = None, monitors: Sequence[Any] | None = None, max_steps: int | None = None,
    ) -> Any:  # fmt: skip
        """So many steps over the rows (all of them in each, by default), or to the end of input_fn's."""
        given = self._input(x, y, input_fn, batch_size, None, True)
        return self.train(given, monitors, steps, max_steps)

    def evaluate(  # type: ignore[override]
        self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
        steps: int | None = None, hooks: Any = None, checkpoint_path: str | None = None, name: str | None = None,
        **_: Any,
    ) -> Any:  # fmt: skip
        given = self._input(x, y, input_fn, batch_size, 1, False)
        return super().evaluate(given, steps, hooks, checkpoint_path, name)

    def _predicted(self, key: str, x: Any, input_fn: Any, batch_size: int | None) -> Iterator[Any]:
        given = self._input(x, None, input_fn, batch_size, 1, False)
        found = super().predict(given, predict_keys=[key])
        return (row[key] for row in found)

    _answer = "predictions"

    def predict(  # type: ignore[override]
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True, **_: Any
    ) -> Any:
        """The class, or the number, of each example, one after the other or as an array."""
        found = (row[0] if len(row) == 1 else row for row in self._predicted(self._answer, x, input_fn, batch_size))
        return found if as_iterable else np.array(list(found))


class _Classifies(_Fits):
    _answer = "class_ids"
    predict_classes = _Fits.predict

    def predict_proba(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The classes' probabilities for each example."""
        found = self._predicted("probabilities", x, input_fn, batch_size)
        return found if as_iterable else np.array(list(found))


class LinearClassifier(_Classifies, canned.LinearClassifier):
    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, config: Any = None, **_: Any,
    ):  # fmt: skip
        super().__init__(feature_columns, model_dir, n_classes, weight_column_name, None, optimizer or "Ftrl", config)


class LinearRegressor(_Fits, canned.LinearRegressor):
    def __init__(
        self, feature_columns: Any, model_dir: str | None = None, weight_column_name: str | None = None,
        optimizer: Any = None, label_dimension: int = 1, config: Any = None, **_: Any,
    ):  # fmt: skip
        super().__init__(feature_columns, model_dir, label_dimension, weight_column_name, optimizer or "Ftrl", config)


class DNNClassifier(_Classifies, canned.DNNClassifier):
    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None, n_classes: int = 2,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, config: Any = None, **_: Any,
    ):  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, n_classes, weight_column_name, None,
                         optimizer or "Adagrad", activation_fn, dropout, None, config)  # fmt: skip


class DNNRegressor(_Fits, canned.DNNRegressor):
    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, model_dir: str | None = None,
        weight_column_name: str | None = None, optimizer: Any = None, activation_fn: Any = nn.relu,
        dropout: float | None = None, label_dimension: int = 1, config: Any = None, **_: Any,
    ):  # fmt: skip
        super().__init__(hidden_units, feature_columns, model_dir, label_dimension, weight_column_name,
                         optimizer or "Adagrad", activation_fn, dropout, None, config)  # fmt: skip


def _floats(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """One column of as many numbers as x, an array [examples, n], has; or one for each array of a dict."""
    named = x if isinstance(x, dict) else {_FEATURE: np.asarray(x)}
    return [real_valued_column(k, 1 if len(np.shape(v)) == 1 else int(np.shape(v)[1])) for k, v in named.items()]


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[Any]:
    """As infer_real_valued_columns_from_input, of the features that input_fn makes."""
    from sparkflow.framework.graph import Graph

    with Graph().as_default():
        features = input_fn()[0]
        named = features if isinstance(features, dict) else {_FEATURE: features}
        return [real_valued_column(k, 1 if len(v.shape) == 1 else int(v.shape[1])) for k, v in named.items()]
