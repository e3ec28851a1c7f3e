"""Training as a stage of pyspark.ml: in a Pipeline, under a CrossValidator, saved with the others.

    training = tf.spark.MLEstimator(model_fn, label="click", checkpoint_dir="/shared/clicks", workers=4)
    fitted = Pipeline(stages=[StringIndexer(...), VectorAssembler(...), training]).fit(df)
    fitted.write().save("/shared/fitted")  # and PipelineModel.load

What Spark's evaluators read are doubles: cast predictions to float64 for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import DataFrame

from sparkflow_connectors import model as models
from sparkflow_connectors import spark
from sparkflow_connectors.saved import load_model
from sparkflow_connectors.saving import mounted
from sparkflow_runtime.wire.errors import InvalidArgumentError

_DOCS = {
    "label": "the column that is learned",
    "features": "the columns that the model reads; by default all but the label",
    "checkpoint_dir": "where checkpoints are kept; every task and the driver see it",
    "model_params": "what the model function is handed as params",
    **dict.fromkeys(
        (
            "workers", "ps", "sync", "strategy", "carried_as", "epochs", "batch_size", "validation", "uneven",
            "feed_bytes", "patience", "checkpoint_s", "summary_steps", "step_timeout_s", "keepalive_s", "max_restarts",
            "seed", "threads", "partition_by", "order_by", "slots", "read_files",
        ),
        "as of sparkflow's train",
    ),
}  # fmt: skip
_FITS, _MODEL = "fits", "model"


class MLEstimator(Estimator[Any]):
    """`tf.spark.train` as a stage. options: its arguments; each is a Param, so that a ParamGridBuilder takes it. The
    model function's `params` are the Param `model_params`, as pyspark.ml means another thing by that.

    The first `fit` trains in checkpoint_dir, and goes on there when it is called again after an error, or the program
    runs again. Every other one, and each with Params of its own (a CrossValidator's), has a new folder below it: it is
    of other rows or settings.
    Raises InvalidArgumentError on an option that there is not, and as `train` does.
    """

    def __init__(
        self, model_fn: Callable[..., Any], *, label: Any, checkpoint_dir: str, params: Mapping[str, Any] | None = None,
        **options: Any,
    ):  # fmt: skip
        super().__init__()
        self._model_fn, self._fitted = model_fn, list[Any]()  # which copies share
        self._is_varied = False
        given = {"label": label, "checkpoint_dir": checkpoint_dir, "model_params": dict(params or {}), **options}
        if unknown := sorted(given.keys() - _DOCS):
            raise InvalidArgumentError(f"MLEstimator has no option {unknown[0]!r}; it has {', '.join(_DOCS)}")
        self._set(**{name: value for name, value in given.items() if value is not None})

    def copy(self, extra: Any = None) -> MLEstimator:
        other = super().copy(extra)
        other._is_varied = self._is_varied or bool(extra)
        return other

    def _fit(self, dataset: DataFrame) -> MLModel:
        options = {p.name: self.getOrDefault(p) for p in self.params if self.isDefined(p)}
        options["params"], root = options.pop("model_params", None), options.pop("checkpoint_dir", None)
        first = not (self._is_varied or self._fitted)
        if first:
            self._fitted.append(root)
        elif root is not None:
            root = os.path.join(os.fsdecode(root), _FITS, token_hex(8))
        options.setdefault("label", None)
        try:
            return MLModel(spark.train(dataset, self._model_fn, checkpoint_dir=root, **options))
        except BaseException:
            if first:
                self._fitted.clear()  # the next one goes on there
            raise


for _name, _doc in _DOCS.items():
    setattr(MLEstimator, _name, Param(Params._dummy(), _name, _doc))


class MLModel(Model, MLWritable, MLReadable["MLModel"]):
    """A trained Model, `model`, as a stage: it adds a column for each prediction. Saved by `Model.save`."""

    def __init__(self, model: models.Model):
        super().__init__()
        self.model = model

    def _transform(self, dataset: DataFrame) -> DataFrame:
        found: DataFrame = self.model.transform(dataset)
        return found

    def write(self) -> MLWriter:
        return _Writer(self)

    @classmethod
    def read(cls) -> _Reader:
        return _Reader()


class _Writer(MLWriter):
    def __init__(self, stage: MLModel):
        super().__init__()
        self._stage = stage

    def saveImpl(self, path: str) -> None:
        folder = mounted(path)
        models.check_fingerprint(self._stage.model)  # before anything is there
        DefaultParamsWriter.saveMetadata(self._stage, path, self.sparkSession)
        self._stage.model.save(os.path.join(folder, _MODEL))


class _Reader(MLReader[MLModel]):
    def load(self, path: str) -> MLModel:
        told = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        stage = MLModel(load_model(os.path.join(mounted(path), _MODEL)))
        stage._resetUid(told["uid"])
        return stage
