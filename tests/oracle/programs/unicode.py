"""Strings and their code points, SparseTensors as strings, Examples from JSON."""

from __future__ import annotations

from typing import Any

from tests.oracle.program import program

_TEXTS = ["Gööd night".encode(), "\U0001f60a".encode(), b"", b"a\xffb\xc3", b"\xed\xa0\x80x", b"tab\there"]


def _parts(ragged: Any) -> list[Any]:
    if not hasattr(ragged, "row_splits"):
        return [ragged]
    return [*_parts(ragged.values), ragged.row_splits]


@program("UnicodeDecode", "UnicodeDecodeWithOffsets")
def code_points(tf: Any) -> list[Any]:
    out = []
    for settings in ({}, {"errors": "ignore"}, {"replacement_char": 33, "replace_control_characters": True}):
        out += _parts(tf.strings.unicode_decode(_TEXTS, "UTF-8", **settings))
    points, offsets = tf.strings.unicode_decode_with_offsets([_TEXTS[:2], _TEXTS[2:4]], "UTF-8")
    wide = tf.strings.unicode_decode(tf.constant("aé\U0001f60a".encode("utf-16-be")), "UTF-16-BE")
    return [[*out, *_parts(points), *_parts(offsets), wide]]


@program("UnicodeDecode")
def broken_text_refused(tf: Any) -> list[Any]:
    return [[tf.strings.unicode_decode(_TEXTS[3], "UTF-8", errors="strict")]]


@program("UnicodeEncode")
def strings_of_code_points(tf: Any) -> list[Any]:
    points = tf.ragged.constant([[71, 246, 0xD800, 33], [], [0x1F60A, 0x110000, -1, 0xFFFE]])
    of = [tf.strings.unicode_encode(points, to) for to in ("UTF-8", "UTF-16-BE", "UTF-32-BE")]
    of += [tf.strings.unicode_encode(points, "UTF-8", errors="ignore")]
    dense = [tf.strings.unicode_encode(v, "UTF-8") for v in ([97, 98], [[97, 98], [99, 100]], [[[97], [98]]])]
    fed = tf.strings.unicode_encode(tf.placeholder_with_default([[97]], [None, None]), "UTF-8")
    return [[*of, *dense, fed], [tf.strings.unicode_encode(points, "UTF-8", errors="strict")]]


@program("UnicodeEncode", "UnicodeDecode", "UnicodeDecodeWithOffsets")
def characters(tf: Any) -> list[Any]:
    texts = tf.placeholder_with_default(_TEXTS, [None])
    characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
    one = tf.strings.unicode_split(texts[0], "UTF-8")
    several = tf.strings.unicode_split(tf.placeholder_with_default([_TEXTS[:2]], [None, None]), "UTF-8")
    return [[*_parts(characters), *_parts(offsets), *_parts(several), one]]


@program("SerializeSparse", "SerializeManySparse", "DeserializeManySparse")
def sparse_tensors_as_strings(tf: Any) -> list[Any]:
    out = []
    for values in ([1.5, 2.5, 3.5], [b"a", b"", b"long" * 50], [True, False, True]):
        sparse = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], values, [4, 5])
        rows = tf.serialize_many_sparse(sparse)
        back = tf.deserialize_many_sparse(rows, sparse.dtype, rank=2)
        twice = tf.deserialize_many_sparse(tf.stack([tf.io.serialize_sparse(sparse)] * 2), sparse.dtype, rank=3)
        out += [rows, back.indices, back.values, back.dense_shape]
        out += [twice.indices, twice.values, twice.dense_shape, tf.constant([twice.shape.ndims, back.shape.ndims])]
    return [out]


@program("DeserializeManySparse")
def sparse_tensors_of_another_type(tf: Any) -> list[Any]:
    rows = tf.serialize_many_sparse(tf.SparseTensor([[0, 1]], [1.5], [1, 2]))
    return [[tf.deserialize_many_sparse(rows, tf.int64).values]]


@program("DecodeJSONExample")
def examples_from_json(tf: Any) -> list[Any]:
    text = (
        '{"features": {"feature": {"a": {"int64List": {"value": ["3", 4]}}, "b": {"floatList": {"value": [1.5]}}, '
        '"c": {"bytes_list": {"value": ["aGk="]}}}}}'
    )
    spec = {"a": tf.FixedLenFeature([2], tf.int64), "b": tf.VarLenFeature(tf.float32)}
    spec["c"] = tf.FixedLenFeature([], tf.string)
    found = tf.parse_example(tf.decode_json_example([text]), spec)
    return [[found["a"], found["b"].values, found["c"]], [tf.io.decode_json_example("{]")]]
