"""tf.keras.layers and tf.keras.models: values.json holds what TensorFlow 2.21 with Keras 2 computed of the same
programs (compute_values.py), names and places of variables included."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.keras import layer_cases, model_programs

VALUES = json.loads((Path(__file__).parent / "values.json").read_text(encoding="utf-8"))
layers = tf.keras.layers


def _close(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for (shape, signed, size), (shape_there, signed_there, size_there) in zip(got, want):
        assert shape == shape_there
        np.testing.assert_allclose([signed, size], [signed_there, size_there], rtol=2e-4, atol=2e-5 * (1 + size_there))


@pytest.mark.parametrize("name", layer_cases.CASES)
def test_layers_compute_what_keras_does(name: str) -> None:
    got, want = layer_cases.run(tf, tf.keras, layer_cases.CASES[name]), VALUES[name]
    for what in ("names", "trained", "collected", "static"):
        assert got[what] == want[what]
    for what in ("out", "slopes", "losses", "after"):
        _close(got[what], want[what])


@pytest.mark.parametrize("name", model_programs.PROGRAMS)
def test_models_compute_what_keras_does(name: str) -> None:
    got, want = model_programs.run(tf, tf.keras, name), VALUES[f"program {name}"]
    assert got["names"] == want["names"]
    assert got["facts"] == want["facts"]
    _close(got["out"], want["out"])


def _value(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize("make", [
    lambda: layers.Dropout(0.5), lambda: layers.SpatialDropout1D(0.5), lambda: layers.GaussianNoise(1.0),
    lambda: layers.GaussianDropout(0.5), lambda: layers.AlphaDropout(0.5),
])  # fmt: skip
def test_what_drops_does_so_in_the_learning_phase(graph: Any, make: Any) -> None:
    x = tf.constant(np.ones((50, 4, 10), np.float32))
    layer = make()
    asked, never, always = layer(x), layer(x, training=False), layer(x, training=True)
    phase = tf.keras.backend.learning_phase()
    found = _value([asked, never, always])
    assert (found[0] == 1).all() and (found[1] == 1).all() and not (found[2] == 1).all()
    trained = _value(asked, {phase: True})
    assert not (trained == 1).all()
    if isinstance(layer, layers.SpatialDropout1D):
        assert (trained == trained[:, :1]).all() and set(np.unique(trained)) == {0.0, 2.0}


def test_a_learning_phase_that_is_set(graph: Any) -> None:
    backend = tf.keras.backend
    x = tf.ones([100])
    with backend.learning_phase_scope(1):
        dropped = layers.Dropout(0.5)(x)
    backend.set_learning_phase(0)
    kept = layers.Dropout(0.5)(x)
    assert backend.learning_phase() == 0
    dropped, kept = _value([dropped, kept])
    assert (kept == 1).all() and not (dropped == 1).all()
    with pytest.raises(ValueError, match="learning phase to be 0 or 1, got 2"):
        backend.set_learning_phase(2)


def test_training_reaches_the_layers_inside(graph: Any) -> None:
    class Inner(layers.Layer):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            self.drop = layers.Dropout(0.5)

        def call(self, inputs: Any) -> Any:
            return self.drop(inputs)

    x, inner = tf.ones([100]), Inner()
    told, not_told = _value([inner(x, training=True), inner(x)])
    assert (not_told == 1).all() and not (told == 1).all()


def test_threads_call_layers_for_themselves() -> None:
    """A layer that another thread is in does not make this one's an inner one."""
    inside, go_on, found = Event(), Event(), []

    def slow(x: Any) -> Any:
        inside.set()
        assert go_on.wait(30)
        return x * 2

    def other() -> None:
        with tf.Graph().as_default():
            layers.Lambda(slow)(tf.ones([1]), training=True)

    thread = Thread(target=other)
    thread.start()
    try:
        assert inside.wait(30)
        with tf.Graph().as_default():
            a = tf.keras.Input((2,))
            found.append(tf.keras.Model(a, layers.Dropout(0.5)(layers.Dense(1)(a))))
            assert tf.keras.backend.learning_phase().name == "keras_learning_phase:0"
    finally:
        go_on.set()
        thread.join()
    assert [x.name for x in found[0].layers] == ["input_1", "dense", "dropout"]


def test_a_lambda_gets_mask_and_training_where_it_takes_them(graph: Any) -> None:
    def takes(x: Any, mask: Any, training: Any = None) -> Any:
        return tf.where(mask, x, -x) if training else x

    def has_a_name(x: Any) -> Any:
        mask = x + 1
        return mask

    x, mask = tf.constant([1.0, 2.0]), tf.constant([True, False])
    outs = [layers.Lambda(takes)(x, mask=mask, training=True), layers.Lambda(has_a_name)(x, mask=mask)]
    assert [v.tolist() for v in _value(outs)] == [[1, -2], [2, 3]]


def test_a_recurrent_layer_drops_the_same_units_at_all_steps(graph: Any) -> None:
    cell = layers.SimpleRNNCell(4, activation="linear", use_bias=False, kernel_initializer="ones", dropout=0.5,
                                recurrent_initializer="zeros")  # fmt: skip
    out = layers.RNN(cell, return_sequences=True)(tf.ones([40, 6, 3]), training=True)
    found = _value(out)
    assert (found == found[:, :1]).all() and len(np.unique(found)) > 1


def test_attention_that_is_causal_sees_no_later_step(graph: Any) -> None:
    x = layer_cases.wave(2, 4, 3)
    scores = x @ x.transpose(0, 2, 1) + np.where(np.tri(4, dtype=bool), 0.0, -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ x
    outs = [layers.Attention(causal=True)([x, x]), layers.Attention()([x, x], use_causal_mask=True)]
    dropped = layers.Attention(dropout=0.5)([x, x], training=True)
    whole = layers.Attention(dropout=0.5)([x, x], training=False)
    found = _value([*outs, dropped, whole, layers.Attention()([x, x])])
    np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], want, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[2], found[4]) and np.allclose(found[3], found[4])


def test_a_layer_trains_in_a_session(graph: Any) -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(-1, 1)
    p = tf.placeholder(tf.float32, [None, 1])
    model = tf.keras.Sequential([layers.Dense(16, activation="tanh"), layers.BatchNormalization(), layers.Dense(1)])
    loss = tf.reduce_mean(tf.square(model(p, training=True) - tf.sin(3 * p)))
    train = tf.group(tf.train.AdamOptimizer(0.05).minimize(loss), *model.updates)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss, {p: x})
        for _ in range(100):
            session.run(train, {p: x})
        assert session.run(loss, {p: x}) < first / 20
        assert not np.allclose(session.run(model.layers[1].moving_variance), 1)


def test_weights_given_and_taken(graph: Any) -> None:
    first = [np.full((3, 2), 2, np.float32), np.ones(2, np.float32)]
    layer = layers.Dense(2, weights=first)
    out = layer(tf.ones([1, 3]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(out).tolist() == [[7, 7]]
        layer.set_weights([w * 2 for w in first])
        assert [w.tolist() for w in layer.get_weights()] == [[[4, 4]] * 3, [2, 2]]
        with pytest.raises(ValueError, match="has 2 weights, set_weights was given 1"):
            layer.set_weights(first[:1])
        with pytest.raises(ValueError, match=r"dense/kernel:0 has shape \(3, 2\), the value given \(2, 2\)"):
            layer.set_weights([np.ones((2, 2)), first[1]])
    with pytest.raises(ValueError, match=r"weight kernel has shape \[3, 2\], weights has \[2\] for it"):
        layers.Dense(2, weights=first[::-1])(tf.ones([1, 3]))


def test_constraints() -> None:
    w = np.array([[3.0, -0.1], [4.0, 0.0]], np.float32)
    made = [tf.keras.constraints.get(n) for n in ("max_norm", "non_neg", "unit_norm", "min_max_norm")]
    with tf.Graph().as_default():
        found = _value([c(tf.constant(w)) for c in (*made, tf.keras.constraints.MinMaxNorm(1.0, 2.0, rate=0.5))])
    norms = [np.linalg.norm(v, axis=0) for v in found]
    np.testing.assert_allclose(norms[0], [2, 0.1], rtol=1e-5)
    assert found[1].tolist() == [[3, 0], [4, 0]]
    np.testing.assert_allclose(norms[2], [1, 1], rtol=1e-5)
    np.testing.assert_allclose(norms[3], [1, 0.1], rtol=1e-5)
    np.testing.assert_allclose(norms[4], [3.5, 0.55], rtol=1e-5)
    with pytest.raises(ValueError, match="Unknown constraint: 'round'"):
        tf.keras.constraints.get("round")


def test_a_constraint_holds_while_training(graph: Any) -> None:
    layer = layers.Dense(1, kernel_constraint="non_neg", use_bias=False, kernel_initializer="ones")
    train = tf.train.GradientDescentOptimizer(10.0).minimize(tf.reduce_sum(layer(tf.ones([1, 2]))))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(layer.kernel).tolist() == [[0], [0]]


def test_wrong_uses_say_what_is_wrong(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    with pytest.raises(TypeError, match="Keyword argument not understood: 'unit'"):
        layers.Dense(3, unit=2)
    with pytest.raises(ValueError, match="last one defined"):
        layers.Dense(3)(tf.placeholder(tf.float32, [None, None]))
    with pytest.raises(ValueError, match="list of at least 2 inputs, got 0"):
        layers.Add()(x)
    with pytest.raises(ValueError, match="list of exactly 2 inputs, got 3"):
        layers.Subtract()([x, x, x])
    with pytest.raises(ValueError, match="a stateful RNN needs to know its batch size"):
        layers.LSTM(2, stateful=True)(tf.placeholder(tf.float32, [None, 2, 3]))
    with pytest.raises(AttributeError, match="must be stateful"):
        layers.LSTM(2).reset_states()
    with pytest.raises(ValueError, match="initial_state has 1 states, the cell 2"):
        layers.LSTM(2)(tf.ones([1, 2, 3]), initial_state=[tf.ones([1, 2])])
    with pytest.raises(ValueError, match="known number of steps"):
        layers.GRU(2, unroll=True)(tf.placeholder(tf.float32, [2, None, 3]))
    with pytest.raises(ValueError, match="with a recurrent layer"):
        layers.Bidirectional(layers.Dense(2))
    with pytest.raises(ValueError, match="ndim=3"):
        layers.LSTM(2)(x)
    with pytest.raises(ValueError, match="interpolation should be one of"):
        layers.UpSampling2D(interpolation="cubic")


def test_wrong_models_say_what_is_wrong(graph: Any) -> None:
    a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
    out = layers.add([a, b])
    with pytest.raises(ValueError, match="Graph disconnected: cannot obtain value for tensor input_2"):
        tf.keras.Model(a, out)
    with pytest.raises(ValueError, match="both inputs and outputs"):
        tf.keras.Model(inputs=a)
    model = tf.keras.Model([a, b], out)
    with pytest.raises(ValueError, match="takes 2 inputs, got 1"):
        model(tf.ones([1, 2]))
    with pytest.raises(ValueError, match=r"No such layer: 'c'. Model model_1 has input_1, input_2, add"):
        model.get_layer("c")
    with pytest.raises(RuntimeError, match=r"You must compile model model_1 before training"):
        model.fit(None)
    with pytest.raises(NotImplementedError, match="define call"):
        tf.keras.Model()(a)
    with pytest.raises(TypeError, match="instance of class Layer"):
        tf.keras.Sequential([tf.nn.relu])
    looped = tf.cond(tf.reduce_sum(a) > 0, lambda: a * 2, lambda: a)
    with pytest.raises(ValueError, match="put it into a Lambda layer"):
        tf.keras.Model(a, layers.Dense(1)(looped))(tf.ones([1, 2]))


def test_calls_of_a_layer_by_their_numbers(graph: Any) -> None:
    a, b = tf.keras.Input((2,)), tf.keras.Input((2,))
    shared = layers.Dense(3)
    first, second = shared(a), shared(b)
    assert shared.get_output_at(0) is first and shared.get_output_at(1) is second and shared.get_input_at(1) is b
    assert shared.get_output_shape_at(0) == (None, 3)
    with pytest.raises(ValueError, match="Asked for the outputs of call 2 of layer dense, which has 2"):
        shared.get_output_at(2)


def test_a_models_summary(graph: Any) -> None:
    lines: list[str] = []
    model = tf.keras.Sequential([layers.Dense(3, input_shape=(2,)), layers.BatchNormalization()])
    model.summary(print_fn=lines.append)
    assert lines[0] == 'Model: "sequential"' and "dense (Dense)" in lines[4] and lines[4].endswith(" 9")
    assert lines[-4:-1] == ["Total params: 21", "Trainable params: 15", "Non-trainable params: 6"]
    model.pop()
    assert [x.name for x in model.layers] == ["dense"] and model.output.name == "dense/BiasAdd:0"


def test_layers_made_again_from_their_settings(graph: Any) -> None:
    for layer in (
        layers.Dense(3, "relu", name="q"), layers.LSTM(4, return_sequences=True, dropout=0.2), layers.GRUCell(3),
        layers.Conv2DTranspose(3, 2, 2, "same"), layers.Concatenate(axis=1), layers.Embedding(3, 2),
        layers.MaxPooling1D(3), layers.BatchNormalization(momentum=0.5),
    ):  # fmt: skip
        again = type(layer).from_config(layer.get_config())
        assert again.name == layer.name and again.get_config().keys() == layer.get_config().keys()
    assert type(layers.LSTM(4, dropout=0.2)).from_config(layers.LSTM(4, dropout=0.2).get_config()).cell.dropout == 0.2


def test_a_stand_alone_cell_and_masked_steps_by_hand(graph: Any) -> None:
    """rnn's outputs where the mask is False are those of the step before, or zeros."""
    x = tf.constant(np.arange(8, dtype=np.float32).reshape(2, 4, 1))
    mask = tf.constant([[True, False, True, False], [False, True, True, True]])
    step = lambda x, states: (x + states[0], [x + states[0]])  # noqa: E731
    found = {}
    for zero in (False, True):
        for unroll in (False, True):
            found[zero, unroll] = _value(tf.keras.backend.rnn(
                step, x, [tf.zeros([2, 1])], mask=mask, unroll=unroll, zero_output_for_mask=zero
            ))  # fmt: skip
    for unroll in (False, True):
        last, outputs, (state,) = found[False, unroll]
        assert outputs[..., 0].tolist() == [[0, 0, 2, 2], [0, 5, 11, 18]]
        assert last[:, 0].tolist() == state[:, 0].tolist() == [2, 18]
        assert found[True, unroll][1][..., 0].tolist() == [[0, 0, 2, 0], [0, 5, 11, 18]]


def test_a_wrapper_of_ones_own(graph: Any) -> None:
    """The numbers and the names are those of TensorFlow's Keras 2."""

    class Scaled(layers.Wrapper):
        def build(self, input_shape: Any) -> None:
            self.scale = self.add_weight(name="scale", shape=[3], initializer="ones")
            super().build(input_shape)

        def call(self, x: Any) -> Any:
            return x + self.layer(x) * self.scale

    wrapped = Scaled(
        layers.Dense(3, kernel_initializer="ones", kernel_regularizer=tf.keras.regularizers.l2(0.5)), name="mine"
    )
    y = wrapped(tf.ones([2, 3]))
    assert [v.name for v in wrapped.trainable_weights] == ["mine/scale:0", "mine/kernel:0", "mine/bias:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).tolist() == [[4] * 3] * 2 and session.run(wrapped.losses) == [4.5]
    with pytest.raises(ValueError, match="initialize `Scaled` layer with a Keras layer, got 3"):
        Scaled(3)


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool"])
def test_dense_layers_take_whole_numbers(kind: str, graph: Any) -> None:
    made = layers.Dense(3, kernel_initializer="ones")
    out = made(tf.constant([[1, 0], [1, 1]], kind) if kind != "bool" else tf.constant([[True, False], [True, True]]))
    assert made.kernel.dtype.base_dtype == out.dtype == tf.float32
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(out).tolist() == [[1] * 3, [2] * 3]
