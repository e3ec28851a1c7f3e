"""Model.save: TensorFlow serves what was trained on a table here, with its files and variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow.compat.v1 as theirs

import sparkflow as tf

ROWS = np.arange(32)
TABLE = pa.table({"user": ROWS % 5, "x": (ROWS / 32).astype(np.float32), "y": (ROWS % 2).astype(np.float32)})


def test_their_session_scores_as_the_model_does(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("a\nb\n")

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        part = tf.get_variable("user", [5, 4], partitioner=tf.fixed_size_partitioner(2))
        rows = tf.nn.embedding_lookup(part, features["user"], partition_strategy="div")
        score = tf.squeeze(tf.layers.dense(tf.concat([rows, features["x"][:, None]], 1), 1), 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            table = tf.contrib.lookup.index_to_string_table_from_file(str(names), default_value="?")
            predictions = {"score": score, "name": table.lookup(features["user"])}
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        loss = tf.losses.sigmoid_cross_entropy(labels, score)
        train = tf.train.AdagradOptimizer(0.5).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    model = tf.local.train(TABLE, model_fn, label="y", epochs=2, batch_size=8, checkpoint_dir=str(tmp_path / "run"))
    wanted, out = model.transform(TABLE), model.save(tmp_path / "out")
    names.unlink()
    with theirs.Graph().as_default(), theirs.Session() as session:
        signature = theirs.saved_model.load(session, ["serve"], out).signature_def["serving_default"]
        fed = {t.name: TABLE[name].to_numpy() for name, t in signature.inputs.items()}
        found = session.run({name: t.name for name, t in signature.outputs.items()}, fed)
    np.testing.assert_allclose(found["score"], wanted["score"].to_numpy(), rtol=1e-5)
    assert [name.decode() for name in found["name"]] == wanted["name"].to_pylist()
