"""Numbers as strings, base64 and strings told apart: machine code and Python give what Python's own functions do."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import base64_loops, number_texts, text_distinct

LOOPS = (
    *(base64_loops.encode, base64_loops.decode, number_texts.write_wholes, number_texts.write_reals),
    text_distinct.number_texts,
)
COUNTS = (0, 3, 400)  # of few, Python's own versions


@pytest.fixture(params=["machine code", "python"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for loop in LOOPS:
        monkeypatch.setattr(loop, "_call", loop.compile() if request.param == "machine code" else loop.numpy)
    yield request.param


def ran(made: Any, fed: dict[Any, Any]) -> Any:
    with tf.Session() as session:
        return session.run(made, fed)


def strings(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    return np.fromiter([rng.bytes(int(n)) for n in rng.integers(0, 40, count)], object, count)


def reals(count: int) -> np.ndarray:
    """Any bits, ties, and what rounding carries over a power of ten."""
    rng = np.random.default_rng(count)
    odd = [0.0, -0.0, 5e-324, 2.0**52, 2.0**53 - 1, 1e22, math.inf, -math.inf, math.nan, 0.5, 1.5, 2.5, 0.125, 99.5]
    odd += [9.9999995, 999999.5, 0.9999995, 5e-7, 9.9999996e-5, 9.99999996e-5, 1e-4, 0.0999996, 1e6, 123456.5]
    drawn = [
        rng.integers(0, 2**64, count, np.uint64).view(np.float64),
        rng.normal(size=count) * 10.0 ** rng.integers(-9, 17, count),
        (rng.integers(-(10**6), 10**6, count) + 0.5) / 2.0 ** rng.integers(0, 30, count),
        rng.normal(size=count).astype(np.float32).astype(np.float64),
    ]
    return np.concatenate([*drawn, odd if count > 3 else []])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_whole_numbers(graph: Any, count: int, dtype: str) -> None:
    ends = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    given = rng.integers(ends.min, ends.max, count, dtype, endpoint=True)
    given[:2], given[2:3] = [ends.min, ends.max][: len(given[:2])], 0
    given[3:40] = [min(max(x, ends.min), ends.max) for k in range(19) for x in (10**k - 1, -(10**k))][
        : len(given[3:40])
    ]
    x = tf.placeholder(dtype)
    assert ran(tf.as_string(x), {x: given}).tolist() == [b"%d" % n for n in given.tolist()]
    assert ran(tf.as_string(x, width=4, fill="0"), {x: given}).tolist() == [b"%04d" % n for n in given.tolist()]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("precision", [-1, 0, 1, 2, 6, 9, 12])
@pytest.mark.parametrize("shortest", [False, True])
def test_real_numbers(graph: Any, count: int, precision: int, shortest: bool) -> None:
    given = reals(count)
    form = f"%{'' if precision < 0 else f'.{precision}'}{'g' if shortest else 'f'}".encode()
    x = tf.placeholder(tf.float64)
    found = ran(tf.as_string(x, precision=precision, shortest=shortest), {x: given}).tolist()
    assert found == [form % n for n in given.tolist()]
    narrow = tf.as_string(tf.cast(x, tf.float32), precision=precision, shortest=shortest)
    with np.errstate(over="ignore"):
        floats = given.astype(np.float32).tolist()
    assert ran(narrow, {x: given}).tolist() == [form % n for n in floats]


@pytest.mark.parametrize("count", COUNTS)
def test_base64(graph: Any, count: int) -> None:
    x, given = tf.placeholder(tf.string), strings(count)
    padded = [base64.urlsafe_b64encode(s) for s in given.tolist()]
    assert ran(tf.io.encode_base64(x, pad=True), {x: given}).tolist() == padded
    plain = ran(tf.io.encode_base64(x), {x: given})
    assert plain.tolist() == [s.rstrip(b"=") for s in padded]
    for coded in (padded, plain):
        assert ran(tf.io.decode_base64(x), {x: np.array(coded, object)}).tolist() == given.tolist()


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize(
    "wrong", ["YQ=", "YQ===", "YQ====", "=", "==", "====", "YWI==", "YWJj=", "YWJj====", "A", "AA=A", "AA\n", "AA+/",
              "A===", "AAAAA", "AAAAA===", "A A", "\u00e9", "A=", "AAAA=AAA"]
)  # fmt: skip
def test_wrong_base64(graph: Any, count: int, wrong: str) -> None:
    """What fills up is all there or not there at all, as in TensorFlow."""
    x = tf.placeholder(tf.string)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid character found in base64"):
        ran(tf.io.decode_base64(x), {x: ["YQ"] * count + [wrong]})


@pytest.mark.parametrize("count", [0, 3, 3000])
@pytest.mark.parametrize("longest", [3, 20])
def test_different_strings(graph: Any, count: int, longest: int) -> None:
    rng = np.random.default_rng(count)
    made = [rng.choice(np.frombuffer(b"\0ab\xff", np.uint8), n).tobytes() for n in rng.integers(0, longest, count)]
    given = np.fromiter(made, object, count)
    x = tf.placeholder(tf.string, [None])
    values, which, counts = ran(tf.unique_with_counts(x), {x: given})
    assert values.tolist() == [*dict.fromkeys(made)]
    assert (values[which] == given).all() and counts.tolist() == [made.count(one) for one in values]
    values, which = ran(tf.unique(x, out_idx=tf.int64), {x: given})
    assert which.dtype == np.int64 and (values[which] == given).all()


def test_strings_of_a_type_of_their_own(graph: Any) -> None:
    x = tf.placeholder(tf.string, [None])
    given = np.array([np.bytes_(b"a"), b"b"] * 20, object)
    assert ran(tf.unique(x).y, {x: given}).tolist() == [b"a", b"b"]
    assert ran(tf.io.encode_base64(x), {x: given}).tolist() == [b"YQ", b"Yg"] * 20


def test_many_segments_of_strings_are_joined_in_one_pass(graph: Any) -> None:
    """A search among all ids for each segment took half a minute."""
    count = 200_000
    x, ids = tf.placeholder(tf.string), tf.placeholder(tf.int32)
    given = np.array([b"%d" % n for n in range(count)], object)
    owners = np.arange(count, dtype=np.int32)[::-1] // 2
    found = ran(tf.strings.unsorted_segment_join(x, ids, count, separator="-"), {x: given, ids: owners})
    assert found[:2].tolist() == [b"199998-199999", b"199996-199997"] and not any(found[count // 2 :].tolist())


def test_segments_of_strings_with_rows(graph: Any) -> None:
    rows = [[b"a", b""], [b"", b"c"], [b"d", b"e"], [b"x", b"y"]]
    found = ran(tf.strings.unsorted_segment_join(rows, [2, 2, 0, -1], 4, separator="-"), {})
    assert found.tolist() == [[b"d", b"e"], [b"", b""], [b"a-", b"c"], [b"", b""]]
