"""Names that Spark itself, or what scores there, has other uses for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf


@pytest.mark.parametrize("name", ["sparkflow_predictions", "Sparkflow_Predictions"])
def test_a_prediction_of_the_name_that_scoring_uses(clusters: Any, tmp_path: Path, name: str) -> None:
    """The struct of predictions, which is dropped in the end, has that name until then."""
    with tf.Session(graph=tf.Graph()) as session, session.graph.as_default():
        x = tf.placeholder(tf.int64, [None])
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"id": x}, {name: x * 2})
    scored = tf.spark.load_model(str(tmp_path / "m")).transform(clusters.spark.range(3))
    assert scored.columns == ["id", name]
    assert sorted(row[1] for row in scored.collect()) == [0, 2, 4]
