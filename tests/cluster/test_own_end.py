"""A model function with an input of its own, or a hook, that says the data is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import own_end


def ending_model() -> Callable[..., Any]:
    """params: elements, of its own dataset; stop, whether a hook raises StopIteration at step 30 instead."""

    def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any]) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": features["x"] * w})
        loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        own = tf.data.Dataset.range(params["elements"]).make_one_shot_iterator().get_next()
        loss += 0.0 * tf.cast(own, tf.float32)

        class Stop(tf.train.SessionRunHook):
            steps = 0

            def after_run(self, run_context: Any, run_values: Any) -> None:
                self.steps += 1
                if params["stop"] and self.steps == 30:
                    raise StopIteration("enough")

        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Stop()])

    return model_fn


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "stop, told",
    [(False, r"The model's own input ended at epoch 2, step \d+\. .*repeat"), (True, r"StopIteration\(enough\)")],
)
def test_a_model_that_ends_by_itself_is_refused(
    clusters: Any, table: pa.Table, tmp_path: Path, none_left: Any, workers: int, stop: bool, told: str
) -> None:
    """Behind the first epoch there is a checkpoint, which passed for that of all epochs."""
    params = {"elements": 1000 if stop else 3000 // 64 // workers + 5, "stop": stop}
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s)^worker \d: .*{told}"):
        clusters.train(
            "local", table, tmp_path / "out", model_fn=ending_model(), params=params, sync=False, workers=workers, ps=1
        )
    none_left()


def test_the_end_of_another_tasks_queue_is_that_tasks_story() -> None:
    error = tf.errors.OutOfRangeError(None, None, "closed")
    error.device = "/job:ps/replica:0/task:0/device:CPU:0"
    told = r"^Another task ended training at step 3: closed"
    with pytest.raises(tf.errors.UnavailableError, match=told), own_end.refused(1, lambda: "step 3"):
        raise error
