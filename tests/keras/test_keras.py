"""tf.keras' parts against numpy; no test downloads anything."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

keras = tf.keras


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".keras" / "datasets"


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_categories() -> None:
    assert keras.utils.to_categorical([0, 2]).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert keras.utils.to_categorical([[1], [0]], 4, "int32").tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert keras.utils.normalize(np.array([[3.0, 4.0], [0, 0]])).tolist() == [[0.6, 0.8], [0, 0]]


def test_activations(graph: Any) -> None:
    x = np.array([-2.0, -0.5, 0.0, 0.5, 7.0])
    act = {name: keras.activations.get(name)(tf.constant(x)) for name in ("relu", "elu", "hard_sigmoid", "linear")}
    act["leaky"] = keras.activations.relu(tf.constant(x), alpha=0.1, max_value=6.0)
    act["elu2"] = keras.activations.elu(tf.constant(x), alpha=2.0)
    got = _run(act)
    np.testing.assert_allclose(got["relu"], np.maximum(x, 0))
    np.testing.assert_allclose(got["elu"], np.where(x > 0, x, np.expm1(x)))
    np.testing.assert_allclose(got["elu2"], np.where(x > 0, x, 2 * np.expm1(x)))
    np.testing.assert_allclose(got["hard_sigmoid"], np.clip(0.2 * x + 0.5, 0, 1))
    np.testing.assert_allclose(got["leaky"], [-0.2, -0.05, 0, 0.5, 6])
    assert keras.activations.get(None) is keras.activations.linear
    with pytest.raises(ValueError, match="rely"):
        keras.activations.get("rely")


def test_layers_take_initializers_and_penalties(graph: Any) -> None:
    first, penalty = keras.initializers.get("ones"), keras.regularizers.l1_l2(0.5, 0.1)
    tf.layers.dense(tf.ones([1, 3]), 2, kernel_initializer=first, kernel_regularizer=penalty)
    drawn = tf.get_variable("drawn", [2000], initializer=keras.initializers.RandomNormal(seed=1))
    loss, values = _run([tf.losses.get_regularization_loss(), drawn])
    np.testing.assert_allclose(loss, 0.5 * 6 + 0.1 * 6, rtol=1e-6)
    assert abs(values.std() - 0.05) < 0.005
    with pytest.raises(ValueError, match="l3"):
        keras.regularizers.get("l3")


def test_data_that_is_there_is_not_downloaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    parts = {name: np.arange(4, dtype=np.uint8) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(home / "mnist.npz", **parts)
    digest = hashlib.sha256((home / "mnist.npz").read_bytes()).hexdigest()
    monkeypatch.setattr(keras.datasets.mnist, "_SHA256", digest)
    (x, _), (_, y) = keras.datasets.mnist.load_data()
    assert x.tolist() == y.tolist() == [0, 1, 2, 3]
    (home / "fashion-mnist").mkdir()
    for name in ("train", "t10k"):
        for kind, head, size in (("labels-idx1", 8, 2), ("images-idx3", 16, 2 * 784)):
            with gzip.open(home / "fashion-mnist" / f"{name}-{kind}-ubyte.gz", "wb") as file:
                file.write(bytes(head) + bytes(range(2)) * (size // 2))
    (images, labels), _ = keras.datasets.fashion_mnist.load_data()
    assert images.shape == (2, 28, 28) and labels.tolist() == [0, 1]


def test_what_cannot_be_had(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    assert Path(keras.utils.get_file("got", source.as_uri())).read_bytes() == b"abc"
    with pytest.raises(tf.errors.DataLossError, match="its hash is not"):
        keras.utils.get_file("other", source.as_uri(), file_hash="0" * 64)
    with pytest.raises(tf.errors.UnavailableError, match="by hand"):
        keras.utils.get_file("never", (tmp_path / "nowhere").as_uri())
    with pytest.raises(AttributeError, match=r"no 'applications' here, but activations, .* tf.estimator train models"):
        _ = keras.applications


def test_initializers_by_fans(graph: Any) -> None:
    for name in ("he_normal", "he_uniform", "lecun_normal", "lecun_uniform"):
        assert isinstance(getattr(keras.initializers, name)(seed=1), keras.initializers.VarianceScaling)
        assert isinstance(keras.initializers.get(name), keras.initializers.VarianceScaling)
