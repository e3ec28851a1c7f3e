"""Ready-made estimators of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

experimental = tf.estimator.experimental


def _sequences() -> Any:
    """Label 1 where the last word is 2, whatever came before; "kind" is that of the whole sequence."""
    rows = [[1, 2], [2, 2, 2], [2, 1], [1, 1, 1], [2], [1], [1, 1, 2], [2, 2, 1]]
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    words = tf.SparseTensor(indices, tf.constant([w for row in rows for w in row], tf.int64), [8, 3])
    return {"words": words, "kind": tf.zeros([8, 1])}, tf.constant([[row[-1] - 1] for row in rows])


def _columns() -> tuple[list[Any], list[Any]]:
    words = tf.feature_column.sequence_categorical_column_with_identity("words", 3)
    return [tf.feature_column.indicator_column(words)], [tf.feature_column.numeric_column("kind")]


@pytest.mark.parametrize("cell, size", [("basic_rnn", 6), ("lstm", 24), ("gru", 12)])
def test_a_classifier_learns_the_last_word(tmp_path: Any, cell: str, size: int) -> None:
    words, kind = _columns()
    config = tf.estimator.RunConfig(tf_random_seed=3)
    made = experimental.RNNClassifier(
        words, kind, [6], cell, model_dir=str(tmp_path), optimizer=tf.train.AdamOptimizer(0.1), config=config
    )
    made.train(_sequences, steps=40)
    assert made.evaluate(_sequences, steps=1)["accuracy"] == 1
    shapes = {name: made.get_variable_value(name).shape for name in made.get_variable_names()}
    kernels = [shape for name, shape in shapes.items() if name.startswith("rnn/rnn/") and name.endswith("kernel")]
    assert (10, size) in kernels  # 3 words, the kind, 6 units
    assert shapes["rnn/logits/dense/kernel"] == (6, 1)


def test_layers_and_cells_of_ones_own(tmp_path: Any) -> None:
    """contrib's say num_units. The head is asked for each step where return_sequences is set."""
    words, _ = _columns()
    modes: list[str] = []

    def cell(mode: str) -> Any:
        modes.append(mode)
        return tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(3)])

    made = tf.contrib.estimator.RNNClassifier(words, rnn_cell_fn=cell, model_dir=str(tmp_path / "a"), n_classes=4)
    made.train(_sequences, steps=1)
    assert modes == ["train"] and made.get_variable_value("rnn/logits/dense/kernel").shape == (3, 4)
    head = tf.contrib.estimator.regression_head(label_dimension=2)
    stacked = tf.contrib.estimator.RNNEstimator(head, words, num_units=[4, 2], model_dir=str(tmp_path / "b"))
    stacked.train(lambda: (_sequences()[0], tf.zeros([8, 2])), steps=1)
    found = next(iter(stacked.predict(_sequences)))
    assert found["predictions"].shape == (2,) and np.isfinite(found["predictions"]).all()


def test_what_cells_can_be(graph: Any) -> None:
    words, _ = _columns()
    with pytest.raises(ValueError, match="must not be specified when using rnn_cell_fn"):
        experimental.RNNClassifier(words, units=3, rnn_cell_fn=lambda mode: None)
    with pytest.raises(ValueError, match=r"Supported cell types are .*; got 'other'"):
        experimental.RNNClassifier(words, units=3, cell_type="other")
    with pytest.raises(ValueError, match="must be given where rnn_cell_fn is not"):
        experimental.RNNClassifier(words)
