"""Layers of tf.keras.layers and what they are called on, for the tests and for compute_values.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


def wave(*shape: int, of: int = 0) -> np.ndarray:
    """Numbers between -1.5 and 1.5, the same everywhere."""
    return (1.5 * np.sin(np.arange(np.prod(shape, dtype=int)) * 0.7 + of)).astype(np.float32).reshape(shape)


class Case(NamedTuple):
    """make: of keras.layers, what is called. call: keywords of the call."""

    make: Callable[[Any], Any]
    inputs: Any
    call: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it


class Chain:
    """Layers one behind the other, which is no layer."""

    def __init__(self, *layers: Any):
        self.all = layers

    def __call__(self, x: Any) -> Any:
        for layer in self.all:
            x = layer(x)
        return x

    def _of_all(self, what: str) -> list[Any]:
        return [value for layer in self.all for value in getattr(layer, what)]

    weights = property(lambda self: self._of_all("weights"))
    trainable_weights = property(lambda self: self._of_all("trainable_weights"))
    losses = property(lambda self: self._of_all("losses"))
    updates = property(lambda self: self._of_all("updates"))


FLAT, STEPS, IMAGE, SPACE = wave(4, 6), wave(4, 5, 3), wave(2, 8, 8, 3), wave(2, 4, 5, 6, 2)
IDS = (np.arange(20).reshape(4, 5) * 3 % 7).astype(np.int32)
PADDED = np.where(np.arange(5) < np.array([[3], [1], [2], [5]]), IDS + (IDS == 0), 0).astype(np.int32)
PAIR = [wave(4, 5), wave(4, 5, of=1)]
ATTENDED = [wave(3, 4, 5), wave(3, 6, 5, of=1)]

CASES: dict[str, Case] = {
    "dense": Case(lambda k: k.Dense(5, activation="relu", kernel_regularizer="l2"), FLAT),
    "dense_steps": Case(lambda k: k.Dense(5, name="d"), STEPS),
    "conv1d": Case(lambda k: k.Conv1D(4, 3, padding="same"), STEPS),
    "conv1d_causal": Case(lambda k: k.Conv1D(4, 3, padding="causal", dilation_rate=2), STEPS),
    "separable1d": Case(lambda k: k.SeparableConv1D(4, 3, padding="same"), STEPS),
    "conv2d": Case(lambda k: k.Conv2D(4, (3, 2), strides=2, padding="same", activation="relu"), IMAGE),
    "conv2d_wide": Case(lambda k: k.Conv2D(4, (3, 2), dilation_rate=2, use_bias=False), IMAGE),
    "separable2d": Case(lambda k: k.SeparableConv2D(4, 3, strides=2, depth_multiplier=2), IMAGE),
    "transposed2d": Case(lambda k: k.Conv2DTranspose(4, (3, 2), strides=2, padding="same"), IMAGE),
    "conv3d": Case(lambda k: k.Conv3D(4, 2), SPACE),
    "transposed3d": Case(lambda k: k.Conv3DTranspose(4, 2, strides=2), SPACE),
    "depthwise": Case(lambda k: k.DepthwiseConv2D(3, depth_multiplier=2, activation="tanh"), IMAGE),
    "depthwise_same": Case(lambda k: k.DepthwiseConv2D((3, 2), strides=(2, 2), padding="same"), IMAGE),
    "max1d": Case(lambda k: k.MaxPooling1D(), STEPS),
    "max2d": Case(lambda k: k.MaxPool2D((3, 2), strides=1, padding="same"), IMAGE),
    "max3d": Case(lambda k: k.MaxPooling3D(), SPACE),
    "average1d": Case(lambda k: k.AveragePooling1D(), STEPS),
    "average2d": Case(lambda k: k.AvgPool2D((3, 2), strides=1, padding="same"), IMAGE),
    "average3d": Case(lambda k: k.AveragePooling3D(), SPACE),
    "global_max1d": Case(lambda k: k.GlobalMaxPooling1D(), STEPS),
    "global_max2d": Case(lambda k: k.GlobalMaxPool2D(), IMAGE),
    "global_average1d": Case(lambda k: k.GlobalAveragePooling1D(), STEPS),
    "global_average3d": Case(lambda k: k.GlobalAvgPool3D(), SPACE),
    "zeros1d": Case(lambda k: k.ZeroPadding1D((1, 2)), STEPS),
    "zeros2d": Case(lambda k: k.ZeroPadding2D(((1, 2), (3, 0))), IMAGE),
    "zeros2d_short": Case(lambda k: k.ZeroPadding2D((1, 2)), IMAGE),
    "zeros3d": Case(lambda k: k.ZeroPadding3D((1, 2, 0)), SPACE),
    "cut1d": Case(lambda k: k.Cropping1D((1, 2)), STEPS),
    "cut2d": Case(lambda k: k.Cropping2D(((1, 2), (3, 0))), IMAGE),
    "cut3d": Case(lambda k: k.Cropping3D(1), SPACE),
    "wider1d": Case(lambda k: k.UpSampling1D(3), STEPS),
    "wider2d": Case(lambda k: k.UpSampling2D((2, 3)), IMAGE),
    "wider2d_bilinear": Case(lambda k: k.UpSampling2D((2, 3), interpolation="bilinear"), IMAGE),
    "wider3d": Case(lambda k: k.UpSampling3D(2), SPACE),
    "flatten": Case(lambda k: k.Flatten(), IMAGE),
    "reshape": Case(lambda k: k.Reshape((3, -1)), FLAT),
    "permute": Case(lambda k: k.Permute((3, 1, 2)), IMAGE),
    "repeat": Case(lambda k: k.RepeatVector(3), FLAT),
    "lambda": Case(lambda k: k.Lambda(lambda x, p: x**p, arguments={"p": 2}), FLAT),
    "activity": Case(lambda k: k.ActivityRegularization(l1=0.1, l2=0.2), FLAT),
    "embedding": Case(lambda k: k.Embedding(7, 3), IDS),
    "embedding_floats": Case(lambda k: k.Embedding(7, 3), IDS.astype(np.float32)),
    "add": Case(lambda k: k.Add(), [*PAIR, wave(4, 5, of=2)]),
    "add_ranks": Case(lambda k: k.Add(), [wave(4, 5), wave(4, 2, 5)]),
    "subtract": Case(lambda k: k.Subtract(), PAIR),
    "multiply": Case(lambda k: k.Multiply(), PAIR),
    "average": Case(lambda k: k.Average(), PAIR),
    "maximum": Case(lambda k: k.Maximum(), PAIR),
    "minimum": Case(lambda k: k.Minimum(), PAIR),
    "concatenate": Case(lambda k: k.Concatenate(axis=1), [wave(4, 2, 5), wave(4, 3, 5)]),
    "dot": Case(lambda k: k.Dot(1), PAIR),
    "dot_cosine": Case(lambda k: k.Dot(-1, normalize=True), PAIR),
    "dot_steps": Case(lambda k: k.Dot((1, 2)), [wave(4, 5, 2), wave(4, 3, 5)]),
    "leaky": Case(lambda k: k.LeakyReLU(), FLAT),
    "prelu": Case(lambda k: k.PReLU(shared_axes=[1, 2]), IMAGE),
    "elu": Case(lambda k: k.ELU(0.7), FLAT),
    "threshold": Case(lambda k: k.ThresholdedReLU(0.2), FLAT),
    "relu": Case(lambda k: k.ReLU(1.2, 0.1, 0.2), FLAT),
    "softmax": Case(lambda k: k.Softmax(), STEPS),
    "batch_norm": Case(lambda k: k.BatchNormalization(), FLAT),
    "batch_norm_trained": Case(lambda k: k.BatchNormalization(momentum=0.8), FLAT, {"training": True}),
    "batch_norm_image": Case(lambda k: k.BatchNormalization(scale=False), IMAGE, {"training": True}),
    "batch_norm_axis": Case(lambda k: k.BatchNormalization(axis=1), IMAGE, {"training": True}),
    "layer_norm": Case(lambda k: k.LayerNormalization(), STEPS),
    "layer_norm_two": Case(lambda k: k.LayerNormalization(axis=[1, 2]), STEPS),
    "layer_norm_axis": Case(lambda k: k.LayerNormalization(axis=1, scale=False), STEPS),
    "attention": Case(lambda k: k.Attention(use_scale=True), ATTENDED),
    "attention_keys": Case(lambda k: k.Attention(), [*ATTENDED, wave(3, 6, 5, of=2)]),
    "additive_attention": Case(lambda k: k.AdditiveAttention(), ATTENDED),
    "gru_after": Case(lambda k: k.GRU(4, reset_after=True), STEPS),
    "distributed": Case(lambda k: k.TimeDistributed(k.Dense(3)), STEPS),
    "distributed_conv": Case(lambda k: k.TimeDistributed(k.Conv1D(3, 2)), wave(2, 3, 6, 4)),
    "chain": Case(lambda k: Chain(k.Dense(4), k.Dropout(0.5), k.BatchNormalization(), k.Dense(1)), FLAT),
}


def _recurrent(kind: str) -> dict[str, Case]:
    def make(k: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(k, kind)(*args, **kwargs)

    sigmoid = {} if kind == "SimpleRNN" else {"recurrent_activation": "sigmoid"}
    masked = lambda k: (k.Embedding(7, 3, mask_zero=True), make(k, 4, return_sequences=True))  # noqa: E731
    found = {
        "": Case(lambda k: make(k, 4), STEPS),
        "_back": Case(lambda k: make(k, 4, return_sequences=True, go_backwards=True), STEPS),
        "_unrolled": Case(lambda k: make(k, 4, return_state=True, unroll=True, activation="relu"), STEPS),
        "_plain": Case(lambda k: make(k, 4, use_bias=False, **sigmoid), STEPS),
        "_both_ways": Case(lambda k: k.Bidirectional(make(k, 4, return_sequences=True)), STEPS),
        "_sum_of_ways": Case(lambda k: k.Bidirectional(make(k, 4), merge_mode="sum"), STEPS),
        "_cell": Case(lambda k: k.RNN(getattr(k, kind + "Cell")(4), return_sequences=True), STEPS),
        "_stack": Case(lambda k: k.RNN([getattr(k, kind + "Cell")(n) for n in (4, 3)], return_state=True), STEPS),
        "_dropped": Case(lambda k: make(k, 4, dropout=0.3, recurrent_dropout=0.2), STEPS),
        "_mask": Case(lambda k: Chain(*masked(k), k.Dense(2), k.GlobalAveragePooling1D()), PADDED),
        "_mask_both": Case(
            lambda k: Chain(k.Embedding(7, 3, mask_zero=True), k.Bidirectional(make(k, 4)), k.Dense(2)), PADDED
        ),
        "_masking": Case(lambda k: Chain(k.Masking(0.0), make(k, 4)), STEPS * (PADDED > 0)[..., None]),
    }
    return {kind + name: case for name, case in found.items()}


for _kind in ("SimpleRNN", "GRU", "LSTM"):
    CASES |= _recurrent(_kind)


# ---------------------------------------------------------------------- running them


def weight(name: str, place: int, shape: Any) -> np.ndarray:
    value = np.asarray(wave(*shape, of=place) * 0.4, np.float32)
    return np.abs(value) + 0.1 if "variance" in name else value


def print_of(value: Any) -> list[Any]:
    """[shape, a sum that every element and its place count in, the sum of absolute values]."""
    flat = np.asarray(value, np.float64).reshape(-1)
    return [list(np.shape(value)), float(flat @ np.cos(np.arange(flat.size) * 0.37)), float(np.abs(flat).sum())]


def _flat(value: Any) -> list[Any]:
    return [y for x in value for y in _flat(x)] if isinstance(value, (list, tuple)) else [value]


def run(tf: Any, keras: Any, case: Case) -> dict[str, Any]:
    """What the case gives: outputs, gradients, losses, and the weights after the layer's updates."""
    with tf.Graph().as_default() as graph:
        feeds: list[tuple[Any, Any]] = []

        def fed(value: Any) -> Any:
            feeds.append((tf.placeholder(value.dtype, [None, *value.shape[1:]]), value))
            return feeds[-1][0]

        inputs = [fed(v) for v in case.inputs] if isinstance(case.inputs, list) else fed(case.inputs)
        layer = case.make(keras.layers)
        outputs = _flat(layer(inputs, **case.call))
        trained = layer.trainable_weights
        loss = tf.add_n([tf.reduce_sum(tf.square(y)) for y in outputs])
        slopes = [tf.convert_to_tensor(g) for g in tf.gradients(loss, trained)] if trained else []
        found: dict[str, Any] = {
            "names": [v.name for v in layer.weights],
            "trained": [v.name for v in trained],
            "collected": [v.name for v in graph.get_collection("trainable_variables")],
            "static": [y.shape.as_list() for y in outputs],
        }
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            for place, v in enumerate(layer.weights):
                v.load(weight(v.name, place, v.shape.as_list()), session)
            values = session.run([outputs, slopes, list(layer.losses)], dict(feeds))
            session.run(list(layer.updates), dict(feeds))
            values.append(session.run(list(layer.weights)) if layer.weights else [])
    return {**found, **{k: [print_of(v) for v in vs] for k, vs in zip(("out", "slopes", "losses", "after"), values)}}
