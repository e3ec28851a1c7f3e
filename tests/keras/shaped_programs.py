"""Programs that fit models of several outputs, of classes, with states and among others, for the tests and for
compute_values.py; as those of training_programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.layer_cases import wave
from tests.keras.training_programs import ONE_HOT, PROGRAMS, WEIGHTS, Program, X, Y, _fitted, _small, _w, program


def _two(tf: Any, keras: Any, loss: Any, metrics: Any, y: Any, weights: Any = None, **fit: Any) -> Any:
    la = keras.layers
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    h = la.Dense(4, activation="relu", kernel_initializer=_w(tf))(la.concatenate([a, b]))
    one = la.Dense(1, name="o1", kernel_initializer=_w(tf, 1))(h)
    two = la.Dense(3, activation="softmax", name="o2", kernel_initializer=_w(tf, 2))(h)
    model = keras.Model(inputs=[a, b], outputs=[one, two])
    model.compile("sgd", loss, metrics=metrics, loss_weights=weights)
    fed = {"b": X + 1, "a": X}
    history = model.fit(fed, y, epochs=2, verbose=0, **fit).history
    by_batch = [model.train_on_batch(fed, y), model.test_on_batch(fed, y), model.predict_on_batch(fed)]
    return [history, model.metrics_names, model.evaluate(fed, y, verbose=0), model.predict([X, X + 1]), by_batch]


@program
def two_outputs(tf: Any, keras: Any) -> Any:
    by_name = {"o1": "mse", "o2": "categorical_crossentropy"}
    return [
        _two(tf, keras, ["mse", "categorical_crossentropy"], ["acc"], [Y, ONE_HOT]),
        _two(tf, keras, by_name, {"o2": ["acc", "mse"], "o1": "mae"}, {"o2": ONE_HOT, "o1": Y}, {"o1": 1.0, "o2": 0.3}),
        _two(tf, keras, "mse", [["mae"], ["acc"]], [Y, ONE_HOT], [0.5, 2.0], sample_weight=[WEIGHTS, WEIGHTS * 2]),
    ]


@program
def added_losses_and_metrics(tf: Any, keras: Any) -> Any:
    la = keras.layers
    i = keras.Input((6,))
    h = la.Dense(3, kernel_initializer=_w(tf))(i)
    model = keras.Model(i, la.Dense(1, kernel_initializer=_w(tf, 1))(h))
    model.add_loss(tf.reduce_mean(tf.square(h)) * 0.1)
    model.add_metric(tf.reduce_sum(h), aggregation="mean", name="sum_of_h")
    j = keras.Input((6,))
    o = la.Dense(6, kernel_initializer=_w(tf))(j)
    alone = keras.Model(j, o)
    alone.add_loss(keras.backend.mean(keras.backend.square(j - o)))
    alone.compile("sgd", loss=None)
    history = alone.fit(X, epochs=2, verbose=0).history
    return [_fitted(model, "mse", Y, metrics=["mae"]), history, alone.evaluate(X, verbose=0)]


@program
def models_of_classes(tf: Any, keras: Any) -> Any:
    la = keras.layers

    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.first = la.Dense(4, activation="tanh", kernel_initializer=_w(tf))
            self.norm, self.last = la.BatchNormalization(), la.Dense(1, kernel_initializer=_w(tf, 1))

        def call(self, x: Any, training: Any = None) -> Any:
            return self.last(self.norm(self.first(x), training=training))

    late = keras.Sequential(
        [
            la.Dense(3, kernel_initializer=_w(tf)),
            la.BatchNormalization(),
            la.Dropout(0.0),
            la.Dense(1, kernel_initializer=_w(tf, 1)),
        ]
    )
    return [_fitted(Net(), "mse", Y, metrics=["mae"]), _fitted(late, "mse", Y, metrics=["mae"])]


@program
def frozen_layers(tf: Any, keras: Any) -> Any:
    model = _small(tf, keras)
    model.layers[0].trainable = False
    return [_fitted(model, "mse", Y), model.get_weights(), len(model.trainable_weights)]


@program
def penalties_of_classes(tf: Any, keras: Any) -> Any:
    """Of a variable they count however the model is called; of outputs, for that call."""
    la = keras.layers

    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            penalized = {"kernel_regularizer": "l2", "activity_regularizer": "l1"}
            self.first = la.Dense(3, kernel_initializer=_w(tf), **penalized)
            self.norm, self.last = la.BatchNormalization(), la.Dense(1, kernel_initializer=_w(tf, 1))

        def call(self, x: Any, training: Any = None) -> Any:
            h = self.norm(self.first(x), training=training)
            self.add_loss(tf.reduce_mean(h * h))
            return self.last(h)

    model = Net()
    return [_fitted(model, "mse", Y), model.get_weights()]


@program
def called_elsewhere_too(tf: Any, keras: Any) -> Any:
    la = keras.layers
    model = keras.Sequential(
        [
            la.Dense(3, input_shape=(6,), kernel_initializer=_w(tf), activity_regularizer="l2"),
            la.BatchNormalization(),
            la.Dense(1, kernel_initializer=_w(tf, 1)),
        ]
    )
    model(tf.placeholder(tf.float32, [None, 6]))
    return [_fitted(model, "mse", Y), model.get_weights()]


def _stateful(kind: str) -> Program:
    def run(tf: Any, keras: Any) -> Any:
        la = keras.layers
        given = {"kernel_initializer": _w(tf), "recurrent_initializer": _w(tf, 1)}
        first = getattr(la, kind)(3, stateful=True, batch_input_shape=(10, 4, 6), **given)
        model = keras.Sequential([first, la.Dense(1, kernel_initializer=_w(tf, 2))])
        model.compile("sgd", "mse")
        x = wave(50, 4, 6)
        history = model.fit(x, Y, batch_size=10, epochs=2, shuffle=False, verbose=0).history
        found = [model.predict(x, batch_size=10) for _ in range(2)]
        model.reset_states()
        found += [model.predict(x, batch_size=10), model.evaluate(x, Y, batch_size=10, verbose=0)]
        first.reset_states([np.ones((10, 3)) for _ in first.states])
        return [history, found, model.predict_on_batch(x[:10]), [v.name for v in model.weights]]

    return run


PROGRAMS |= {f"stateful {kind}": _stateful(kind) for kind in ("LSTM", "GRU", "SimpleRNN")}


@program
def sequence_to_sequence(tf: Any, keras: Any) -> Any:
    la = keras.layers
    given = {"kernel_initializer": _w(tf), "recurrent_initializer": _w(tf, 1)}
    a, b = keras.Input((None, 6)), keras.Input((None, 6))
    _, h, c = la.LSTM(3, return_state=True, **given)(a)
    decoder = la.LSTM(3, return_sequences=True, return_state=True, **given)
    last = la.Dense(2, activation="softmax", kernel_initializer=_w(tf, 3))
    model = keras.Model([a, b], last(decoder(b, initial_state=[h, c])[0]))
    model.compile("rmsprop", "categorical_crossentropy")
    labels = np.eye(2)[(wave(20, 5) > 0).astype(int)]
    history = model.fit([wave(20, 4, 6), wave(20, 5, 6)], labels, batch_size=7, epochs=2, verbose=0).history
    states = keras.Model(a, [h, c]).predict(wave(1, 4, 6))
    p, q = keras.Input((3,)), keras.Input((3,))
    out, h2, c2 = decoder(b, initial_state=[p, q])
    step = keras.Model([b, p, q], [last(out), h2, c2])
    return [history, states, step.predict([wave(1, 1, 6), *states])]


@program
def adversaries(tf: Any, keras: Any) -> Any:
    """A model trains what was trainable when it was compiled."""
    la = keras.layers
    first = {"activation": "relu", "input_shape": (3,)}
    maker = keras.Sequential(
        [la.Dense(4, kernel_initializer=_w(tf), **first), la.Dense(6, kernel_initializer=_w(tf, 1))]
    )
    hidden = la.Dense(4, input_shape=(6,), kernel_initializer=_w(tf, 2), activation="relu")
    judge = keras.Sequential([hidden, la.Dense(1, activation="sigmoid", kernel_initializer=_w(tf, 3))])
    judge.compile("adam", "binary_crossentropy")
    judge.trainable = False
    z = keras.Input((3,))
    both = keras.Model(z, judge(maker(z)))
    both.compile("adam", "binary_crossentropy")
    found = []
    for i in range(3):
        noise = wave(10, 3, of=i)
        found += [judge.train_on_batch(X[:10], np.ones((10, 1)))]
        found += [judge.train_on_batch(maker.predict(noise), np.zeros((10, 1)))]
        found += [both.train_on_batch(noise, np.ones((10, 1)))]
    return [found, judge.get_weights(), maker.get_weights()]


@program
def layers_of_users(tf: Any, keras: Any) -> Any:
    la = keras.layers

    class Own(la.Layer):  # type: ignore[misc]
        def __init__(self, n: int, **kwargs: Any):
            super().__init__(**kwargs)
            self.n = n

        def build(self, shape: Any) -> None:
            self.k = self.add_weight(name="k", shape=(int(shape[-1]), self.n), initializer=_w(tf), trainable=True)
            self.c = self.add_weight(name="c", shape=(), initializer="zeros", trainable=False)
            super().build(shape)

        def call(self, x: Any) -> Any:
            self.add_update(tf.assign_add(self.c, 1.0))
            self.add_loss(tf.reduce_sum(self.k) * 0.01)
            return keras.backend.dot(x, self.k)

    model = keras.Sequential([Own(3, input_shape=(6,)), la.Activation("relu"), Own(1)])
    return [_fitted(model, "mse", Y), model.get_weights(), [v.name for v in model.weights], len(model.losses)]
