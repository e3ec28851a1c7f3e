"""What layers and cells have of Keras: their configs, their weights as arrays, their counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def test_layers_are_made_anew_by_their_configs(graph: Any) -> None:
    made = [
        tf.layers.Dense(3, tf.nn.relu, name="d"),
        tf.layers.Conv2D(3, 2, padding="same"),
        tf.layers.SeparableConv2D(4, 3),
        tf.layers.Conv2DTranspose(2, 3, 2),
        tf.layers.BatchNormalization(momentum=0.5),
        tf.layers.Dropout(0.3),
        tf.layers.MaxPooling2D(2, 2),
    ]
    for layer in made:
        config = layer.get_config()
        again = type(layer).from_config(config)
        assert {**again.get_config(), "name": None} == {**config, "name": None}
    assert tf.layers.Dense(3, name="d").get_config()["units"] == 3

    class Own(tf.layers.Layer):  # type: ignore[misc]
        def __init__(self, by: int, **kwargs: Any):
            super().__init__(**kwargs)
            self.by = by

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "by": self.by}

    assert Own.from_config(Own(2, name="own").get_config()).by == 2


def test_weights_are_set_and_read(graph: Any) -> None:
    layer = tf.layers.Dense(2)
    out = layer(tf.ones([1, 3]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        layer.set_weights([np.full((3, 2), 2.0), [0.5, 1.0]])
        assert session.run(out).tolist() == [[6.5, 7.0]]
        np.testing.assert_array_equal(layer.get_weights()[1], [0.5, 1.0])
        with pytest.raises(ValueError, match="has 2 weights, set_weights was given 1"):
            layer.set_weights([np.zeros(2)])


def test_updates_of_a_layer_that_is_not_trained(graph: Any) -> None:
    norm = tf.layers.BatchNormalization()
    norm(tf.ones([2, 4]), training=True)
    assert len(norm.updates) == 2
    norm.trainable = False
    assert norm.updates == []


def test_cells_upon_each_other_have_the_weights_of_all(graph: Any) -> None:
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(3), tf.nn.rnn_cell.BasicLSTMCell(2)])
    with pytest.raises(ValueError, match="no variables before it is called"):
        cell.count_params()
    tf.nn.static_rnn(cell, [tf.ones([2, 4])] * 2, dtype=tf.float32)
    assert len(cell.trainable_weights) == len(cell.weights) == 6 and cell.count_params() == 120
    assert cell.updates == [] and cell.losses == [] and cell.non_trainable_variables == []
