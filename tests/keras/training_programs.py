"""Programs that compile and fit models, for the tests and for compute_values.py.

Each gives names and numbers; numpy's random numbers, which shuffle the examples, begin anew for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.keras.layer_cases import wave

_DRAWN = np.random.RandomState(0)
X = _DRAWN.randn(50, 6).astype(np.float32)
Y = (X[:, :1] > 0).astype(np.float32)
CLASSES = _DRAWN.randint(0, 3, (50,))
ONE_HOT = np.eye(3)[CLASSES].astype(np.float32)
IDS = _DRAWN.randint(0, 9, (50, 4))
WEIGHTS = _DRAWN.rand(50).astype(np.float32)
Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def _w(tf: Any, of: int = 0) -> Any:
    """The same first values everywhere; a class, as Keras makes some layers anew by their configs."""

    class Wave(tf.keras.initializers.Initializer):  # type: ignore[misc]
        def __init__(self, of: int = 0):
            self.of = of

        def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return tf.constant(wave(*(int(s) for s in shape), of=self.of) / 1.5)

        def get_config(self) -> dict[str, int]:
            return {"of": self.of}

    tf.keras.utils.get_custom_objects()["Wave"] = Wave
    return Wave(of)


def _small(tf: Any, keras: Any, out: int = 1, act: str | None = None, **last: Any) -> Any:
    la = keras.layers
    first = la.Dense(5, activation="tanh", kernel_initializer=_w(tf), input_shape=(6,))
    return keras.Sequential([first, la.Dense(out, activation=act, kernel_initializer=_w(tf, 1), **last)])


def _fitted(model: Any, loss: Any, y: Any, x: Any = X, **given: Any) -> Any:
    fit = {k: given.pop(k) for k in list(given) if k not in ("metrics", "weighted_metrics", "loss_weights")}
    model.compile("sgd", loss, **given)
    history = model.fit(x, y, epochs=2, batch_size=16, verbose=0, **fit).history
    tested = model.evaluate(x, y, verbose=0, batch_size=50)
    return [history, list(model.metrics_names), tested, model.predict(x, batch_size=20)]


# ---------------------------------------------------------------------- optimizers, of dense and sparse gradients

OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda o, s: o.SGD(0.1),
    "momentum": lambda o, s: o.SGD(0.05, momentum=0.9),
    "nesterov": lambda o, s: o.SGD(0.05, 0.9, True),
    "rmsprop": lambda o, s: "rmsprop",
    "rmsprop_momentum": lambda o, s: o.RMSprop(0.01, momentum=0.5),
    "rmsprop_centered": lambda o, s: o.RMSprop(0.01, centered=True),
    "rmsprop_both": lambda o, s: o.RMSprop(0.01, momentum=0.3, centered=True),
    "adagrad": lambda o, s: o.Adagrad(0.1),
    "adadelta": lambda o, s: o.Adadelta(0.5),
    "adam": lambda o, s: o.Adam(0.01),
    "amsgrad": lambda o, s: o.Adam(0.01, amsgrad=True),
    "adamax": lambda o, s: o.Adamax(0.01),
    "nadam": lambda o, s: o.Nadam(0.01),
    "ftrl": lambda o, s: o.Ftrl(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01),
    "ftrl_shrinkage": lambda o, s: o.Ftrl(0.1, l2_shrinkage_regularization_strength=0.01, learning_rate_power=-0.6),
    "clipnorm": lambda o, s: o.SGD(0.1, clipnorm=0.1),
    "clipvalue": lambda o, s: o.SGD(0.1, clipvalue=0.01),
    "decay": lambda o, s: o.Adam(0.01, decay=0.1),
    "lr": lambda o, s: o.SGD(lr=0.1),
    "exponential": lambda o, s: o.SGD(s.ExponentialDecay(0.1, 3, 0.5)),
    "piecewise": lambda o, s: o.SGD(s.PiecewiseConstantDecay([3, 6], [0.1, 0.05, 0.01])),
    "polynomial": lambda o, s: o.SGD(s.PolynomialDecay(0.1, 8)),
    "inverse_time": lambda o, s: o.Adam(s.InverseTimeDecay(0.01, 3, 0.5, staircase=True)),
    "by_config": lambda o, s: {"class_name": "SGD", "config": {"learning_rate": 0.1, "momentum": 0.5}},
}


def _optimized(make: Callable[[Any, Any], Any]) -> Program:
    def run(tf: Any, keras: Any) -> Any:
        la = keras.layers
        i, j = keras.Input((4,), dtype="int32"), keras.Input((6,))
        rows = la.Embedding(9, 3, embeddings_initializer=_w(tf))(i)
        h = la.Concatenate()([la.Flatten()(rows), j])
        h = la.Dense(4, activation="tanh", kernel_initializer=_w(tf, 1), kernel_constraint="max_norm")(h)
        model = keras.Model([i, j], la.Dense(1, kernel_initializer=_w(tf, 2))(h))
        model.compile(make(keras.optimizers, keras.optimizers.schedules), "mse")
        history = model.fit([IDS, X], Y, epochs=2, batch_size=9, verbose=0).history
        names = [v.name for v in model.optimizer.weights]
        return [history, model.get_weights(), names, model.train_on_batch([IDS, X], Y)]

    return run


PROGRAMS |= {f"optimizer {name}": _optimized(make) for name, make in OPTIMIZERS.items()}


@program
def rates_that_are_set(tf: Any, keras: Any) -> Any:
    backend = keras.backend
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(6,), kernel_initializer=_w(tf))])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(X, Y, verbose=0)
    backend.set_value(model.optimizer.lr, 0.05)
    first = backend.get_value(model.optimizer.lr)
    model.fit(X, Y, verbose=0)
    model.optimizer.lr = 0.025
    model.fit(X, Y, verbose=0)
    steps = backend.get_value(model.optimizer.iterations)
    return [first, backend.get_value(model.optimizer.learning_rate), steps, model.get_weights()]


# ---------------------------------------------------------------------- losses and metrics of fit

_NAMED_LOSSES = ("mae", "mape", "msle", "hinge", "squared_hinge", "categorical_hinge", "poisson", "cosine_similarity")
PROGRAMS |= {
    f"loss {name}": lambda tf, keras, name=name: _fitted(_small(tf, keras, 3, "softmax"), name, ONE_HOT, metrics=[name])
    for name in _NAMED_LOSSES
}


@program
def binary(tf: Any, keras: Any) -> Any:
    wanted = ["acc", "binary_crossentropy", keras.metrics.Precision(), keras.metrics.AUC()]
    flat = _fitted(_small(tf, keras, 1, "sigmoid"), "binary_crossentropy", Y[:, 0], metrics=["accuracy"])
    return [_fitted(_small(tf, keras, 1, "sigmoid"), "binary_crossentropy", Y, metrics=wanted), flat]


@program
def categorical(tf: Any, keras: Any) -> Any:
    wanted = ["accuracy", "ce", keras.metrics.TopKCategoricalAccuracy(k=2)]
    return _fitted(_small(tf, keras, 3, "softmax"), "categorical_crossentropy", ONE_HOT, metrics=wanted)


@program
def sparse_categorical(tf: Any, keras: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    named = _fitted(
        _small(tf, keras, 3, "softmax"), "sparse_categorical_crossentropy", CLASSES, metrics=["acc", "crossentropy"]
    )
    return [named, _fitted(_small(tf, keras, 3), loss, CLASSES, metrics=["accuracy"])]


@program
def loss_objects(tf: Any, keras: Any) -> Any:
    made = keras.losses
    smooth = made.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)
    return [
        _fitted(_small(tf, keras, 3), smooth, ONE_HOT, metrics=["accuracy"]),
        _fitted(_small(tf, keras, 3), made.Huber(0.5), ONE_HOT),
        _fitted(_small(tf, keras, 3), made.MeanSquaredError(reduction="sum"), ONE_HOT, metrics=["mse"]),
    ]


@program
def functions_of_users(tf: Any, keras: Any) -> Any:
    backend = keras.backend

    def loss(t: Any, p: Any) -> Any:
        return backend.mean(backend.square(t - p) * (1 + t), axis=-1)

    def furthest(t: Any, p: Any) -> Any:
        return backend.max(p - t)

    return _fitted(_small(tf, keras), loss, Y, metrics=[furthest], sample_weight=WEIGHTS)


@program
def weights_of_examples(tf: Any, keras: Any) -> Any:
    two = {"metrics": ["mae"], "weighted_metrics": ["mae"]}
    return [
        _fitted(_small(tf, keras), "mse", Y, sample_weight=WEIGHTS, **two),
        _fitted(_small(tf, keras), "mse", Y, sample_weight=WEIGHTS, validation_split=0.3),
        _fitted(_small(tf, keras), "mse", Y, validation_data=(X, Y, WEIGHTS), validation_freq=2),
    ]


@program
def weights_of_classes(tf: Any, keras: Any) -> Any:
    of = {0: 1.0, 1: 2.0, 2: 0.5}
    acc = {"metrics": ["acc"], "weighted_metrics": ["acc"], "sample_weight": WEIGHTS}
    return [
        _fitted(_small(tf, keras, 3, "softmax"), "sparse_categorical_crossentropy", CLASSES, class_weight=of),
        _fitted(_small(tf, keras, 3, "softmax"), "categorical_crossentropy", ONE_HOT, class_weight=of, **acc),
    ]


@program
def orders(tf: Any, keras: Any) -> Any:
    return [_fitted(_small(tf, keras), "mse", Y, shuffle=shuffle) for shuffle in (False, "batch")]


@program
def penalties(tf: Any, keras: Any) -> Any:
    penalized = {"kernel_regularizer": keras.regularizers.l2(0.1), "activity_regularizer": "l1"}
    return _fitted(_small(tf, keras, **penalized), "mse", Y)


@program
def masks(tf: Any, keras: Any) -> Any:
    la = keras.layers
    many = keras.Sequential(
        [
            la.Embedding(9, 3, mask_zero=True, embeddings_initializer=_w(tf)),
            la.LSTM(4, return_sequences=True, kernel_initializer=_w(tf, 1), recurrent_initializer=_w(tf, 2)),
            la.TimeDistributed(la.Dense(1, kernel_initializer=_w(tf, 3))),
        ]
    )
    one = keras.Sequential(
        [
            la.Embedding(9, 3, mask_zero=True, embeddings_initializer=_w(tf), input_length=4),
            la.GRU(4, kernel_initializer=_w(tf, 1), recurrent_initializer=_w(tf, 2)),
            la.Dense(1, kernel_initializer=_w(tf, 3)),
        ]
    )
    return [_fitted(many, "mse", wave(50, 4, 1), IDS, metrics=["mae"]), _fitted(one, "mse", Y, IDS, metrics=["mae"])]


# ---------------------------------------------------------------------- where batches come from


@program
def generators(tf: Any, keras: Any) -> Any:
    def rows() -> Any:
        at = 0
        while True:
            yield X[at : at + 10], Y[at : at + 10]
            at = (at + 10) % 50

    model = _small(tf, keras)
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit_generator(rows(), steps_per_epoch=3, epochs=2, verbose=0, validation_data=(X, Y)).history
    given = model.predict_generator((X[k : k + 10] for k in range(0, 50, 10)), 5)
    return [history, model.evaluate_generator(rows(), 5), given]


@program
def sequences(tf: Any, keras: Any) -> Any:
    class Batches(keras.utils.Sequence):  # type: ignore[misc]
        def __len__(self) -> int:
            return 5

        def __getitem__(self, i: int) -> Any:
            rows = slice(i * 10, i * 10 + 10)
            return X[rows], Y[rows], WEIGHTS[rows]

    model = _small(tf, keras)
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit_generator(Batches(), epochs=2, verbose=0, shuffle=False, validation_data=Batches()).history
    return [history, model.evaluate_generator(Batches())]


@program
def datasets(tf: Any, keras: Any) -> Any:
    model = _small(tf, keras)
    model.compile("sgd", "mse", metrics=["mae"])
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)
    first = model.fit(
        data.repeat(), steps_per_epoch=3, epochs=2, verbose=0, validation_data=data, validation_steps=2
    ).history
    second = model.fit(data, epochs=2, verbose=0).history
    alone = tf.data.Dataset.from_tensor_slices(X).batch(10)
    return [first, second, model.evaluate(data, verbose=0), model.predict(alone)]


@program
def tensors(tf: Any, keras: Any) -> Any:
    model = _small(tf, keras)
    model.compile("sgd", "mse")
    history = model.fit(tf.constant(X), tf.constant(Y), steps_per_epoch=3, epochs=2, verbose=0).history
    return [history, model.evaluate(tf.constant(X), tf.constant(Y), steps=2, verbose=0)]


@program
def steps_of_arrays(tf: Any, keras: Any) -> Any:
    """Each of them is of all the examples."""
    model = _small(tf, keras)
    model.compile("sgd", "mse", metrics=["mae"])
    validation = {"validation_data": (X, Y), "validation_steps": 1}
    history = model.fit(X, Y, steps_per_epoch=3, epochs=2, verbose=0, **validation).history
    return [history, model.evaluate(X, Y, steps=2, verbose=0), model.predict(X, steps=2)]


@program
def not_compiled(tf: Any, keras: Any) -> Any:
    return _small(tf, keras).predict(X)


# ---------------------------------------------------------------------- metrics in a session


@program
def metric_objects(tf: Any, keras: Any) -> Any:
    m = keras.metrics
    drawn = np.random.RandomState(1)
    p = drawn.rand(12, 4).astype(np.float32)
    p /= p.sum(1, keepdims=True)
    t = np.eye(4)[drawn.randint(0, 4, 12)].astype(np.float32)
    weights, ids = drawn.rand(12).astype(np.float32), t.argmax(1).astype(np.float32)
    plain = (
        *("MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError", "RootMeanSquaredError", "Hinge"),
        *("MeanSquaredLogarithmicError", "SquaredHinge", "CategoricalHinge", "LogCoshError", "Poisson", "KLDivergence"),
        *("CosineSimilarity", "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalAccuracy", "Precision"),
        *("Recall", "AUC"),
    )
    counts = ("TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives", "Precision", "Recall")
    cases = [(getattr(m, name)(), t, p) for name in plain]
    cases += [(getattr(m, name)(thresholds=[0.2, 0.5]), t, p) for name in counts]
    cases += [
        (m.Accuracy(), ids, (p * 4).round()[:, 0]), (m.BinaryAccuracy(threshold=0.3), t, p),
        (m.SparseCategoricalAccuracy(), ids[:, None], p), (m.TopKCategoricalAccuracy(2), t, p),
        (m.SparseTopKCategoricalAccuracy(k=2), ids, p), (m.SparseCategoricalCrossentropy(), ids, p),
        (m.MeanIoU(num_classes=4), ids, p.argmax(1).astype(np.float32)), (m.Precision(top_k=2), t, p),
        (m.Recall(class_id=1, top_k=2), t, p), (m.Recall(0.3, class_id=1), t, p), (m.AUC(curve="PR"), t, p),
        (m.AUC(50, summation_method="minoring"), t, p), (m.AUC(50, curve="PR", summation_method="majoring"), t, p),
        (m.AUC(thresholds=[0.3, 0.1, 0.6]), t, p), (m.SensitivityAtSpecificity(0.6), t, p),
        (m.SpecificityAtSensitivity(0.6), t, p),
    ]  # fmt: skip
    out = []
    for metric, labels, said in cases:
        a, b, w = (tf.placeholder(tf.float32, size) for size in (labels.shape, said.shape, [None]))
        value, update = metric(a, b), metric.update_state(a, b, sample_weight=w)
        fed = {a: labels, b: said, w: weights}
        session = keras.backend.get_session()
        first = session.run(value, fed)
        session.run(update, fed)
        second = session.run(metric.result())
        metric.reset_states()
        session.run(update, fed)
        out.append([[v.name for v in metric.variables], first, second, session.run(metric.result())])
    return out


@program
def metrics_of_users(tf: Any, keras: Any) -> Any:
    class Mine(keras.metrics.Metric):  # type: ignore[misc]
        def __init__(self, name: str = "mine", **kwargs: Any):
            super().__init__(name=name, **kwargs)
            self.a = self.add_weight(name="a", initializer="zeros")
            self.b = self.add_weight(name="b", initializer="ones")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.a.assign_add(tf.reduce_sum(y_true * y_pred))
            self.b.assign(self.a * 2 + self.b)

        def result(self) -> Any:
            return self.a + self.b

    x = tf.placeholder(tf.float32, [2, 3])
    made = [Mine()(x, x), keras.metrics.MeanTensor()(x), keras.metrics.Mean()(x, sample_weight=[1.0, 3.0])]
    made.append(keras.metrics.Sum()(x))
    session = keras.backend.get_session()
    runs = [session.run(made, {x: np.arange(6).reshape(2, 3) * scale}) for scale in (1, 2)]
    return [runs, _fitted(_small(tf, keras), "mse", Y, metrics=[Mine()])]


def _told(value: Any) -> Any:
    """Names as they are; of numbers, their shape, sums, and the sum of sizes."""
    if isinstance(value, dict):
        return {key: _told(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [_told(v) for v in value]
    if isinstance(value, str):
        return value
    a = np.asarray(value, np.float64)
    weighted = a.reshape(-1) * np.cos(np.arange(a.size))
    return {"shape": list(a.shape), "numbers": [float(weighted.sum()), float(np.abs(a).sum())]}


def run(tf: Any, keras: Any, name: str) -> Any:
    keras.backend.clear_session()
    np.random.seed(5)
    try:
        return _told(PROGRAMS[name](tf, keras))
    finally:
        keras.backend.clear_session()
