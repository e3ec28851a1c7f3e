"""Examples, records and lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _example(a: list[float], tags: list[bytes]) -> bytes:
    features = {
        "a": tf.train.Feature(float_list=tf.train.FloatList(value=a)),
        "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[len(tags)])),
        "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=tags)),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


FEATURES = {
    "a": tf.FixedLenFeature([2], tf.float32),
    "n": tf.FixedLenFeature([], tf.int64),
    "m": tf.FixedLenFeature([], tf.int64, default_value=-1),
    "tags": tf.VarLenFeature(tf.string),
}


def test_an_example_comes_back() -> None:
    data = _example([1.0], [])
    assert tf.train.Example.FromString(data).features.feature["a"].float_list.value == [1.0]


def test_one_and_many(graph: Any) -> None:
    text = tf.placeholder(tf.string)
    one, many = tf.parse_single_example(text, FEATURES), tf.parse_example(text, FEATURES)
    assert one["a"].shape.as_list() == [2]
    rows = [_example([1, 2], [b"x", b"y"]), _example([3, 4], [])]
    with tf.Session() as session:
        found = session.run(one, {text: rows[0]})
        assert found["a"].tolist() == [1, 2] and found["n"] == 2 and found["m"] == -1
        assert found["tags"].values.tolist() == [b"x", b"y"]
        batch = session.run(many, {text: rows})
        np.testing.assert_array_equal(batch["a"], [[1, 2], [3, 4]])
        assert batch["tags"].dense_shape.tolist() == [2, 2] and batch["m"].tolist() == [-1, -1]
        for wrong, what in ((_example([1], []), "values size"), (b"\xff\xff", "parse"), (b"", "required")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=what):
                session.run(one, {text: wrong})


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_records(tmp_path: Path, kind: str) -> None:
    path, records = str(tmp_path / "r"), [b"one", b"", b"three" * 100]
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(kind)) as writer:
        for record in records:
            writer.write(record)
    assert list(tf.python_io.tf_record_iterator(path, tf.io.TFRecordOptions(kind))) == records


def test_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"one")
        writer.write(b"two")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(tf.errors.DataLossError, match=r"byte 19 .*of this compression$"):
        list(tf.python_io.tf_record_iterator(str(path)))
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.python_io.tf_record_iterator(str(tmp_path / "no")))


def test_lines(graph: Any) -> None:
    line = tf.placeholder(tf.string)
    columns = tf.decode_csv(line, [[0], ["none"], tf.constant([], tf.float32)])
    with tf.Session() as session:
        a, b, c = session.run(columns, {line: [b"1,x,2.5", b',"a,""b",3']})
        assert a.tolist() == [1, 0] and b.tolist() == [b"x", b'a,"b'] and c.tolist() == [2.5, 3]
        for wrong, what in ((b"1,x", "Expect 3"), (b"1,x,", "required"), (b"q,x,1", "not a valid")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=what):
                session.run(columns, {line: [wrong]})


def test_examples_as_json(graph: Any) -> None:
    text = tf.placeholder(tf.string, [])
    made = tf.decode_json_example(text)
    kept = '{"features": {"feature": {"a": {"bytesList": {"value": ["aGk=", "aGk", "", "_-8"]}}}}}'
    with tf.Session() as session:
        found = tf.train.Example.FromString(session.run(made, {text: kept}))
        assert list(found.features.feature["a"].bytes_list.value) == [b"hi", b"hi", b"", b"\xff\xef"]
        assert session.run(made, {text: '{"features": null}'}) == b""
        for wrong, what in (
            ("[]", "it is a list and no object"),
            (kept.replace("aGk=", "!!"), "'!!' is no base64"),
            (kept.replace("aGk=", r"aGk=\n"), "is no base64"),
            (kept.replace("aGk=", "a"), "no Example as JSON"),
            ("{]", "no Example as JSON"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=what):
                session.run(made, {text: wrong})
