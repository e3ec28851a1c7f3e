"""compile, fit, evaluate and predict of tf.keras' models: training_values.json holds what TensorFlow 2.21 with Keras 2
gave for the same programs (compute_values.py), names of metrics and of optimizers' variables included."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.keras import more_programs, shaped_programs, training_programs
from tests.keras.training_programs import WEIGHTS, X, Y

VALUES = json.loads((Path(__file__).parent / "training_values.json").read_text(encoding="utf-8"))
keras, layers = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def _same(got: Any, want: Any, where: str = "") -> None:
    if isinstance(want, dict) and "numbers" in want:
        assert got["shape"] == want["shape"], where
        np.testing.assert_allclose(
            got["numbers"], want["numbers"], 1e-3, 1e-4 * (1 + want["numbers"][1]), err_msg=where
        )
    elif isinstance(want, dict):
        assert list(got) == list(want), where
        for key in want:
            _same(got[key], want[key], f"{where}/{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for i, (a, b) in enumerate(zip(got, want)):
            _same(a, b, f"{where}/{i}")
    else:
        assert got == want, where


@pytest.mark.parametrize("name", more_programs.PROGRAMS | shaped_programs.PROGRAMS)
def test_training_does_what_keras_does(name: str) -> None:
    _same(training_programs.run(tf, keras, name), VALUES[name])


def _model(optimizer: Any = "sgd", **given: Any) -> Any:
    model = keras.Sequential([layers.Dense(3, input_shape=(6,), kernel_initializer="ones"), layers.Dense(1)])
    model.compile(optimizer, "mse", **given)
    return model


def test_optimizers_of_tf_train_fit_models() -> None:
    model = _model(tf.train.AdamOptimizer(0.05))
    losses = model.fit(X, Y, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert keras.backend.get_value(model.optimizer.iterations) == 20


def test_values_of_a_session_are_kept() -> None:
    """What a saver restored, or a program initialized, is not initialized again."""
    model = _model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        model.layers[0].kernel.load(np.full([6, 3], 0.25), session)
        np.testing.assert_array_equal(model.layers[0].get_weights()[0], np.full([6, 3], 0.25))
        model.predict(X)
        np.testing.assert_array_equal(session.run(model.layers[0].kernel), np.full([6, 3], 0.25))


def test_what_does_not_fit_is_told() -> None:
    model = _model()
    with pytest.raises(ValueError, match=r"expected dense_input to have shape \(6,\).*got array with shape \(50, 5\)"):
        model.fit(X[:, :5], Y, verbose=0)
    with pytest.raises(
        ValueError, match=r"target array with shape \(50, 2\).* output of shape \(None, 1\) \(dense_1\)"
    ):
        model.fit(X, np.ones((50, 2)), verbose=0)
    with pytest.raises(ValueError, match=r"same number of samples, got \[49, 50\]"):
        model.fit(X, Y[1:], verbose=0)
    with pytest.raises(ValueError, match="Unknown metric function: 'akkuracy'"):
        model.compile("sgd", "mse", metrics=["akkuracy"])
    with pytest.raises(ValueError, match=r"optimizer identifier: 'adem'; it is one of sgd, .*adam"):
        model.compile("adem", "mse")
    with pytest.raises(ValueError, match=r"Unknown entries in loss dictionary: \['out'\]"):
        model.compile("sgd", {"out": "mse"})
    with pytest.raises(RuntimeError, match="You must compile model sequential"):
        keras.Sequential([layers.Dense(1, input_shape=(6,))], name="sequential").fit(X, Y)
    with pytest.raises(ValueError, match=r"The classes \[1.0\] exist in the data"):
        _model().fit(X, Y, class_weight={0: 1.0}, verbose=0)
    with pytest.raises(ValueError, match="steps_per_epoch"):
        _model().fit((part for part in ()), verbose=0)


def test_data_that_ends_early_ends_training() -> None:
    rows = iter([(X[:10], Y[:10])] * 3)
    history = _model().fit(rows, steps_per_epoch=2, epochs=5, verbose=0)
    assert history.epoch == [0, 1]
    with pytest.raises(ValueError, match="gave no batch"):
        _model().fit(iter([]), steps_per_epoch=2, verbose=0)


def test_a_weight_of_one_output_by_its_name() -> None:
    a = keras.Input((6,))
    one, two = layers.Dense(1, name="one")(a), layers.Dense(1, name="two", kernel_initializer="ones")(a)
    model = keras.Model(a, [one, two])
    model.compile("sgd", "mse")
    plain = model.evaluate(X, [Y, Y], 50, verbose=0)
    model.compile("sgd", "mse")
    weighted = model.evaluate(X, [Y, Y], 50, sample_weight={"two": WEIGHTS}, verbose=0)
    np.testing.assert_allclose(weighted[1], plain[1], rtol=1e-6)
    want = np.mean(WEIGHTS * np.square(X.sum(1) - Y[:, 0]))
    np.testing.assert_allclose(weighted[2], want, rtol=1e-5)


def test_scheduled_and_reduced_rates() -> None:
    model = _model(keras.optimizers.SGD(0.1))
    calls = keras.callbacks
    history = model.fit(X, Y, epochs=3, verbose=0, callbacks=[calls.LearningRateScheduler(lambda e: 0.1 / (e + 1))])
    np.testing.assert_allclose(history.history["lr"], [0.1, 0.05, 0.1 / 3], rtol=1e-6)
    model = _model(keras.optimizers.SGD(1e-9))
    plateau = calls.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=1.0)
    rates = model.fit(X, Y, epochs=4, verbose=0, callbacks=[plateau]).history["lr"]
    np.testing.assert_allclose(rates, [1e-9, 1e-9, 1e-10, 1e-11], rtol=1e-5)


def test_early_stopping_restores_the_best(tmp_path: Path) -> None:
    model = _model(keras.optimizers.SGD(0.5))  # which diverges
    stop = keras.callbacks.EarlyStopping("loss", patience=2, restore_best_weights=True)
    log = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    first = model.get_weights()
    history = model.fit(X, Y, epochs=20, verbose=0, shuffle=False, callbacks=[stop, log])
    assert len(history.epoch) < 20 and stop.best == min(history.history["loss"])
    assert not np.array_equal(first[0], model.get_weights()[0]) and np.isfinite(model.get_weights()[0]).all()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss" and len(lines) == len(history.epoch) + 1


def test_callbacks_are_called_in_order(tmp_path: Path) -> None:
    told: list[str] = []

    class Tells(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            told.append(f"begin {self.params['epochs']} {self.model.name}")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            told.append(f"epoch {epoch}")

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append(f"batch {batch} of {logs['size']}")

        def on_test_begin(self, logs: Any = None) -> None:
            told.append("test")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told.append(" ".join(sorted(logs)))

    board = keras.callbacks.TensorBoard(str(tmp_path))
    _model().fit(X, Y, batch_size=32, verbose=0, validation_data=(X, Y), callbacks=[Tells(), board])
    assert told == [
        "begin 1 sequential", "epoch 0", "batch 0 of 32", "batch 1 of 18", "test", "loss val_loss",
    ]  # fmt: skip
    events = [e for path in tmp_path.iterdir() for e in tf.train.summary_iterator(str(path))]
    assert {v.tag for e in events for v in e.summary.value} == {"epoch_loss", "epoch_val_loss"}


def test_parts_are_imported_by_their_names() -> None:
    from sparkflow.keras.optimizers.schedules import ExponentialDecay
    from sparkflow.keras.preprocessing.sequence import pad_sequences
    from sparkflow.keras.preprocessing.text import Tokenizer

    assert pad_sequences is keras.preprocessing.sequence.pad_sequences
    assert (
        Tokenizer is keras.preprocessing.text.Tokenizer
        and ExponentialDecay is keras.optimizers.schedules.ExponentialDecay
    )


def test_sequences_that_cannot_be_padded() -> None:
    pad = keras.preprocessing.sequence.pad_sequences
    with pytest.raises(ValueError, match=r'Padding type "front" not understood; it is "pre" or "post"'):
        pad([[1]], padding="front")
    with pytest.raises(ValueError, match="Found non-iterable at 1: 3"):
        pad([[1], 3])


def test_progress_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _model(metrics=["mae"]).fit(X, Y, epochs=2, verbose=2)
    out = capsys.readouterr().out
    assert "Train on 50 samples" in out and "Epoch 2/2" in out and " - loss: " in out and "mean_absolute_error" in out


def test_training_stops_where_the_loss_is_no_number() -> None:
    model = _model()
    history = model.fit(X * np.inf, Y, epochs=3, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()])
    assert history.epoch == [0]


def test_graphs_of_models_are_given_back() -> None:
    graphs = []
    for _ in range(2):
        keras.backend.clear_session()
        model = keras.Sequential([layers.Dense(3, input_shape=(6,)), layers.Dropout(0.5), layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
        model.fit(X, Y, verbose=0)
        graphs.append(weakref.ref(model.inputs[0].graph))
    del model
    keras.backend.clear_session()
    gc.collect()
    assert [graph() for graph in graphs] == [None, None]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("given", [{"input_shape": (2,)}, {}])
def test_rows_may_be_written_out_as_lists(rows: int, given: dict[str, Any]) -> None:
    """One row too, and by a model that was never told how many inputs it takes."""
    x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]][:rows]
    losses = []
    for take in (list, np.array):
        model = keras.Sequential([layers.Dense(2, kernel_initializer="ones", **given)])
        model.compile("sgd", "mse")
        losses.append(model.fit(take(x), take(x), verbose=0).history["loss"])
        assert model.predict(take(x)).shape == (rows, 2)
    assert losses[0] == losses[1]


def test_sequences_may_be_written_out_as_lists() -> None:
    model = keras.Sequential([layers.LSTM(1, input_shape=(2, 1))])
    assert model.predict([[[1.0], [2.0]]]).shape == (1, 1)
    assert model.predict([[[1.0], [2.0]], [[3.0], [4.0]]]).shape == (2, 1)


@pytest.mark.parametrize("given", [{"input_shape": (2,)}, {}])
def test_rows_of_other_lengths_are_refused_by_name(given: dict[str, Any]) -> None:
    model = keras.Sequential([layers.Dense(2, **given)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"checking input: \w*input\w* got rows that are no array.*pad_sequences"):
        model.fit([[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0, 4.0]], verbose=0)
