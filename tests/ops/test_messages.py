"""decode_proto and encode_proto: fields of any message as tensors. Which values are told is TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

import sparkflow as tf

F = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "d": (F.TYPE_DOUBLE, tf.float64, -1.5), "f": (F.TYPE_FLOAT, tf.float32, 0.25), "i64": (F.TYPE_INT64, tf.int64, -7),
    "u64": (F.TYPE_UINT64, tf.uint64, 2**63 + 5), "i32": (F.TYPE_INT32, tf.int32, -3),
    "fx64": (F.TYPE_FIXED64, tf.uint64, 9), "fx32": (F.TYPE_FIXED32, tf.uint32, 8),
    "s": (F.TYPE_STRING, tf.string, "é"), "b": (F.TYPE_BOOL, tf.bool, True),
    "by": (F.TYPE_BYTES, tf.string, b"\xff\x00"), "u32": (F.TYPE_UINT32, tf.uint32, 2**32 - 1),
    "sf32": (F.TYPE_SFIXED32, tf.int32, -2), "sf64": (F.TYPE_SFIXED64, tf.int64, -(2**60)),
    "si32": (F.TYPE_SINT32, tf.int32, -(2**31)), "si64": (F.TYPE_SINT64, tf.int64, -(2**63)),
}  # fmt: skip


def described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="tests/messages.proto", package="tests", syntax="proto2")
    inner, outer = file.message_type.add(name="Inner"), file.message_type.add(name="Outer")
    inner.field.add(name="v", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    for number, (name, (kind, _, _)) in enumerate(KINDS.items(), 1):
        outer.field.add(name=name, number=number, type=kind, label=F.LABEL_OPTIONAL)
        outer.field.add(name=f"r_{name}", number=number + 20, type=kind, label=F.LABEL_REPEATED)
        packed = outer.field.add(name=f"p_{name}", number=number + 40, type=kind, label=F.LABEL_REPEATED)
        packed.options.packed = name not in ("s", "by")
    outer.field.add(name="inner", number=99, type=F.TYPE_MESSAGE, type_name=".tests.Inner", label=F.LABEL_REPEATED)
    return file


FILE = described()
SOURCE = b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(FILE.SerializeToString())
OUTER: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("tests.Outer"))
NAMES = [end + name for name in KINDS for end in ("", "r_", "p_")] + ["inner"]
TYPES = [dtype for _, dtype, _ in KINDS.values() for _ in range(3)] + [tf.string]

INVALID, LOST = tf.errors.InvalidArgumentError, tf.errors.DataLossError
pytestmark = pytest.mark.usefixtures("graph")


def messages() -> list[bytes]:
    full, defaults = OUTER(), OUTER(i32=0, s="")
    for name, (_, _, value) in KINDS.items():
        setattr(full, name, value)
        getattr(full, f"r_{name}").extend([value, value])
        getattr(full, f"p_{name}").extend([value] * 3)
    full.inner.add(v=5)
    return [full.SerializeToString(), defaults.SerializeToString()]


def decoded(given: Any, names: Any = NAMES, types: Any = TYPES, **more: Any) -> Any:
    return tf.io.decode_proto(given, "tests.Outer", names, types, **{"descriptor_source": SOURCE, **more})


def test_fields_of_every_kind() -> None:
    with tf.Session() as session:
        sizes, values = session.run(decoded(messages()))
    assert sizes[0].tolist() == [1, 2, 3] * len(KINDS) + [1]
    assert {name for name, size in zip(NAMES, sizes[1]) if size} == {"i32", "s"}  # at its default, and there
    for at, (_, dtype, value) in enumerate(KINDS.values()):
        kept = value.encode() if isinstance(value, str) else value
        padding = b"" if dtype == tf.string else 0
        for width, found in zip((1, 2, 3), values[3 * at : 3 * at + 3]):
            assert found.dtype == dtype.as_numpy_dtype and found.tolist() == [[kept] * width, [padding] * width]
    assert values[-1].tolist() == [[b"\x08\x05"], [b""]]


def test_shapes_follow_those_of_the_messages() -> None:
    with tf.Session() as session:
        sizes, (one,) = session.run(decoded(messages()[0], ["r_i32"], [tf.int64]))
        assert sizes.tolist() == [2] and one.tolist() == [-3, -3]
        sizes, (two,) = session.run(decoded([messages()], ["d"], [tf.float64]))
        assert sizes.shape == (1, 2, 1) and two.tolist() == [[[-1.5], [0]]]
    unknown = decoded(tf.placeholder(tf.string, [None, 2]), ["f"], [tf.float32])
    assert unknown.sizes.shape.as_list() == [None, 2, 1] and unknown.values[0].shape.as_list() == [None, 2, None]


def test_messages_as_text() -> None:
    text = [text_format.MessageToString(OUTER.FromString(raw)) for raw in messages()]
    with tf.Session() as session:
        found, wanted = session.run([decoded(text, message_format="text"), decoded(messages())])
    assert all(np.array_equal(a, b) for a, b in zip(found.values, wanted.values))


def test_encoding_is_the_way_back() -> None:
    there = decoded(messages())
    back = tf.io.encode_proto(there.sizes, there.values, NAMES, "tests.Outer", SOURCE)
    assert back.shape == [2]
    with tf.Session() as session:
        assert [OUTER.FromString(raw) for raw in session.run(back)] == [OUTER.FromString(raw) for raw in messages()]


@pytest.mark.parametrize(
    "make, kind, words",
    [
        (lambda: decoded([b"\x0a\xff"]).sizes, LOST, "Unable to parse binary protobuf of 2 bytes"),
        (lambda: decoded(["x: {"], message_format="text").sizes, LOST, "parse text protobuf"),
        (lambda: decoded([b""], ["no"], [tf.int32]).sizes, INVALID, "Unknown field: no in"),
        (lambda: decoded([b""], ["i32"], [tf.string]).sizes, INVALID, "only int32 or int64 fits"),
        (lambda: tf.io.decode_proto([b""], "no.M", ["i"], [tf.int32], SOURCE).sizes, INVALID,
         "No descriptor found for message type 'no.M'"),
        (lambda: decoded([b""], descriptor_source="/no/such").sizes, INVALID, "/no/such.*give local"),
        (lambda: tf.io.encode_proto([[3]], [[[1, 2]]], ["r_i32"], "tests.Outer", SOURCE), INVALID,
         r"Values for field r_i32 must be \[1, 3\] at least"),
    ],
)  # fmt: skip
def test_what_is_refused(make: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with tf.Session() as session, pytest.raises(kind, match=words):
        session.run(make())
