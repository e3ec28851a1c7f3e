"""Lengths, parts, pieces and joins of strings: machine code and Python give what Python's own functions do."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import text_makers, text_parts
from sparkflow_runtime.wire.errors import InvalidArgumentError

LOOPS = (
    *(text_parts.find_texts, text_parts.count_characters, text_parts.find_parts, text_parts.find_characters),
    *(text_parts.count_cut, text_parts.count_at, text_parts.make_cut, text_makers.make_texts, text_makers.join_texts),
)
ODD = [b"", b"\0", b"a\0b", b"\xff\xfe", b"\x80", "\u00e9\u4e2d\U0001f600".encode(), b" , ,a", b",", b"x" * 300]
COUNTS = (0, 1, 3, 40)  # of rows of them: of few Python's own versions


@pytest.fixture(params=["machine code", "python"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param == "machine code" else loop.numpy)
    yield


def texts(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    more = [rng.bytes(int(n)) for n in rng.integers(0, 12, 6 * count)]
    found = np.fromiter((ODD * count + more)[: 9 * count], object, 9 * count)
    rng.shuffle(found)
    return found.reshape(count, 9)


def ran(made: Any, fed: dict[Any, Any]) -> Any:
    with tf.Session() as session:
        return session.run(made, fed)


@pytest.mark.parametrize("count", COUNTS)
def test_lengths(graph: Any, count: int) -> None:
    x, given = tf.placeholder(tf.string), texts(count)
    in_bytes = ran(tf.strings.length(x), {x: given})
    assert in_bytes.dtype == np.int32 and in_bytes.tolist() == [[len(t) for t in row] for row in given]
    characters = ran(tf.strings.length(x, unit="UTF8_CHAR"), {x: given})
    assert characters.tolist() == [[sum(b & 192 != 128 for b in t) for t in row] for row in given]


def test_a_byte_inside_a_character_is_none_of_its_own(graph: Any) -> None:
    assert ran(tf.strings.length(["\u00e9", b"\x80\x80", b"a\xff"], unit="UTF8_CHAR"), {}).tolist() == [1, 0, 2]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("at", [0, "each"])
@pytest.mark.parametrize("most", [0, 2, 1 << 30, -1, "each"])
def test_parts(graph: Any, count: int, at: Any, most: Any) -> None:
    x, given = tf.placeholder(tf.string), texts(count)
    rng = np.random.default_rng(0)
    drawn = np.array([[rng.integers(-len(t), len(t) + 1) for t in row] for row in given], np.int64).reshape(count, 9)
    places: Any = drawn if at == "each" else np.int64(at)
    wanted: Any = rng.integers(0, 5, (count, 9)) if most == "each" else np.int64(most)
    found = ran(tf.strings.substr(x, places, wanted), {x: given})
    rows = zip(
        given.ravel(), np.broadcast_to(places, given.shape).ravel(), np.broadcast_to(wanted, given.shape).ravel()
    )
    expected = [t[a + len(t) * (a < 0) :][: n if n >= 0 else None] for t, a, n in rows]
    assert found.shape == given.shape and found.ravel().tolist() == expected


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("most", [0, 2, 1 << 30, -1])
def test_parts_of_characters(graph: Any, count: int, most: int) -> None:
    """What a string begins with is a character, and from there on every byte that begins one in UTF-8."""
    x, given = tf.placeholder(tf.string), texts(count)
    rows = [[t[a:b] for a, b in pairwise([i for i, c in enumerate(t) if not i or c & 192 != 128] + [len(t)])]
            for t in given.ravel()]  # fmt: skip
    rng = np.random.default_rng(0)
    places = np.array([rng.integers(-len(row) if most >= 0 else 0, len(row) + 1) for row in rows], np.int64)
    found = ran(tf.strings.substr(x, places.reshape(count, 9), most, unit="UTF8_CHAR"), {x: given})
    parts = [row[a + len(row) * (a < 0) :][: max(most, 0)] for row, a in zip(rows, places.tolist())]
    assert found.ravel().tolist() == [b"".join(part) for part in parts]


@pytest.mark.parametrize("count", [1, 40])
def test_nothing_from_the_end(graph: Any, count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pos -1 out of range for string b'b'abc'' at index \[0\]"):
        ran(tf.strings.substr(["abc"] * count, -1, -1, unit="UTF8_CHAR"), {})


@pytest.mark.parametrize("at", [4, -4])
def test_a_place_outside(graph: Any, at: int) -> None:
    x = tf.placeholder(tf.string)
    given = [b"abcdef"] * 30 + [b"abc"]
    with pytest.raises(InvalidArgumentError, match=rf"pos {at} out of range for string b'b'abc'' at index \[30\]"):
        ran(tf.strings.substr(x, at, 1), {x: given})


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("cut", [b" ", b" ,\0\xff", b""])
@pytest.mark.parametrize("skip", [True, False])
def test_pieces(graph: Any, count: int, cut: bytes, skip: bool) -> None:
    x, given = tf.placeholder(tf.string), texts(count).ravel()
    found = ran(tf.string_split(x, cut, skip), {x: given})
    rows = [[t[i : i + 1] for i in range(len(t))] for t in given]
    if cut:
        alike = [t.translate(bytes.maketrans(cut, cut[:1] * len(cut))) for t in given]
        rows = [[p for p in t.split(cut[:1]) if p or not skip] if t else [] for t in alike]
    check(found, rows)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("cut", [",", "", ", "])
def test_pieces_of_the_second_version(graph: Any, count: int, cut: str) -> None:
    x, given = tf.placeholder(tf.string, [None]), texts(count).ravel()
    found = ran(tf.strings.split(x, sep=cut or None, result_type="SparseTensor"), {x: given})
    check(found, [t.split(cut.encode() or None) for t in given])


def check(found: Any, rows: list[list[bytes]]) -> None:
    assert found.values.tolist() == [p for row in rows for p in row]
    assert found.indices.tolist() == [[i, k] for i, row in enumerate(rows) for k in range(len(row))]
    assert found.dense_shape.tolist() == [len(rows), max(map(len, rows), default=0)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("between", ["", "\0-"])
def test_joins(graph: Any, count: int, between: str) -> None:
    x, given, cut = tf.placeholder(tf.string), texts(count), between.encode()
    found = ran(tf.string_join([x, "one", tf.transpose(tf.transpose(x))], separator=between), {x: given})
    assert found.tolist() == [[t + cut + b"one" + cut + t for t in row] for row in given]
    found = ran(tf.reduce_join(x, 1, separator=between), {x: given})
    assert found.tolist() == [cut.join(row) for row in given]
    found = ran(tf.reduce_join(x, 0, keep_dims=True, separator=between), {x: given})
    assert found.tolist() == [[cut.join(row) for row in given.T]]


def test_strings_of_numpy_are_strings_too(graph: Any) -> None:
    """Of their own type, which machine code does not look into."""
    given = np.array([np.bytes_(b"a b")] * 40, object)
    x = tf.placeholder(tf.string, [None])
    assert ran(tf.strings.length(x), {x: given}).tolist() == [3] * 40
    assert ran(tf.strings.substr(x, 1, 2), {x: given}).tolist() == [b" b"] * 40
    assert ran(tf.string_join([x, "c"]), {x: given}).tolist() == [b"a bc"] * 40
    assert ran(tf.string_split(x), {x: given}).values.tolist() == [b"a", b"b"] * 40


@pytest.mark.parametrize("count", COUNTS)
def test_base64(graph: Any, count: int) -> None:
    x, given = tf.placeholder(tf.string), texts(count)
    for pad in (True, False):
        made = tf.encode_base64(x, pad=pad)
        there, back = ran([made, tf.decode_base64(made)], {x: given})
        wanted = [[base64.urlsafe_b64encode(t) for t in row] for row in given]
        assert there.tolist() == (wanted if pad else [[t.rstrip(b"=") for t in row] for row in wanted])
        assert back.tolist() == given.tolist()


@pytest.mark.parametrize("wrong", [b"a", b"YQ\n", b"YQ\nYQ", b"Y+", b"Y\0Q", b"=YQ"])
def test_no_base64(graph: Any, wrong: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid character found in base64"):
        ran(tf.decode_base64([b"YQ", wrong]), {})


def test_truths_as_strings(graph: Any) -> None:
    x = tf.placeholder(tf.bool)
    for given in (True, [], [True, False], [[False], [True]]):
        found = ran(tf.as_string(x), {x: given})
        wanted = np.where(given, b"true", b"false").astype(object)
        assert np.shape(found) == wanted.shape and np.asarray(found, object).tolist() == wanted.tolist()
