"""Models as configs and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.keras.training_programs import CLASSES, IDS, X, Y

keras, la = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def _functional() -> Any:
    """A layer that is called twice, and layers within layers."""
    a, b = keras.Input((6,), name="a"), keras.Input((4,), dtype="int32", name="b")
    h = la.Bidirectional(la.LSTM(4, return_sequences=True, kernel_regularizer="l2"))(la.Embedding(9, 3)(b))
    h = la.GRU(3)(h)
    shared = la.Dense(5, activation="relu", kernel_regularizer=keras.regularizers.l2(0.1))
    s = la.BatchNormalization()(la.concatenate([shared(a), h]))
    s = la.Add()([shared(a), la.Dense(5, kernel_constraint="max_norm")(s)])
    model = keras.Model([a, b], la.Dense(1, name="out", activation="sigmoid")(s))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["acc"])
    model.fit([X, IDS], Y, verbose=0)
    return model


def _sequential() -> Any:
    model = keras.Sequential(
        [
            la.Reshape((6, 1), input_shape=(6,)),
            la.Conv1D(4, 3, padding="same", activation=tf.nn.relu),
            la.LeakyReLU(0.2),
            la.TimeDistributed(la.Dense(3)),
            la.Flatten(),
            la.Dropout(0.3),
            la.Dense(3, activation="softmax"),
        ]
    )
    model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(X, CLASSES, verbose=0)
    return model


KINDS = {"functional": (_functional, [X, IDS], Y), "sequential": (_sequential, X, CLASSES)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def test_configs_make_the_same_model(kind: Any) -> None:
    make, x, _ = kind
    model = make()
    want, weights, text, config = model.predict(x), model.get_weights(), model.to_json(), model.get_config()
    json.dumps(config)
    clone = keras.models.clone_model(model)
    assert not set(clone.weights) & set(model.weights)
    clone.set_weights(weights)
    np.testing.assert_allclose(clone.predict(x), want, rtol=1e-6)
    for again in (lambda: keras.models.model_from_json(text), lambda: type(model).from_config(config)):
        keras.backend.clear_session()
        other = again()
        other.set_weights(weights)
        np.testing.assert_allclose(other.predict(x), want, rtol=1e-6)


@pytest.mark.parametrize("form", ["h5", "tf"])
def test_models_are_loaded_with_their_optimizer(kind: Any, form: str, tmp_path: Path) -> None:
    if form == "h5":
        pytest.importorskip("h5py")
    make, x, y = kind
    model, path = make(), str(tmp_path / "model")
    model.save(path, save_format=form)
    want = model.predict(x)
    expected = [model.train_on_batch(x, y)[0], model.get_weights()[-1]]
    keras.backend.clear_session()
    loaded = keras.models.load_model(path)
    np.testing.assert_allclose(loaded.predict(x), want, rtol=1e-6)
    assert keras.backend.get_value(loaded.optimizer.iterations) == 2
    if form == "tf":  # no dropout in what servers get
        with tf.Session(graph=tf.Graph()) as session:
            meta = tf.saved_model.loader.load(session, ["serve"], path)
            (out,) = meta.signature_def["serving_default"].outputs.values()
            names = [meta.signature_def["serving_default"].inputs[n].name for n in model._input_names()]
            fed = dict(zip(names, x if isinstance(x, list) else [x]))
            np.testing.assert_allclose(session.run(out.name, fed), want, rtol=1e-6)
    if make is _functional:  # without dropout the next step is the same
        np.testing.assert_allclose(loaded.train_on_batch(x, y)[0], expected[0], rtol=1e-5)
        np.testing.assert_allclose(loaded.get_weights()[-1], expected[1], rtol=1e-5)


@pytest.mark.parametrize("name", ["weights", "weights.h5"])
def test_weights_alone(kind: Any, name: str, tmp_path: Path) -> None:
    if name.endswith("h5"):
        pytest.importorskip("h5py")
    make, x, _ = kind
    model, path = make(), str(tmp_path / "deep" / name)
    want = model.predict(x)
    model.save_weights(path)
    with pytest.raises(tf.errors.AlreadyExistsError, match="give overwrite=True"):
        model.save_weights(path, overwrite=False)
    keras.backend.clear_session()
    other = make()
    other.load_weights(path)
    np.testing.assert_allclose(other.predict(x), want, rtol=1e-6)


def test_checkpoints_name_layers_as_keras_does(tmp_path: Path) -> None:
    model = _sequential()
    model.save_weights(str(tmp_path / "w"))
    names = set(tf.train.load_checkpoint(str(tmp_path / "w")).get_variable_to_shape_map())
    assert "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE" in names
    assert "layer_with_weights-1/layer/bias/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_classes_of_users(tmp_path: Path) -> None:
    class Scale(la.Layer):  # type: ignore[misc,name-defined]
        def __init__(self, by: float = 1.0, **kwargs: Any):
            super().__init__(**kwargs)
            self.by = by

        def call(self, x: Any) -> Any:
            return x * self.by

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "by": self.by}

    def halved(t: Any, p: Any) -> Any:
        return keras.losses.mean_squared_error(t, p) / 2.0

    model = keras.Sequential([Scale(3.0, input_shape=(6,)), la.Dense(1)])
    model.compile("sgd", halved)
    model.fit(X, Y, verbose=0)
    path = str(tmp_path / "model")
    model.save(path, save_format="tf")
    want = model.evaluate(X, Y, verbose=0)
    keras.backend.clear_session()
    with pytest.raises(ValueError, match=r"Unknown layer: 'Scale'. Name it in custom_objects"):
        keras.models.load_model(path)
    loaded = keras.models.load_model(path, custom_objects={"Scale": Scale, "halved": halved})
    np.testing.assert_allclose(loaded.evaluate(X, Y, verbose=0), want, rtol=1e-6)


def test_models_that_have_no_config(tmp_path: Path) -> None:
    class Net(keras.Model):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.last = la.Dense(1)

        def call(self, x: Any) -> Any:
            return self.last(x)

    model = Net()
    with pytest.raises(NotImplementedError, match=r"Save its weights \(save_weights\)"):
        model.save(str(tmp_path / "model"), save_format="tf")
    with pytest.raises(ValueError, match="has no weights yet"):
        model.save_weights(str(tmp_path / "w"))
    want = model.predict(X)
    model.save_weights(str(tmp_path / "w"))
    other = Net()
    other.predict(X)
    other.load_weights(str(tmp_path / "w"))
    np.testing.assert_allclose(other.predict(X), want, rtol=1e-6)
    a = keras.Input((6,))
    between = keras.Model(a, la.Dense(1)(tf.nn.relu(a)))
    with pytest.raises(NotImplementedError, match="ops between its layers: put them into Lambda layers"):
        between.to_json()
    clone = keras.models.clone_model(between)
    clone.set_weights(between.get_weights())
    np.testing.assert_allclose(clone.predict(X), between.predict(X), rtol=1e-6)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match="No model at"):
        keras.models.load_model(str(tmp_path / "none"))
    with pytest.raises(tf.errors.NotFoundError, match="neither a file, nor a checkpoint"):
        _sequential().load_weights(str(tmp_path / "none"))
    with pytest.raises(ValueError, match='Unknown format "h6"'):
        _sequential().save(str(tmp_path / "m"), save_format="h6")


def test_the_best_weights_are_kept_in_files(tmp_path: Path) -> None:
    model = _sequential()
    path = str(tmp_path / "best")
    keep = keras.callbacks.ModelCheckpoint(path, "loss", save_best_only=True, save_weights_only=True)
    numbered = keras.callbacks.ModelCheckpoint(str(tmp_path / "at-{epoch:02d}"), save_weights_only=True)
    losses = model.fit(X, CLASSES, epochs=3, verbose=0, callbacks=[keep, numbered]).history["loss"]
    assert keep.best == min(losses) and tf.train.checkpoint_exists(str(tmp_path / "at-03"))
    other = keras.models.clone_model(model)
    other.load_weights(path)


def test_a_folders_latest_weights_are_found(tmp_path: Path) -> None:
    model = _sequential()
    keep = keras.callbacks.ModelCheckpoint(str(tmp_path / "at-{epoch}"), save_weights_only=True)
    model.fit(X, CLASSES, epochs=2, verbose=0, callbacks=[keep])
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest == str(tmp_path / "at-2")
    want = model.get_weights()
    model.set_weights([w + 1 for w in want])
    model.load_weights(latest)
    np.testing.assert_array_equal(np.concatenate([w.ravel() for w in model.get_weights()]),
                                  np.concatenate([w.ravel() for w in want]))  # fmt: skip


@pytest.mark.parametrize("form", ["h5", "tf"])
def test_models_that_learned_their_shape_from_data_are_loaded(form: str, tmp_path: Path) -> None:
    if form == "h5":
        pytest.importorskip("h5py")
    model = keras.Sequential([la.Dense(3, "relu"), la.Dense(1)])
    model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    model.save(str(tmp_path / "model"), save_format=form)
    want, then = model.predict(X), model.train_on_batch(X, Y)
    keras.backend.clear_session()
    loaded = keras.models.load_model(str(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict(X), want, rtol=1e-6)
    assert loaded.train_on_batch(X, Y) == pytest.approx(then, rel=1e-5)
