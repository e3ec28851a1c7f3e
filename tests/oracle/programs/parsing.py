"""Serialized messages, CSV lines and readers, in both libraries."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from sparkflow import train
from sparkflow_runtime.records.framing import frame
from tests.oracle.cases.values import strings
from tests.oracle.program import program
from tests.oracle.programs.api import expression


def _example(**features: Any) -> bytes:
    message = train.Example()
    for name, values in features.items():
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0])]
        getattr(message.features.feature[name], kind).value.extend(values)
    return bytes(message.SerializeToString())


MESSAGES = np.empty(3, object)
MESSAGES[:] = [
    _example(n=[1], x=[1.0, 2.0], words=[b"a", b"b"], seq=[1, 2, 3, 4], at=[3, 1], val=[0.5, 1.5]),
    _example(x=[3.0, 4.0], seq=[5, -(2**62)], at=[0], val=[float("inf")]),
    _example(n=[-3], x=[5.0, 6.0], words=[b"", b"c" * 200]),
]


def _spec(tf: Any) -> dict[str, Any]:
    return {
        "n": tf.FixedLenFeature([], tf.int64, 7),
        "x": tf.FixedLenFeature([2, 1], tf.float32),
        "words": tf.VarLenFeature(tf.string),
        "none": tf.VarLenFeature(tf.float32),
        "seq": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True),
        "s": tf.SparseFeature("at", "val", tf.float32, 5),
    }


def _flat(parsed: dict[str, Any]) -> list[Any]:
    out = []
    for _, value in sorted(parsed.items()):
        out += [value.indices, value.values, value.dense_shape] if hasattr(value, "dense_shape") else [value]
    return out


def _parts(tf: Any) -> dict[str, Any]:
    return {k: v for k, v in _spec(tf).items() if k not in ("seq", "s")}


expression(
    "parse-example",
    [MESSAGES],
    lambda tf, m: _flat(tf.parse_example(tf.reshape(m, [-1]), _spec(tf))),
    ops=("ParseExample", "ParseExampleV2"),
)
expression("parse-none", [MESSAGES[:0]], lambda tf, m: _flat(tf.parse_example(tf.reshape(m, [-1]), _parts(tf))))
expression(
    "parse-single",
    [MESSAGES[:1]],
    lambda tf, m: _flat(tf.parse_single_example(tf.reshape(m, []), _parts(tf))),
    ops=("ParseSingleExample",),
)

_rows = np.empty(2, object)
_rows[:] = [
    _example(v=[3, 1, 4, 1, 5, 9], cut=[0, 2, 2, 6], ids=[0, 0, 2, 2, 2, 3], x=[1.0] * 6, outer=[1, 2], n=[4]),
    _example(v=[2, 7], cut=[0, 2], ids=[0, 1], x=[2.0] * 6, outer=[1]),
]


def _ragged(tf: Any, parse: Any, m: Any) -> list[Any]:
    part = tf.io.RaggedFeature
    found = parse(
        m,
        {
            "v": part(tf.int64),
            "splits": part(tf.int64, "v", [part.RowSplits("cut")]),
            "ids": part(tf.int64, "v", [part.ValueRowIds("ids")]),
            "deep": part(tf.int64, "v", [part.RowLengths("outer"), part.RowSplits("cut")]),
            "pairs": part(tf.float32, "x", [part.UniformRowLength(3), part.UniformRowLength(2)], tf.int64),
            "n": tf.io.FixedLenFeature([], tf.int64, 7),
            "words": tf.io.VarLenFeature(tf.string),
        },
    )
    out = []
    for _, value in sorted(found.items()):
        many = hasattr(value, "nested_row_splits")
        out += [*value.nested_row_splits, value.flat_values] if many else _flat({"": value})
    return out


for _name, _messages in (("parse-ragged", _rows), ("parse-ragged-none", _rows[:0])):
    expression(
        _name, [_messages], lambda tf, m: _ragged(tf, tf.io.parse_example, tf.reshape(m, [-1])),
        ops=("ParseExampleV2",), one_way="TensorFlow makes a RaggedRange",
    )  # fmt: skip
expression(
    "parse-ragged-single", [_rows[:1]],
    lambda tf, m: _ragged(tf, tf.io.parse_single_example, tf.reshape(m, [])), ops=("ParseExampleV2",),
)  # fmt: skip

_sequence = train.SequenceExample()
_sequence.context.feature["length"].int64_list.value.append(2)
_sequence.context.feature["tags"].bytes_list.value.extend([b"t", b"u"])
for _word, _vector in ((b"to", [1.0, 2.0]), (b"be", [3.0, 4.0])):
    _sequence.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(_word)
    _sequence.feature_lists.feature_list["vectors"].feature.add().float_list.value.extend(_vector)


def _sequences(tf: Any, message: Any) -> list[Any]:
    context, sequences = tf.io.parse_single_sequence_example(
        tf.reshape(message, []),
        {"length": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string),
         "more": tf.FixedLenFeature([2], tf.float32, [0.5, 1.5])},
        {"vectors": tf.FixedLenSequenceFeature([2], tf.float32), "words": tf.VarLenFeature(tf.string),
         "none": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)},
    )  # fmt: skip
    return _flat(context) + _flat(sequences)


SEQUENCE = np.empty(1, object)
SEQUENCE[0] = bytes(_sequence.SerializeToString())
expression(
    "parse-sequence",
    [SEQUENCE],
    _sequences,
    ops=("ParseSingleSequenceExample",),
)


def _sequence_of(steps: int, words: int | None) -> bytes:
    message = train.SequenceExample()
    message.context.feature["n"].int64_list.value.append(steps)
    message.context.feature["tags"].bytes_list.value.extend([b"t"] * (steps % 3))
    for step in range(steps):
        message.feature_lists.feature_list["v"].feature.add().float_list.value.extend([step, -step, 0.5])
        message.feature_lists.feature_list["i"].feature.add().int64_list.value.append(-step << 40)
    for step in range(words or 0):
        message.feature_lists.feature_list["w"].feature.add().bytes_list.value.extend([b"w"] * step)
    if words is not None:
        message.feature_lists.feature_list["w"].SetInParent()
    return bytes(message.SerializeToString())


def _many_sequences(tf: Any, messages: Any) -> list[Any]:
    context, sequences, lengths = tf.io.parse_sequence_example(
        tf.reshape(messages, [-1]),
        {"n": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string),
         "more": tf.FixedLenFeature([2], tf.float32, [0.5, 1.5])},
        {"v": tf.FixedLenSequenceFeature([3], tf.float32, allow_missing=True), "w": tf.VarLenFeature(tf.string),
         "i": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True), "none": tf.VarLenFeature(tf.int64)},
    )  # fmt: skip
    return _flat(context) + _flat(sequences) + _flat(lengths)


MANY_SEQUENCES = np.empty(6, object)
MANY_SEQUENCES[:] = [_sequence_of(s, w) for s, w in ((3, 2), (0, None), (1, 0), (7, 4), (20, 1), (0, 3))]
expression("parse-sequences", [MANY_SEQUENCES], _many_sequences, ops=("ParseSequenceExampleV2",))
expression("parse-sequences-one", [MANY_SEQUENCES[:1]], _many_sequences)
LINES = strings("1,a,2.5,", '-2,"b,""q""",,9', ",c d,1e3,NA", " 4 ,,NA,7")
expression(
    "decode-csv",
    [LINES],
    lambda tf, s: tf.decode_csv(s, [[7.0], ["x"], [0.25], [3]], na_value="NA"),
    ops=("DecodeCSV",),
)
expression(
    "decode-csv-some", [LINES], lambda tf, s: tf.decode_csv(s, [["x"], [0.25]], na_value="NA", select_cols=[1, 2])
)

_folder = tempfile.mkdtemp(prefix="sparkflow-oracle-")
_records, _text = os.path.join(_folder, "records"), os.path.join(_folder, "text")
with open(_records, "wb") as _file:
    _file.write(b"".join(frame(m) for m in MESSAGES))
with open(_text, "wb") as _file:
    _file.write(b"head\nab\r\n\ncd")


@program(
    "ReaderReadV2", "ReaderReadUpToV2", "TFRecordReaderV2", "TextLineReaderV2", "WholeFileReaderV2",
    "FixedLengthRecordReaderV2", "IdentityReaderV2", "ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompletedV2",
    "ReaderResetV2",
)  # fmt: skip
def readers(tf: Any) -> list[Any]:
    """Each reader over the same two files."""
    runs: list[Any] = []
    for reader, path in (
        (tf.TFRecordReader(), _records), (tf.TextLineReader(skip_header_lines=1), _text), (tf.WholeFileReader(), _text),
        (tf.FixedLengthRecordReader(2, header_bytes=1, hop_bytes=3), _text), (tf.IdentityReader(), _text),
    ):  # fmt: skip
        queue = tf.FIFOQueue(9, [tf.string], [[]])
        read = reader.read(queue)
        put = queue.enqueue_many([[path, path]])
        with tf.control_dependencies([put]):
            size = queue.size()
        runs += [([size], {}), (list(read), {}), ([reader.num_records_produced()], {})]
        with tf.control_dependencies([reader.reset()]):
            units = reader.num_work_units_completed()
        runs.append(([units], {}))
    queue = tf.FIFOQueue(9, [tf.string], [[]])
    with tf.control_dependencies([queue.enqueue_many([[_records]])]):
        size = queue.size()
    runs += [([size], {}), (list(tf.TFRecordReader().read_up_to(queue, 2)), {})]
    return runs


def _steps(context: list[int], **lists: Any) -> bytes:
    message = train.SequenceExample()
    message.context.feature["c"].int64_list.value.extend(context)
    for name, steps in lists.items():
        for values in steps:
            feature = message.feature_lists.feature_list[name].feature.add()
            kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0]) if values else int]
            if values:
                getattr(feature, kind).value.extend(values)
    return bytes(message.SerializeToString())


RAGGED_STEPS = np.empty(4, object)
RAGGED_STEPS[:] = [
    _steps([2, 1], v=[[1, 2], [3], []], cut=[[1, 1], [1], [0]], ids=[[0, 2], [1], []], s=[[b"x"]], f=[[1.0], [2.0]]),
    b"",
    _steps([], v=[[5], [6, 7, 8]], cut=[[1], [2, 0, 1]], ids=[[0], [0, 1, 1]], s=[[b"y", b"zz"], []]),
    _steps([7], f=[[3.0]]),
]


def _ragged_sequences(tf: Any, messages: Any, single: bool) -> list[Any]:
    part = tf.io.RaggedFeature
    parse = tf.io.parse_single_sequence_example if single else tf.io.parse_sequence_example
    found = parse(
        tf.reshape(messages, [] if single else [-1]),
        {"c": part(tf.int64), "pairs": part(tf.int64, "c", [part.UniformRowLength(1)])},
        {
            "v": part(tf.int64),
            "lengths": part(tf.int64, "v", [part.RowLengths("cut")]),
            "ids": part(tf.int64, "v", [part.ValueRowIds("ids")]),
            "s": part(tf.string, row_splits_dtype=tf.int64),
            "f": tf.io.FixedLenSequenceFeature([1], tf.float32, allow_missing=True),
            "n": tf.io.VarLenFeature(tf.int64),
        },
    )
    out = []
    for name, value in [pair for features in found for pair in sorted(features.items())]:
        many = hasattr(value, "nested_row_splits")
        out += [*value.nested_row_splits, value.flat_values] if many else _flat({name: value})
    return out


expression(
    "parse-ragged-sequences", [RAGGED_STEPS], lambda tf, m: _ragged_sequences(tf, m, False),
    ops=("ParseSequenceExampleV2",), one_way="TensorFlow makes a RaggedRange",
)  # fmt: skip
for _i in range(4):
    expression(
        f"parse-ragged-sequence{_i}", [RAGGED_STEPS[_i : _i + 1]], lambda tf, m: _ragged_sequences(tf, m, True),
        one_way="TensorFlow makes a RaggedRange",
    )  # fmt: skip
