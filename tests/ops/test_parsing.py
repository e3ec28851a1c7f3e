"""Serialized messages and CSV lines as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import parsing_sequences
from sparkflow_runtime.records import sequences


def example(**features: Any) -> bytes:
    message = tf.train.Example()
    for name, values in features.items():
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[type(values[0])]
        getattr(message.features.feature[name], kind).value.extend(values)
    return bytes(message.SerializeToString())


MESSAGES = [
    example(n=[1], x=[1.0, 2.0], words=[b"a", b"b"], seq=[1, 2, 3, 4]),
    example(x=[3.0, 4.0], seq=[5, 6]),
    example(n=[-3], x=[5.0, 6.0], words=[b"c"]),
]
SPEC = {
    "n": tf.FixedLenFeature([], tf.int64, 7),
    "x": tf.FixedLenFeature([2, 1], tf.float32),
    "words": tf.VarLenFeature(tf.string),
    "seq": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True, default_value=-1),
}


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feed)


def test_every_kind_of_feature(graph: Any) -> None:
    serialized = tf.placeholder(tf.string, [None])
    parsed = tf.parse_example(serialized, SPEC)
    assert parsed["x"].shape.as_list() == [None, 2, 1] and parsed["seq"].shape.as_list() == [None, None, 2]
    for _ in range(2):
        found = run(parsed, {serialized: MESSAGES})
        assert found["n"].tolist() == [1, 7, -3] and found["n"].dtype == np.int64
        assert found["x"].tolist() == [[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]]
        assert found["words"].indices.tolist() == [[0, 0], [0, 1], [2, 0]]
        assert found["words"].values.tolist() == [b"a", b"b", b"c"] and found["words"].dense_shape.tolist() == [3, 2]
        assert found["seq"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [-1, -1]], [[-1, -1], [-1, -1]]]
    empty = run(parsed, {serialized: np.empty(0, object)})
    assert empty["x"].shape == (0, 2, 1) and empty["words"].dense_shape.tolist() == [0, 0]


def test_one_message(graph: Any) -> None:
    spec = {k: SPEC[k] for k in ("n", "x", "words")}
    found = run(tf.parse_single_example(MESSAGES[0], spec))
    assert found["n"] == 1 and found["x"].shape == (2, 1)
    assert found["words"].indices.tolist() == [[0], [1]] and found["words"].dense_shape.tolist() == [2]


def test_a_single_string_is_a_tensor_as_any_other(graph: Any) -> None:
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a b"]))
    features = tf.train.Features(feature={"text": text})
    one = tf.train.Example(features=features).SerializeToString()
    many = tf.train.SequenceExample(context=features).SerializeToString()
    kind = {"text": tf.io.FixedLenFeature([], tf.string)}
    found = [
        tf.io.parse_single_example(one, kind)["text"],
        tf.io.parse_example([one], kind)["text"][0],
        tf.io.parse_single_sequence_example(many, kind)[0]["text"],
    ]
    with tf.Session() as session:
        for x in found:
            assert session.run(tf.reshape(x, [1])).tolist() == [b"a b"]
            assert session.run(tf.string_split([x]).values).tolist() == [b"a", b"b"]
            assert session.run(tf.where(tf.equal(x, "a b"), x, tf.constant("no"))) == b"a b"


def test_indices_that_are_features(graph: Any) -> None:
    messages = [example(i=[4, 0], v=[1.0, 2.0]), example(i=[2], v=[3.0])]
    found = run(tf.parse_example(messages, {"s": tf.SparseFeature("i", "v", tf.float32, 6)}))["s"]
    assert found.indices.tolist() == [[0, 0], [0, 4], [1, 2]] and found.values.tolist() == [2.0, 1.0, 3.0]
    assert found.dense_shape.tolist() == [2, 6]


@pytest.mark.parametrize(
    ("messages", "spec", "message"),
    [
        ([b"\xff"], {"n": tf.VarLenFeature(tf.int64)}, "Could not parse example input"),
        (MESSAGES, {"n": tf.FixedLenFeature([], tf.int64)}, r"Feature: n \(data type: int64\) is required but could"),
        (MESSAGES, {"n": tf.FixedLenFeature([], tf.float32, 0.0)}, "Data types don't match. Data type: int64 but"),
        (MESSAGES, {"x": tf.FixedLenFeature([3], tf.float32)}, r"Key: x, Index: 0. .*values size: 2 but output"),
        (MESSAGES, {"seq": tf.FixedLenSequenceFeature([3], tf.int64, True)}, "not a multiple of stride length. Saw 4"),
    ],
)
def test_messages_that_do_not_fit(graph: Any, messages: Any, spec: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        run(tf.parse_example(messages, spec))


def test_names_are_told(graph: Any) -> None:
    parsed = tf.parse_example(MESSAGES, {"n": tf.FixedLenFeature([], tf.int64)}, example_names=["p", "q", "r"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Name: q, Feature: n"):
        run(parsed)


def test_specs_that_are_wrong(graph: Any) -> None:
    for spec, message in (
        ({}, "Missing features"),
        ({"a": tf.FixedLenFeature([None], tf.int64)}, "First dimension of shape for feature 'a' unknown"),
        ({"a": tf.io.RaggedFeature(tf.int32)}, "Feature 'a': an Example holds float32"),
        ({"a": tf.FixedLenSequenceFeature([], tf.int64)}, "requires allow_missing to be True"),
        ({"a": 3}, "Feature 'a': unsupported int"),
    ):
        with pytest.raises(ValueError, match=message):
            tf.parse_example(MESSAGES, spec)
    for feature in (tf.FixedLenFeature([], tf.int32), tf.VarLenFeature(tf.bool)):
        with pytest.raises(TypeError, match="Feature 'a': an Example holds float32"):
            tf.parse_example(MESSAGES, {"a": feature})


@pytest.mark.parametrize("ragged", [{}, {"r": tf.io.RaggedFeature(tf.int64, value_key="seq")}])
def test_how_many_messages_there_are(graph: Any, ragged: dict[str, Any]) -> None:
    """A scalar is one message, for parse_example too; neither takes what has another rank."""
    spec = {"n": tf.FixedLenFeature([], tf.int64, 7), **ragged}
    found = run(tf.parse_example(MESSAGES[0], spec))
    assert found["n"].shape == () and found["n"] == run(tf.parse_example(MESSAGES, spec))["n"][0]
    with pytest.raises(ValueError, match="must be a vector of messages, or a scalar, got shape"):
        tf.parse_example([MESSAGES], spec)
    with pytest.raises(ValueError, match="serialized must be a scalar"):
        tf.parse_single_example(MESSAGES, spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"), tf.Session() as session:
        given = tf.placeholder(tf.string)
        session.run(tf.parse_single_example(given, spec), {given: MESSAGES})


def test_an_empty_line_has_no_field(graph: Any) -> None:
    for lines, record in (([""], 0), (["1", ""], 1), (["\n"], 0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"Expect 1 fields but have 0 in record {record}"):
            run(tf.decode_csv(lines, [[7]]))
    assert run(tf.decode_csv(['""', "1"], [[7]]))[0].tolist() == [7, 1]
    assert run(tf.decode_csv([","], [[7], [8]]))[1].tolist() == [8]


def test_sequences(graph: Any) -> None:
    message = tf.train.SequenceExample()
    message.context.feature["length"].int64_list.value.append(2)
    message.context.feature["tags"].bytes_list.value.extend([b"t", b"u"])
    for word, vector in ((b"to", [1.0, 2.0]), (b"be", [3.0, 4.0])):
        message.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(word)
        message.feature_lists.feature_list["vectors"].feature.add().float_list.value.extend(vector)
    context, sequences = tf.parse_single_sequence_example(
        message.SerializeToString(),
        {"length": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string),
         "more": tf.FixedLenFeature([2], tf.float32, [0.5, 1.5])},
        {"vectors": tf.FixedLenSequenceFeature([2], tf.float32), "words": tf.VarLenFeature(tf.string),
         "none": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True)},
    )  # fmt: skip
    c, s = run((context, sequences))
    assert c["length"] == 2 and c["tags"].values.tolist() == [b"t", b"u"] and c["more"].tolist() == [0.5, 1.5]
    assert s["vectors"].tolist() == [[1.0, 2.0], [3.0, 4.0]] and s["none"].shape == (0,)
    assert s["words"].indices.tolist() == [[0, 0], [1, 0]] and s["words"].dense_shape.tolist() == [2, 1]
    missing = tf.parse_single_sequence_example(b"", None, {"v": tf.FixedLenSequenceFeature([2], tf.float32)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature list 'v' is required but could not be found"):
        run(missing)


@pytest.mark.parametrize("compiled", [True, False])
def test_sequences_by_the_straight_way_and_by_the_other(
    graph: Any, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    """Random lists, some of their numbers in forms that few write; without the straight way all is read as before."""
    random = np.random.default_rng(0)

    def message() -> bytes:
        made = tf.train.SequenceExample()
        lists = made.feature_lists.feature_list
        for _ in range(random.integers(4)):
            lists["f"].feature.add().float_list.value.extend(random.normal(size=2))
            lists["i"].feature.add().int64_list.value.append(int(random.integers(-(2**63), 2**63 - 1)))
            lists["b"].feature.add().bytes_list.value.extend([b"a", bytes(random.integers(0, 256, 9, np.uint8))])
        for k in random.integers(0, 5, random.integers(4)).tolist():
            some = lists["v"].feature.add()
            some.int64_list.value.extend(range(k)) if k else None
            one_by_one = b"".join(b"\x08" + bytes([n]) for n in range(k))  # numbers that are not packed
            feature = b"\x1a" + bytes([len(one_by_one)]) + one_by_one + b"\x28\x07"  # and a field that nobody knows
            lists["u"].feature.add().MergeFromString(feature)
            lists["w"].feature.add().float_list.value.extend([0.5] * k)
        return bytes(made.SerializeToString())

    fixed, many = tf.FixedLenSequenceFeature, tf.VarLenFeature
    spec = {
        "f": fixed([2], tf.float32, allow_missing=True), "i": fixed([], tf.int64, allow_missing=True),
        "b": fixed([1, 2], tf.string, allow_missing=True), "none": fixed([3, 0], tf.float32, allow_missing=True),
        "v": many(tf.int64), "u": many(tf.int64), "w": many(tf.float32), "no": many(tf.string),
    }  # fmt: skip
    given = tf.placeholder(tf.string, [None])
    _, parsed, lengths = tf.io.parse_sequence_example(given, None, spec)
    tensors = [*parsed.values(), *lengths.values()]
    for loop in () if compiled else sequences.LOOPS:
        monkeypatch.setattr(loop, "_call", loop.numpy)
    with tf.Session() as session:
        for count in (0, 1, 40):
            messages = np.array([message() for _ in range(count)], object)
            straight = session.run(tensors, {given: messages})
            with monkeypatch.context() as patch:
                patch.setattr(parsing_sequences, "straight", lambda *_: None)
                other = session.run(tensors, {given: messages})
            for one, two in zip(tf.nest.flatten(straight), tf.nest.flatten(other), strict=True):
                assert one.dtype == two.dtype and one.shape == two.shape and one.tolist() == two.tolist()


def test_many_sequences(graph: Any) -> None:
    def message(steps: list[list[float]] | None, words: list[list[bytes]]) -> bytes:
        made = tf.train.SequenceExample()
        made.context.feature["n"].int64_list.value.append(len(words))
        for vector in steps or []:
            made.feature_lists.feature_list["v"].feature.add().float_list.value.extend(vector)
        made.feature_lists.feature_list["w"].SetInParent()
        for some in words:
            made.feature_lists.feature_list["w"].feature.add().bytes_list.value.extend(some)
        return bytes(made.SerializeToString())

    messages = [message([[1, 2], [3, 4]], [[b"a"], []]), message(None, []), message([[5, 6]], [[b"b", b"c"]])]
    given = tf.placeholder(tf.string, [None])
    context, sequences, lengths = tf.io.parse_sequence_example(
        given, {"n": tf.FixedLenFeature([], tf.int64), "x": tf.VarLenFeature(tf.float32)},
        {"v": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True), "w": tf.VarLenFeature(tf.string)},
    )  # fmt: skip
    assert sequences["v"].shape.as_list() == [None, None, 2] and lengths["v"].shape.as_list() == [None]
    with tf.Session() as session:
        c, s, n = session.run((context, sequences, lengths), {given: messages})
        assert c["n"].tolist() == [2, 0, 1] and c["x"].dense_shape.tolist() == [3, 0]
        assert s["v"].tolist() == [[[1, 2], [3, 4]], [[0, 0], [0, 0]], [[5, 6], [0, 0]]] and n["v"].tolist() == [
            2,
            0,
            1,
        ]
        assert s["w"].indices.tolist() == [[0, 0, 0], [2, 0, 0], [2, 0, 1]] and s["w"].dense_shape.tolist() == [3, 2, 2]
        assert session.run(sequences["v"], {given: np.empty(0, object)}).shape == (0, 0, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Feature list: v, Index: 1: Number of values != exp"):
            session.run(sequences["v"], {given: [messages[0], message([[1, 2], [3]], [])]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Feature list: w: Data types don't match"):
            wrong = tf.train.SequenceExample.FromString(messages[0])
            wrong.feature_lists.feature_list["w"].feature[0].int64_list.value.append(1)
            session.run(sequences["w"], {given: [wrong.SerializeToString()]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse SequenceExample input, value: b'x"):
            session.run(lengths["v"], {given: [messages[0], b"x" * 9]})


def test_lines(graph: Any) -> None:
    lines = tf.constant([["1,a,2.5", '-2,"b,""q""",'], [",c d,1e3", "4,,NA"]])
    columns = tf.decode_csv(lines, [[7], ["x"], tf.constant([], tf.float32)], na_value="NA")
    assert [c.shape.as_list() for c in columns] == [[2, 2]] * 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 2 is required but missing in record 1!"):
        run(columns)
    columns = tf.decode_csv(lines, [[7], ["x"], [0.25]], na_value="NA")
    a, b, c = run(columns)
    assert a.tolist() == [[1, -2], [7, 4]] and b.tolist() == [[b"a", b'b,"q"'], [b"c d", b"x"]]
    assert c.dtype == np.float32 and c.tolist() == [[2.5, 0.25], [1000.0, 0.25]]
    assert run(tf.decode_csv(["1|2|3"], [[0]], "|", select_cols=[1]))[0].tolist() == [2]
    behind = ['1,2,5" disk', '3,4,"open', "5,6,\r7"]  # is not looked at, as in TensorFlow
    assert [c.tolist() for c in run(tf.decode_csv(behind, [[0]], select_cols=[1]))] == [[2, 4, 6]]
    assert run(tf.decode_csv([*behind, "1_0,8,"], [["x"], [0]], select_cols=[0, 1]))[1].tolist() == [2, 4, 6, 8]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields but have 3 in record 0"):
        run(tf.decode_csv(["1,2,3"], [[0], [0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 0 in record 0 is not a valid int32: x"):
        run(tf.decode_csv(["x"], [[0]]))


# ---------------------------------------------------------------------- ragged features


ROWS = [
    example(v=[3, 1, 4, 1, 5, 9], cut=[0, 2, 2, 6], six=[1.0] * 6),
    example(v=[2, 7], cut=[0, 2], six=[2.0] * 6),
    b"",
]


@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_ragged_features_of_a_batch(graph: Any, kind: Any) -> None:
    part = tf.io.RaggedFeature
    spec = {
        "v": part(tf.int64, row_splits_dtype=kind),
        "rows": part(tf.int64, "v", [part.RowSplits("cut")], kind),
        "pairs": part(tf.float32, "six", [part.UniformRowLength(3), part.UniformRowLength(2)]),
        "x": tf.FixedLenFeature([], tf.float32, 0.5),
        "w": tf.VarLenFeature(tf.string),
    }
    parsed = tf.io.parse_example(ROWS, spec)
    assert parsed["v"].row_splits.dtype == kind and parsed["x"].shape.as_list() == [3]
    found = run(parsed)
    assert found["v"].to_list() == [[3, 1, 4, 1, 5, 9], [2, 7], []]
    assert found["rows"].to_list() == [[[3, 1], [], [4, 1, 5, 9]], [[2, 7]], []]
    assert found["pairs"].values.shape == (2, 3, 2) and found["pairs"].row_splits.tolist() == [0, 1, 2, 2]
    assert found["x"].tolist() == [0.5] * 3 and found["w"].dense_shape.tolist() == [3, 0]


PARTITIONS = [
    ("RowSplits", [[0, 2, 2, 3], [0, 1]]),
    ("RowLengths", [[2, 0, 1], [1]]),
    ("RowStarts", [[0, 2, 2], [0]]),
    ("RowLimits", [[2, 2, 3], [1]]),
    ("ValueRowIds", [[0, 0, 2], [0]]),
]


@pytest.mark.parametrize(("how", "cuts"), PARTITIONS)
def test_each_way_to_cut_values_into_rows(graph: Any, how: str, cuts: list[list[int]]) -> None:
    cut = getattr(tf.io.RaggedFeature, how)("cut")
    feature = tf.io.RaggedFeature(tf.string, "v", [cut])
    messages = [example(v=[b"a", b"b", b"c"], cut=cuts[0]), example(v=[b"d"], cut=cuts[1])]
    batch, one = tf.io.parse_example(messages, {"f": feature}), tf.io.parse_single_example(messages[0], {"f": feature})
    (many,), (single,) = run(batch).values(), run(one).values()
    assert many.to_list() == [[[b"a", b"b"], [], [b"c"]], [[b"d"]]] and single.to_list() == many.to_list()[0]


def test_rows_of_rows_and_values_alone(graph: Any) -> None:
    part = tf.io.RaggedFeature
    message = example(v=[1, 2, 3, 4], outer=[1, 2], inner=[2, 0, 2])
    spec = {"deep": part(tf.int64, "v", [part.RowLengths("outer"), part.RowLengths("inner")]), "v": part(tf.int64)}
    found = run(tf.io.parse_single_example(message, spec))
    assert found["deep"].to_list() == [[[1, 2]], [[], [3, 4]]] and found["v"].tolist() == [1, 2, 3, 4]


def _steps(**lists: list[list[int]]) -> bytes:
    message = tf.train.SequenceExample()
    message.context.feature["c"].int64_list.value.extend([4, 5, 6][: len(lists)])
    for name, steps in lists.items():
        for values in steps:
            message.feature_lists.feature_list[name].feature.add().int64_list.value.extend(values)
    return message.SerializeToString()


def test_ragged_features_of_sequences(graph: Any) -> None:
    part = tf.io.RaggedFeature
    messages = [_steps(v=[[1, 2], [3], []], cut=[[1, 1], [1], [0]]), b"", _steps(v=[[5], [6, 7, 8]], cut=[[1], [0, 3]])]
    spec = {
        "v": part(tf.int64, row_splits_dtype=tf.int64),
        "rows": part(tf.int64, "v", [part.RowLengths("cut")], row_splits_dtype=tf.int64),
    }
    context, sequences, _ = tf.io.parse_sequence_example(messages, {"c": part(tf.int64)}, spec)
    assert sequences["v"].flat_values.dtype == tf.int64
    found, many = run(context), run(sequences)
    assert found["c"].to_list() == [[4, 5], [], [4, 5]]
    assert many["v"].to_list() == [[[1, 2], [3], []], [], [[5], [6, 7, 8]]]
    assert many["rows"].to_list() == [[[[1], [2]], [[3]], [[]]], [], [[[5]], [[], [6, 7, 8]]]]
    context, sequences = tf.io.parse_single_sequence_example(messages[2], {"c": part(tf.int64)}, spec)
    assert run(context)["c"].tolist() == [4, 5]
    one = run(sequences)
    assert one["v"].to_list() == many["v"].to_list()[2] and one["rows"].to_list() == many["rows"].to_list()[2]


def test_ragged_features_that_do_not_fit(graph: Any) -> None:
    part = tf.io.RaggedFeature
    with pytest.raises(ValueError, match="Dense and ragged keys must not intersect"):
        tf.io.parse_example(ROWS, {"v": part(tf.int64), "x": part(tf.int64, "n"), "n": SPEC["n"]})
    with pytest.raises(ValueError, match="Conflicting type string with row_splits of int32 vs int64"):
        tf.io.parse_example(ROWS, {"v": part(tf.int64), "w": part(tf.string, "v")})
    with pytest.raises(ValueError, match="Conflicting type int64 with row_splits of int32 vs string"):
        tf.io.parse_example(ROWS, {"v": part(tf.string, partitions=[part.RowLengths("v")])})
    for listed in (tf.VarLenFeature(tf.int64), tf.FixedLenSequenceFeature([], tf.int64)):
        with pytest.raises(ValueError, match=r"(Sparse|Dense).* keys must not intersect.*\['n'\]"):
            tf.io.parse_sequence_example(ROWS, {}, {"v": part(tf.int64, "n"), "n": listed})
    with pytest.raises(ValueError, match="row_splits_dtype must be"):
        part(tf.int64, row_splits_dtype=tf.int8)
    with pytest.raises(TypeError, match="a partition is"):
        part(tf.int64, "v", ["cut"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Data types don't match"):
        run(tf.io.parse_example(ROWS, {"v": part(tf.string)}))
