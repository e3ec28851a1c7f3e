"""tf.keras.backend: against what numpy makes of the same arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

K = tf.keras.backend
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 4, 5)).astype(np.float32)
T = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
P = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)

VALUES: dict[str, tuple[Any, Any]] = {
    "sum": (lambda: K.sum(X, axis=-1, keepdims=True), X.sum(-1, keepdims=True)),
    "mean-of-booleans": (lambda: K.mean(tf.constant([True, False, True, True])), 0.75),
    "var": (lambda: K.var(X, axis=1), X.var(1)),
    "std": (lambda: K.std(X), X.std()),
    "max": (lambda: K.max(X, (0, 1)), X.max((0, 1))),
    "any": (lambda: K.any([[0.0, 2.0], [0.0, 0.0]], 1), [True, False]),
    "argmax": (lambda: K.argmax(X), X.argmax(-1)),
    "clip": (lambda: K.clip(X, -0.5, 0.5), X.clip(-0.5, 0.5)),
    "l2_normalize": (lambda: K.l2_normalize(X, -1), X / np.sqrt((X**2).sum(-1, keepdims=True))),
    "repeat_elements": (lambda: K.repeat_elements(X, 2, 1), X.repeat(2, 1)),
    "bias_add": (lambda: K.bias_add(X, X[0, 0]), X + X[0, 0]),
    "bias_add-whole": (lambda: K.bias_add(X, X[0]), X + X[:1]),
    "temporal_padding": (lambda: K.temporal_padding(X, (1, 2)), np.pad(X, [(0, 0), (1, 2), (0, 0)])),
    "spatial_2d_padding": (
        lambda: K.spatial_2d_padding(X[None], ((1, 0), (0, 2)), "channels_first"),
        np.pad(X[None], [(0, 0), (0, 0), (1, 0), (0, 2)]),
    ),
    "conv1d-causal": (
        lambda: K.conv1d(X, np.ones((2, 4, 1), np.float32), padding="causal"),
        (X + np.pad(X, [(0, 0), (1, 0), (0, 0)])[:, :-1]).sum(-1, keepdims=True),
    ),
    "conv2d": (lambda: K.conv2d(X[None], np.ones((2, 3, 4, 1), np.float32)), X.sum(keepdims=True)[None]),
    "pool2d": (lambda: K.pool2d(X[None], (2, 3), pool_mode="avg"), X.mean((0, 1), keepdims=True)[None]),
    "batch_normalization": (
        lambda: K.batch_normalization(X, X.mean((0, 1)), X.var((0, 1)), None, None, epsilon=0.0),
        (X - X.mean((0, 1))) / X.std((0, 1)),
    ),
    "random_binomial": (lambda: K.random_binomial([100], 0.0), np.zeros(100)),
    "sparse_categorical_crossentropy": (
        lambda: K.sparse_categorical_crossentropy(np.array([[1], [0]]), tf.constant(P)),
        -np.log([0.75, 0.5]),
    ),
    "repeat": (lambda: K.repeat(X[:, 0], 3), np.repeat(X[:, :1], 3, 1)),
    "repeat-a-tensor-of-times": (lambda: K.repeat(X[:, 0], tf.constant(3)), np.repeat(X[:, :1], 3, 1)),
    "batch_flatten": (lambda: K.batch_flatten(X), X.reshape(2, 12)),
    "permute": (lambda: K.permute_dimensions(X, (0, 2, 1)), X.transpose(0, 2, 1)),
    "concatenate": (lambda: K.concatenate([X, X]), np.concatenate([X, X], -1)),
    "dot": (lambda: K.dot(X, Y[0]), X @ Y[0]),
    "dot-of-three": (lambda: K.dot(X, Y), np.tensordot(X, Y, [[2], [1]])),
    "dot-vector": (lambda: K.dot(X[0], Y[0, :, 0]), X[0] @ Y[0, :, 0]),
    "batch_dot": (lambda: K.batch_dot(X, Y), X @ Y),
    "batch_dot-axes": (lambda: K.batch_dot(X, X, axes=(2, 2)), X @ X.transpose(0, 2, 1)),
    "batch_dot-rows": (lambda: K.batch_dot(X[:, 0], X[:, 1], axes=1), (X[:, 0] * X[:, 1]).sum(1, keepdims=True)),
    "batch_dot-vector": (lambda: K.batch_dot(X, Y[:, :, 0], axes=(2, 1)), (X @ Y[:, :, :1])[..., 0]),
    "switch": (lambda: K.switch(tf.constant(False), lambda: X, lambda: -X), -X),
    "switch-rows": (lambda: K.switch(np.array([True, False]), X, -X), X * np.array([1, -1]).reshape(2, 1, 1)),
    "binary": (lambda: K.binary_crossentropy(T, P), -np.log(np.where(T == 1, P, 1 - P))),
    "binary-logits": (lambda: K.binary_crossentropy(T, P, True), np.log(1 + np.exp(np.where(T == 1, -P, P)))),
    "categorical": (lambda: K.categorical_crossentropy(T, P * 2), -np.log([0.75, 0.5])),
}


@pytest.fixture(autouse=True)
def _no_session(graph: Any) -> Iterator[None]:
    K._session.clear()
    yield
    K._session.clear()


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    make, wanted = VALUES[name]
    made = make()
    found = K.eval(made)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert found.shape == np.shape(wanted) and tf.TensorShape(found.shape).is_compatible_with(made.shape)


def test_gradients() -> None:
    x = tf.constant(X)
    np.testing.assert_allclose(K.eval(K.gradients(K.sum(x * x), [x])[0]), 2 * X)


def test_sessions_and_variables() -> None:
    v = K.variable([1.0, 2.0], name="v")
    with tf.Session() as session:
        assert K.get_session() is session
    mine = tf.Session()
    K.set_session(mine)
    assert K.get_session() is mine
    mine.run(v.initializer)
    K.set_value(v, [3, 4])
    assert K.get_value(v).tolist() == [3, 4] and K.batch_get_value([v, v * 2])[1].tolist() == [6, 8]
    mine.run(K.update_add(v, [1.0, 1.0]))
    assert K.eval(v).tolist() == [4, 5] and K.zeros([2]).dtype.base_dtype == tf.float32


def test_what_is_said_of_tensors() -> None:
    x = K.placeholder(ndim=2, dtype="int32")
    assert (K.int_shape(x), K.ndim(x), K.dtype(x), K.is_sparse(x)) == ((None, None), 2, "int32", False)
    assert K.int_shape(tf.placeholder(tf.float32)) is None and K.int_shape(K.expand_dims(x)) == (None, None, 1)
    with pytest.raises(ValueError, match="ranks must be known"):
        K.batch_dot(tf.placeholder(tf.float32), x)


def test_settings() -> None:
    try:
        K.set_floatx("float64")
        K.set_epsilon(0.5)
        assert K.placeholder([2]).dtype == tf.float64 and K.epsilon() == 0.5
    finally:
        K.set_floatx("float32")
        K.set_epsilon(1e-7)
    assert K.image_data_format() == "channels_last" and K.floatx() == "float32"
    with pytest.raises(ValueError, match="int8"):
        K.set_floatx("int8")
    with pytest.raises(ValueError, match="middle"):
        K.set_image_data_format("middle")
