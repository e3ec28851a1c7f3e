"""Strings as numbers and in pieces: machine code and Python give the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import text_loops
from sparkflow_runtime.wire.errors import InvalidArgumentError

LOOPS = (text_loops.read_wholes, text_loops.read_reals, text_loops.count_pieces)
WHOLE = [b"0", b"-0", b"+7", b"12", b"-2147483648", b"2147483647", b" 3", b"4\n", b"000012"]
LONG = [b"9223372036854775807", b"-9223372036854775808", b"999999999999999999", b"-1000000000000000000"]
REAL = [
    *(b"0.1", b"-0", b"-0.0", b"1e22", b"1e23", b"1.5e-22", b"123456789.123456789", b"9007199254740993", b"5.", b".5"),
    *(b"1e400", b"-1e400", b"inf", b"-Infinity", b"nan", b" 2.5 ", b"3.4028236e38", b"1e-46", b"16777217", b"+.25e1"),
    b"0.30000001192092896",
]


@pytest.fixture(params=["machine code", "python"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param == "machine code" else loop.numpy)
    yield


def numbers(texts: list[bytes], kind: str) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [None])
        found: np.ndarray = session.run(tf.string_to_number(fed, tf.as_dtype(kind)), {fed: np.array(texts, object)})
    return found


def test_whole_numbers() -> None:
    assert numbers(WHOLE, "int32").tolist() == [*map(int, WHOLE)]
    assert numbers(WHOLE + LONG, "int64").tolist() == [*map(int, WHOLE + LONG)]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_real_numbers(kind: str) -> None:
    drawn = np.random.default_rng(1)
    texts = [b"%.*f" % (n, x) for n, x in zip(drawn.integers(0, 20, 300).tolist(), drawn.normal(0, 1000, 300).tolist())]
    texts += [
        b"%.*e" % (n, x) for n, x in zip(drawn.integers(0, 20, 300).tolist(), drawn.normal(0, 1000, 300).tolist())
    ]
    texts += WHOLE + LONG + REAL
    with np.errstate(over="ignore"):
        wanted = np.array([float(t) for t in texts]).astype(kind)
    assert numbers(texts, kind).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    "kind, text", [("int32", b"2147483648"), ("int32", b"-2147483649"), ("int64", b"9223372036854775808")]
)
def test_numbers_that_are_too_large(kind: str, text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=f"could not correctly convert string: {text.decode()} to {kind}"):
        numbers([b"1", text, b"2"], kind)


@pytest.mark.parametrize("text", [b"", b"-", b".", b"1_0", b"x", b"1 2", b"0x", b"1e", b"--1", b"1e5x"])
@pytest.mark.parametrize("kind", ["int64", "float32"])
def test_what_is_no_number(kind: str, text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=f"could not correctly convert string: {text.decode()} to {kind}"):
        numbers([b"1", text, b"2"], kind)


def test_hexadecimal_numbers_are_floats_alone() -> None:
    assert numbers([b"1", b"0x10", b" -0X1.8p1 "], "float32").tolist() == [1, 16, -3]
    with pytest.raises(InvalidArgumentError, match="0x10 to int64"):
        numbers([b"0x10"], "int64")


ROWS = [b"a,b,c", b"", b",", b"a", b",a,,b,", b",,,", b"ab,cd\0,e", b"x;y,z;"]


@pytest.mark.parametrize("cut", [",", ",;", ";"])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("rows", [ROWS, [], [b""], [b"", b","], [b"one"]])
def test_pieces(rows: list[bytes], skip: bool, cut: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [None])
        found = session.run(tf.string_split(fed, cut, skip), {fed: np.array(rows, object)})
    wanted = []
    for row, text in enumerate(rows):
        for other in cut[1:].encode():
            text = text.replace(bytes([other]), cut[:1].encode())
        parts = [p for p in text.split(cut[:1].encode()) if p or not skip] if text else []
        wanted += [(row, i, p) for i, p in enumerate(parts)]
    assert [(*at, value) for at, value in zip(found.indices.tolist(), found.values.tolist())] == wanted
    most = max((i + 1 for _, i, _ in wanted), default=0)
    assert found.dense_shape.tolist() == [len(rows), most]


def test_counts_of_pieces() -> None:
    pieces, empty = text_loops.counts_of(np.array(ROWS, object), ord(","))
    assert pieces.tolist() == [len(row.split(b",")) for row in ROWS]
    assert empty.tolist() == [row.split(b",").count(b"") for row in ROWS]


def test_strings_that_differ() -> None:
    texts = np.array([b"b", b"a", b"b", b"", b"c", b"a"], object)
    with tf.Graph().as_default(), tf.Session() as session:
        values, which, counts = session.run(tf.unique_with_counts(tf.constant(texts)))
        assert values.tolist() == [b"b", b"a", b"", b"c"] and which.tolist() == [0, 1, 0, 2, 3, 1]
        assert counts.tolist() == [2, 2, 1, 1] and which.dtype == counts.dtype == np.int32
        fed = tf.placeholder(tf.string)
        with pytest.raises(InvalidArgumentError):
            session.run(tf.unique(fed), {fed: texts.reshape(2, 3)})


@pytest.mark.parametrize("at, count", [(0, 2), (1, 0), (1, -3), (2, 9), (-1, 1), (3, 1)])
def test_parts_of_strings(at: int, count: int) -> None:
    texts = np.array([[b"abc", b"de\0f"], [b"ghi", b"jklm"]], object)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.string, [2, 2])
        found = session.run(tf.substr(fed, at, count), {fed: texts})
        each = session.run(tf.substr(fed, np.full((2, 2), at), np.full((2, 2), count)), {fed: texts})
        assert (
            found.tolist() == each.tolist() == [[s[at:][: count if count >= 0 else None] for s in row] for row in texts]
        )
        with pytest.raises(InvalidArgumentError, match="pos 4 out of range"):
            session.run(tf.substr(fed, 4, count), {fed: texts})
