"""Programs of tf.keras' further parts, for the tests and for compute_values.py; as those of training_programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.layer_cases import wave
from tests.keras.training_programs import PROGRAMS, Program, _w, program


@program
def padded_sequences(tf: Any, keras: Any) -> Any:
    pad = keras.preprocessing.sequence.pad_sequences
    found = [[1, 2, 3], [4], [], [5, 6, 7, 8, 9]]
    return [
        pad(found), pad(found, 3), pad(found, 3, padding="post"), pad(found, 4, truncating="post", value=-1),
        pad(found, 2, "float32", "post", "post", 0.5), pad([[[1, 2]], [[3, 4], [5, 6]]], 3),
    ]  # fmt: skip


@program
def words(tf: Any, keras: Any) -> Any:
    text = keras.preprocessing.text
    first = text.Tokenizer(num_words=6, oov_token="<o>")
    first.fit_on_texts(["The cat, sat on the mat!", "the dog ate; the cat"])
    said = ["the cat ate my dog", "mat the the"]
    lists, letters = text.Tokenizer(), text.Tokenizer(char_level=True)
    lists.fit_on_texts([["a", "b", "a"], ["c", "B"]])
    letters.fit_on_texts(["abca"])
    matrices = [first.texts_to_matrix(said, mode) for mode in ("binary", "count", "freq", "tfidf")]
    indices = [first.word_index, lists.word_index, letters.word_index]
    again = text.tokenizer_from_json(first.to_json()).texts_to_sequences(said)
    return [
        indices, matrices, first.texts_to_sequences(said), first.sequences_to_texts([[1, 2, 3, 9]]), again,
        sorted(first.word_docs), lists.texts_to_sequences([["b", "c", "z"]]),
        text.text_to_word_sequence("Hi, you-all!"), text.hashing_trick("a b a", 7, "md5"),
    ]  # fmt: skip


@program
def functions(tf: Any, keras: Any) -> Any:
    k, la = keras.backend, keras.layers
    a, b, v = k.placeholder((2, 3)), k.placeholder((2, 3)), k.variable(np.ones(3))
    doubles = k.function([a, b], [a + b], updates=[k.update(v, v * 2)])
    sums = [doubles([np.ones((2, 3)), np.full((2, 3), i)]) for i in range(3)]
    model = keras.Sequential([la.Dense(2, input_shape=(3,), kernel_initializer=_w(tf)), la.Dropout(0.5)])
    inner = k.function([model.input, k.learning_phase()], [model.layers[0].output])
    return [
        sums,
        k.get_value(v),
        inner([np.ones((2, 3)), 0]),
        k.function([model.input], model.output)([np.ones((2, 3))]),
    ]


@program
def more_of_the_backend(tf: Any, keras: Any) -> Any:
    k = keras.backend
    images, space = tf.constant(wave(2, 4, 4, 2)), tf.constant(wave(1, 4, 4, 4, 2))
    of = lambda *shape: tf.constant(wave(*shape))  # noqa: E731
    made = [
        k.constant([1, 2]), k.arange(5), k.arange(2, 8, 2), k.reverse(images, 1), k.map_fn(lambda x: x * 2, images),
        k.in_top_k(of(3, 4), tf.constant([0, 1, 2]), 2), k.foldl(lambda a, x: a + x, images),
        k.foldr(lambda a, x: a - x, images), k.conv2d_transpose(images, of(3, 3, 5, 2), (2, 6, 6, 5)),
        k.depthwise_conv2d(images, of(3, 3, 2, 2)), k.conv3d(space, of(2, 2, 2, 2, 3)),
        k.separable_conv2d(images, of(3, 3, 2, 2), of(1, 1, 4, 3), padding="same"),
        k.pool3d(space, (2, 2, 2), (2, 2, 2), pool_mode="avg"), k.spatial_3d_padding(space),
        k.resize_images(images, 2, 3, "channels_last"), k.resize_images(images, 2, 2, "channels_last", "bilinear"),
        k.normalize_batch_in_training(images, tf.constant([1.0, 2]), tf.constant([0.0, 1]), [0, 1, 2]),
        k.eye(2), k.print_tensor(images),
    ]  # fmt: skip
    shares = np.abs(wave(2, 6, 4)) + 0.1
    shares /= shares.sum(-1, keepdims=True)
    labels, steps = tf.constant([[0, 1, 2], [1, 1, 0]]), tf.constant([6, 5])
    made.append(k.ctc_batch_cost(labels, tf.constant(shares), steps[:, None], tf.constant([[3], [2]])))
    made.append(k.ctc_decode(tf.constant(shares), steps))
    made.append(k.ctc_decode(tf.constant(shares), steps, greedy=False, beam_width=5, top_paths=2))
    return [k.get_session().run(made), k.cast_to_floatx(np.arange(2)), k.count_params(k.variable(np.ones([2, 3])))]


CONV_LSTMS: dict[str, dict[str, Any]] = {
    "": {},
    " sequences": {"return_sequences": True, "padding": "same"},
    " states": {"return_state": True, "strides": 2, "go_backwards": True},
    " stateful": {"stateful": True, "unit_forget_bias": False, "activation": "relu"},
}


def _conv_lstm(given: dict[str, Any]) -> Program:
    def run(tf: Any, keras: Any) -> Any:
        i = keras.Input((3, 5, 5, 2), batch_size=2)
        start = {"kernel_initializer": _w(tf), "recurrent_initializer": _w(tf, 1)}
        layer = keras.layers.ConvLSTM2D(3, (3, 3), **start, **given)
        out = layer(i)
        model, x = keras.Model(i, out), wave(2, 3, 5, 5, 2)
        outs = out if isinstance(out, list) else [out]
        slopes = keras.backend.gradients(sum(tf.reduce_sum(y * y) for y in outs), layer.trainable_weights)
        first = model.predict(x, batch_size=2)
        slopes = keras.backend.get_session().run(slopes, {i: x})
        return [first, slopes, model.predict(x, batch_size=2), [v.name for v in model.weights]]

    return run


PROGRAMS |= {f"ConvLSTM2D{name}": _conv_lstm(given) for name, given in CONV_LSTMS.items()}


@program
def many_heads(tf: Any, keras: Any) -> Any:
    found = []
    for given in ({}, {"use_bias": False, "output_shape": 7}):
        keras.backend.clear_session()
        q, v, mask = keras.Input((4, 6)), keras.Input((5, 3)), keras.Input((4, 5))
        layer = keras.layers.MultiHeadAttention(2, 3, value_dim=4, kernel_initializer=_w(tf), **given)
        out, scores = layer(q, v, return_attention_scores=True)
        model = keras.Model([q, v, mask], [out, scores, layer(q, v, attention_mask=mask)])
        fed = [wave(3, 4, 6), wave(3, 5, 3), (wave(3, 4, 5) > 0).astype(np.float32)]
        found.append([model.predict(fed), [x.name for x in model.weights], model.count_params()])
    return found
