"""parse_single_example of messages with one value each, against parse_example, which reads them another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

RNG = np.random.default_rng(3)
SPEC = {
    "text": tf.FixedLenFeature([], tf.string, b"none"),
    "whole": tf.FixedLenFeature([1], tf.int64, [4]),
    "real": tf.FixedLenFeature([1, 1], tf.float32, [[0.5]]),
}


def _feature(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    kind = {bytes: "bytes", int: "int64", float: "float"}[type(values[0])]
    proto = {"bytes": tf.train.BytesList, "int64": tf.train.Int64List, "float": tf.train.FloatList}[kind]
    return tf.train.Feature(**{f"{kind}_list": proto(value=values)})


def _message(**features: Any) -> bytes:
    made = {name: _feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def _field(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def _entry(key: bytes, feature: bytes) -> bytes:
    return _field(1, _field(1, key) + _field(2, feature))


ODD = {
    "twice": _field(
        1, _entry(b"whole", _field(3, _field(1, b"\x05"))) + _entry(b"whole", _field(3, _field(1, b"\x06")))
    ),
    "unpacked": _field(1, _entry(b"whole", _field(3, b"\x08\x09"))),
    "unknown field": _field(1, _entry(b"text", _field(1, _field(1, b"ab") + b"\x10\x01"))),
    "nothing": b"",
}
MESSAGES = [
    *(_message(text=bytes(n), whole=-n, real=float(n)) for n in (0, 1, 127, 128, 784, 20000)),
    *(_message(text=b"a"), _message(other=b"b" * 300, real=2.0), _message(whole=2**62, text=b"\xff")),
    *ODD.values(),
]


def _same(message: Any, one: Any, session: Any) -> Any:
    batch = tf.parse_example(tf.reshape(message, [1]), SPEC)
    return {name: tf.reshape(batch[name], one[name].shape) for name in one}


def test_of_many_forms(graph: Any) -> None:
    message = tf.placeholder(tf.string, [])
    one = tf.parse_single_example(message, SPEC)
    with tf.Session() as session:
        other = _same(message, one, session)
        for i in RNG.integers(0, len(MESSAGES), 200):
            found, expected = session.run([one, other], {message: MESSAGES[i]})
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value)
                assert np.asarray(found[name]).dtype == np.asarray(value).dtype


@pytest.mark.parametrize(
    "message, said",
    [
        (_message(text=[b"a", b"b"]), "Number of string values != expected"),
        (_message(text=1), "Data types don't match"),
        (b"\xff\xff", "Could not parse example input"),
        (_field(1, _entry(b"text", _field(1, b"\x0a\x05ab"))), "is no tf.train.Example"),
    ],
)
def test_errors_are_those_of_many(graph: Any, message: bytes, said: str) -> None:
    given = tf.placeholder(tf.string, [])
    one = tf.parse_single_example(given, SPEC)
    with tf.Session() as session:
        session.run(one, {given: MESSAGES[0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            session.run(one, {given: message})
