"""KMeansClustering: k-means as an Estimator (tf.contrib.factorization; tf.estimator.experimental.KMeans)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow import logging, metrics, summary, train
from sparkflow.estimator import clustering
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.export import PredictOutput
from sparkflow.estimator.spec import EstimatorSpec
from sparkflow.feature_column import input_layer
from sparkflow.framework.scopes import control_dependencies
from sparkflow.ops import array_join, math_reduce, state
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from sparkflow_runtime.wire.errors import DeadlineExceededError

_WAIT_S, _LOOK_S = 600.0, 0.5


class _ChooseHook(train.SessionRunHook):
    """Chooses the first centres, of the first points that come. A hook of the chief's, since these come before the one
    that saves a first checkpoint: an input of a single batch has none left for a step after that."""

    def __init__(self, choose: Any, ready: Any):
        self._choose, self._ready = choose, ready

    def after_create_session(self, session: Any, coord: Any) -> None:
        if not session.run(self._ready):  # choosing takes a batch
            session.run(self._choose)


class _WaitHook(train.SessionRunHook):
    """Other workers wait for the chief to choose."""

    def __init__(self, ready: Any):
        self._ready = ready

    def after_create_session(self, session: Any, coord: Any) -> None:
        ends = time.monotonic() + _WAIT_S
        while not session.run(self._ready):
            if time.monotonic() > ends:
                raise DeadlineExceededError(
                    f"KMeansClustering: the chief has not chosen the first centres for {_WAIT_S:.0f} s; is it running?"
                )
            time.sleep(_LOOK_S)


class _StandsStillHook(train.SessionRunHook):
    """Ends training where the loss changes by no larger a part than `tolerance` from one step to the next."""

    def __init__(self, loss: Any, tolerance: float):
        self._loss, self._tolerance = loss, tolerance
        self._before: float | None = None

    def before_run(self, run_context: Any) -> Any:
        return train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss, before = float(run_values.results), self._before
        if before is not None and abs(loss - before) / (1 + before) < self._tolerance:
            logging.info("KMeansClustering: loss %g after %g: training ends", loss, before)
            run_context.request_stop()
        self._before = loss


class KMeansClustering(Estimator):
    """Clusters of points, in batches that input functions give: features [n, d], or a dict whose columns are put side
    by side in the order of their names, or by feature_columns; no labels.

    relative_tolerance: training ends where the loss changes by less, as a part of it. The others as of
    estimator/clustering.py's KMeans.
    """

    SQUARED_EUCLIDEAN_DISTANCE = clustering.SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = clustering.COSINE_DISTANCE
    RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = clustering.RANDOM_INIT, clustering.KMEANS_PLUS_PLUS_INIT
    SCORE, CLUSTER_INDEX, ALL_DISTANCES = "score", "cluster_index", "all_distances"
    CLUSTER_CENTERS_VAR_NAME = clustering.CLUSTERS_VAR_NAME

    def __init__(
        self, num_clusters: int, model_dir: str | None = None, initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, random_seed: int | None = 0, use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1, kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None, config: Any = None, feature_columns: Sequence[Any] | None = None,
    ):  # fmt: skip
        self._metric = distance_metric

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            if labels is not None:
                raise ValueError("It does not make sense to provide labels for clustering; got some of the input_fn")
            made = clustering.KMeans(
                _points(features, feature_columns), num_clusters, initial_clusters, distance_metric, use_mini_batch,
                mini_batch_steps_per_iteration, random_seed, kmeans_plus_plus_num_retries,
            )  # fmt: skip
            (distances,), (index,), (least,), ready, _, choose, move = made.training_graph()
            loss = math_reduce.reduce_sum(least)
            summary.scalar("loss/raw", loss)
            with control_dependencies([move]):
                step = state.assign_add(train.get_or_create_global_step(), 1)
            hooks: list[Any] = [] if config.is_chief else [_WaitHook(ready)]
            if relative_tolerance is not None:
                hooks.append(_StandsStillHook(loss, relative_tolerance))
            outputs = {name: PredictOutput({name: value}) for name, value in
                       ((self.ALL_DISTANCES, distances), (self.CLUSTER_INDEX, index))}  # fmt: skip
            return EstimatorSpec(
                mode, {self.ALL_DISTANCES: distances, self.CLUSTER_INDEX: index}, loss, step.op,
                {self.SCORE: metrics.mean(loss)}, training_hooks=hooks,
                training_chief_hooks=[_ChooseHook(choose, ready)],
                export_outputs={**outputs, DEFAULT_SERVING_SIGNATURE_DEF_KEY: outputs[self.CLUSTER_INDEX]},
            )  # fmt: skip

        super().__init__(model_fn, model_dir, config)

    def cluster_centers(self) -> np.ndarray:
        return self.get_variable_value(self.CLUSTER_CENTERS_VAR_NAME)

    def predict_cluster_index(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        for found in self.predict(input_fn, self.CLUSTER_INDEX):
            yield found[self.CLUSTER_INDEX]

    def transform(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        """The distance of each point to each centre; of the squared ones the root."""
        for found in self.predict(input_fn, self.ALL_DISTANCES):
            far = found[self.ALL_DISTANCES]
            yield np.sqrt(far) if self._metric == self.SQUARED_EUCLIDEAN_DISTANCE else far

    def score(self, input_fn: Callable[..., Any]) -> float:
        """The sum of the distances of a batch's points to their centres."""
        return float(self.evaluate(input_fn, steps=1)[self.SCORE])


def _points(features: Any, columns: Sequence[Any] | None) -> Any:
    if columns:
        return input_layer(features, columns)
    return (
        array_join.concat([features[name] for name in sorted(features)], 1) if isinstance(features, dict) else features
    )
