"""Bytes and n-grams of strings, CTC's second loss, rows mapped at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.cases.values import noise
from tests.oracle.compare import Tolerance
from tests.oracle.program import program
from tests.oracle.programs.api import F, expression
from tests.oracle.programs.unicode import _parts

_ROWS = [["a", "b", "c"], ["d"], [], ["e", "f"]]
_LABELS = np.array([[1, 2, 2], [3, 0, 0], [0, 0, 0]], np.int32)


@program("StringNGrams")
def ngrams(tf: Any) -> list[Any]:
    out = []
    for given in (
        {"ngram_width": 2}, {"ngram_width": (1, 3)}, {"ngram_width": 3, "pad_values": ("<", ">")},
        {"ngram_width": 5, "pad_values": "_", "padding_width": 2, "separator": ""},
        {"ngram_width": 4, "preserve_short_sequences": True},
        {"ngram_width": 6, "pad_values": "_", "padding_width": 1, "preserve_short_sequences": True},
    ):  # fmt: skip
        out += _parts(tf.strings.ngrams(tf.ragged.constant(_ROWS), **given))
    out += [tf.strings.ngrams(x, 2) for x in (["a", "b", "c"], [["a", "b"], ["c", "d"]])]
    return [[*out, *_parts(tf.strings.bytes_split([["ab", "x"], ["", "c"]])), tf.strings.bytes_split("xyz")]]


@program("ExtractJpegShape")
def sizes_of_files(tf: Any) -> list[Any]:
    files = [tf.image.encode_jpeg(tf.zeros([5, 7, n], tf.uint8)) for n in (1, 3)]
    return [[tf.io.extract_jpeg_shape(file, kind) for file in files for kind in (tf.int32, tf.int64)]]


@program("DecodeWav", "EncodeWav")
def sounds(tf: Any) -> list[Any]:
    sound = np.random.default_rng(1).normal(0, 0.6, (50, 2)).astype(np.float32)
    sound[:3] = [[0.5 / 32768, -0.5 / 32768], [2.5 / 32768, np.nan], [np.inf, -np.inf]]
    file, out = tf.audio.encode_wav(sound, 16000), []
    for given in ({}, {"desired_channels": 1}, {"desired_channels": 3, "desired_samples": 60}, {"desired_samples": 7}):
        out += tf.audio.decode_wav(file, **given)
    return [[file, *out, tf.audio.encode_wav(sound[:0, :1], 8000)]]


@program("SparseCross", "SparseCrossV2", one_way="what is one op in TensorFlow is made of those of SparseTensors")
def products_of_rows(tf: Any) -> list[Any]:
    ragged, dense = tf.ragged.constant([["a"], ["b", "c"], []]), tf.constant([["x", ""], ["y", "z"], ["", "w"]])
    sparse, out = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [7, 8, 9], [3, 4]), []
    for inputs in ([ragged, ragged], [dense, ragged, sparse], [sparse, dense], [ragged]):
        out += _parts(tf.ragged.cross(inputs))
        out += _parts(tf.ragged.cross_hashed(inputs, 1000)) + _parts(tf.ragged.cross_hashed(inputs, hash_key=5))
    return [out]


def _losses(tf: Any, x: Any) -> list[Any]:
    kept = {"label_length": [3, 1, 0], "logit_length": [6, 4, 5]}
    out = [tf.nn.ctc_loss_v2(_LABELS, x, **kept), tf.nn.ctc_loss_v2(np.minimum(_LABELS, 2), x, **kept, blank_index=-1)]
    sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], tf.constant([1, 2, 3, 0]), [3, 2])
    moved = tf.SparseTensor(sparse.indices, tf.constant([0, 2, 3, 0]), [3, 2])
    sizes = {"label_length": None, "logit_length": [6, 4, 5]}
    return [*out, tf.nn.ctc_loss_v2(moved, x, **sizes, blank_index=1)]


expression("ctc-losses", [noise(F, 6, 3, 4)], lambda tf, x: _losses(tf, tf.ensure_shape(x, [6, 3, 4])), True,
           tolerance=Tolerance(4096, scaled=True), one_way="TensorFlow's loops fill tensors in place")  # fmt: skip
expression("rows-at-once", [noise(F, 4, 3)], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [4, 3])] for f in [
        tf.vectorized_map(lambda r: tf.reduce_sum(r * r), x),
        *tf.vectorized_map(lambda t: (t[0] * t[1], t[0][:1]), (x, x)),
    ]
], True)  # fmt: skip
