"""How trainings end that do not come to their end, and what stands beside them: what is said, what is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors import local


@pytest.mark.parametrize("rows", [pytest.param(1500, marks=pytest.mark.slow), 200])
def test_rows_that_do_not_end_hide_no_error(
    clusters: Any,
    table: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
    none_left: Any,
    rows: int,
) -> None:
    """What reads them was the error that was told, and for a loss, so that what cannot work was begun again; and a
    worker whose queue had room for more rows told nothing before these came."""
    over, whole = threading.Event(), local.pieces_of

    def stuck(batches: Any, job: Any) -> Iterator[Any]:
        yield from whole([batch.slice(0, rows) for batch in batches], job)
        over.wait(60)

    monkeypatch.setattr(local, "pieces_of", stuck)
    monkeypatch.setattr(local, "_CANCEL_S", 1.0)
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="The loss is nan at epoch 1"):
            clusters.train("local", table, tmp_path, model_fn=_without_a_loss, sync=False, feed_bytes=8192)
    finally:
        over.set()
    assert "What reads the rows of local workers [0, 1] did not end within 1 s" in caplog.text
    none_left()


def _without_a_loss(features: dict[str, Any], labels: Any, mode: str) -> Any:
    w = tf.get_variable("w", [])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"p": features["x"] * w})
    loss = tf.reduce_mean(features["x"] * w) * float("nan")
    train_op = tf.assign_add(tf.train.get_global_step(), 1)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Pause()])


class Pause(tf.train.SessionRunHook):
    def after_run(self, run_context: Any, run_values: Any) -> None:
        time.sleep(1)
