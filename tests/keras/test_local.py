"""keras.layers.LocallyConnected1D and 2D: each place by its own part of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

K = tf.keras


def _by_place(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, taps: tuple[int, int], steps: Any) -> np.ndarray:
    """Of images with channels last, or first where the kernel's rows are so."""
    out = np.empty((len(x), *bias.shape), np.float32)
    for place, (i, j) in enumerate(np.ndindex(*bias.shape[:2])):
        top, left = i * steps[0], j * steps[1]
        patch = x[:, top : top + taps[0], left : left + taps[1]]
        out[:, i, j] = patch.reshape(len(x), -1) @ kernel[place] + bias[i, j]
    return out


def test_images(graph: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 5, 6, 2)).astype(np.float32)
    layer = K.layers.LocallyConnected2D(4, (2, 3), (1, 2), bias_initializer="random_normal")
    with tf.Session() as session:
        out = layer(tf.constant(x))
        assert out.shape == (3, 4, 2, 4)
        session.run(tf.global_variables_initializer())
        found, kernel, bias = session.run([out, layer.kernel, layer.bias])
    assert kernel.shape == (8, 12, 4) and layer.kernel.name == "locally_connected2d/kernel:0"
    np.testing.assert_allclose(found, _by_place(x, kernel, bias, (2, 3), (1, 2)), rtol=1e-5, atol=1e-6)


def test_channels_first(graph: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
    layer = K.layers.LocallyConnected2D(2, 2, data_format="channels_first", activation="relu")
    with tf.Session() as session:
        out = layer(tf.constant(x))
        session.run(tf.global_variables_initializer())
        found, kernel = session.run([out, layer.kernel])
    apart = kernel.reshape(9, 3, 2, 2, 2)
    want = [
        np.einsum("bchw,chwf->bf", x[:, :, i : i + 2, j : j + 2], apart[3 * i + j]) for i in range(3) for j in range(3)
    ]
    np.testing.assert_allclose(found, np.maximum(np.moveaxis(want, 0, 2), 0).reshape(2, 2, 3, 3), rtol=1e-5, atol=1e-6)


def test_rows_learn_and_are_made_anew(graph: Any) -> None:
    x = np.random.default_rng(0).normal(size=(16, 7, 3)).astype(np.float32)
    model = K.Sequential([K.layers.LocallyConnected1D(4, 3, strides=2, input_shape=(7, 3)), K.layers.Flatten()])
    model.add(K.layers.Dense(1))
    model.compile("sgd", "mse")
    assert model.layers[0].kernel.shape == (3, 9, 4) and model.layers[0].bias.shape == (3, 4)
    losses = model.fit(x, x.sum((1, 2)), epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    again = K.Sequential.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_unknown_sizes_and_other_paddings_are_refused(graph: Any) -> None:
    with pytest.raises(ValueError, match="same"):
        K.layers.LocallyConnected2D(2, 2, padding="same")
    with pytest.raises(ValueError, match="known size"):
        K.layers.LocallyConnected1D(2, 2)(tf.placeholder(tf.float32, [None, None, 3]))
