"""Example messages as columns and back, held against protobuf's own parser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkflow_runtime.records.example import (
    BYTES_LIST,
    FLOAT_LIST,
    INT64_LIST,
    MISSING,
    BadMessage,
    Keys,
    index,
)
from sparkflow_runtime.records.example_encode import Feature, encode
from sparkflow_runtime.wire import example_proto as proto

FLOATS = st.floats(width=32, allow_nan=False)
INTS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.tuples(st.just("bytes_list"), st.lists(st.binary(max_size=200), max_size=4)),
    st.tuples(st.just("float_list"), st.lists(FLOATS, max_size=40)),
    st.tuples(st.just("int64_list"), st.lists(INTS, max_size=40)),
)
NAMES = st.sampled_from(["a", "b", "ab", "label", "x" * 130, "é"])
MESSAGES = st.lists(st.dictionaries(NAMES, VALUES, max_size=6), max_size=5)
KINDS = {"bytes_list": BYTES_LIST, "float_list": FLOAT_LIST, "int64_list": INT64_LIST}


def message(features: dict[str, tuple[str, list[Any]]]) -> bytes:
    example = proto.Example()
    for name, (kind, values) in features.items():
        getattr(example.features.feature[name], kind).value.extend(values)
        getattr(example.features.feature[name], kind).SetInParent()
    return bytes(example.SerializeToString())


def joined(messages: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(m) for m in messages], np.int64)
    ends = np.cumsum(lengths)
    return np.frombuffer(bytearray(b"".join(messages) or b"\0"), np.uint8), ends - lengths, ends


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MESSAGES)
def test_what_protobuf_writes_is_read(version: str, given_messages: Any) -> None:
    names = ["a", "b", "label", "x" * 130, "not there"]
    keys = Keys.of([n.encode() for n in names])
    found = index(*joined([message(m) for m in given_messages]), keys)
    for column, name in enumerate(names):
        for i, features in enumerate(given_messages):
            kind, values = features.get(name, ("", []))
            assert found.kinds[column, i] == KINDS.get(kind, MISSING)
            one = index(*joined([message(features)]), keys)
            if kind:
                (got,), counts = one.ragged([column], KINDS[kind])
                assert counts.tolist() == [[len(values)]]
                if kind == "bytes_list":
                    got = [bytes(one.buffer[a:b]) for a, b in got.tolist()]
                assert list(got) == values


def test_columns_of_many_messages(version: str) -> None:
    rng = np.random.default_rng(5)
    rows = [rng.integers(-(2**62), 2**62, rng.integers(0, 4)).tolist() for _ in range(300)]
    messages = [message({"n": ("int64_list", r), "one": ("float_list", [i + 0.5])}) for i, r in enumerate(rows)]
    found = index(*joined(messages), Keys.of([b"one", b"n"]))
    values, counts = found.dense([0], FLOAT_LIST, 1)
    assert values.shape == (1, 300, 1) and (values[0, :, 0] == np.arange(300) + 0.5).all() and (counts == 1).all()
    (got,), counts = found.ragged([1], INT64_LIST)
    assert got.tolist() == [v for r in rows for v in r] and counts[0].tolist() == [len(r) for r in rows]
    first, counts = found.dense([1], INT64_LIST, 2)
    assert all(first[0, i, : min(2, len(r))].tolist() == r[:2] for i, r in enumerate(rows))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MESSAGES, st.randoms(use_true_random=False), st.booleans())
def test_single_values_are_read_on_the_way(version: str, given_messages: Any, random: Any, near_the_end: bool) -> None:
    """Whatever the order of the features, also where other messages have lists, or none."""
    shuffled = [dict(random.sample(sorted(m.items()), len(m))) for m in given_messages]
    pieces = [
        b"".join(message({n: v})[2:] if len(message({n: v})) < 130 else b"" for n, v in m.items()) for m in shuffled
    ]
    data = [b"\x0a" + bytes([len(p) & 127 | 128, len(p) >> 7]) + p for p in pieces]
    shuffled = [{n: v for n, v in m.items() if len(message({n: v})) < 130} for m in shuffled]
    buffer, starts, ends = joined(data)
    if not near_the_end:
        buffer = np.concatenate([buffer, np.zeros(200, np.uint8)])
    names = ["a", "b", "ab", "label", "é", "not there"]
    for kind_name, kind in KINDS.items():
        keys = Keys.of([n.encode() for n in names])
        found = index(buffer, starts, ends, keys, [kind] * len(names))
        for column, name in enumerate(names):
            fits = [m.get(name, (kind_name, []))[0] == kind_name for m in shuffled]
            if not all(fits):
                continue
            values, counts = found.single(column, kind)
            lists = [m.get(name, ("", []))[1] for m in shuffled]
            assert counts.tolist() == [len(v) for v in lists]
            for got, wanted in zip(values.tolist(), lists):
                if wanted:
                    assert (bytes(buffer[got[0] : got[1]]) if kind == BYTES_LIST else got) == wanted[0]


@pytest.mark.parametrize("size", [1, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 100, 109, 110, 127, 128, 300])
def test_names_of_any_length_and_numbers_of_any_size(version: str, size: int) -> None:
    name, n = b"k" * (size - 1) + b"z", 64
    ints = np.array([(1 << k) - (k % 2) for k in range(63)] + [-5], np.int64)
    texts = [b"t" * (3 * k) for k in range(n)]
    features = [
        Feature(name, INT64_LIST, ints, None),
        Feature(name + b"f", FLOAT_LIST, np.arange(n, dtype=np.float32), None),
        Feature(name + b"s", BYTES_LIST, np.frombuffer(b"".join(texts), np.uint8), None, None,
                np.cumsum([0, *map(len, texts)], dtype=np.int64)),
    ]  # fmt: skip
    data, at = encode(features, n)
    example = proto.Example.FromString(bytes(data[at[5] : at[6]]))
    assert list(example.features.feature[name.decode()].int64_list.value) == [ints[5]]
    kinds = [INT64_LIST, FLOAT_LIST, BYTES_LIST]
    found = index(np.array(data), at[:-1].copy(), at[1:].copy(), Keys.of([f.name for f in features]), kinds)
    values, counts = found.single(0, INT64_LIST)
    assert values.tolist() == ints.tolist() and (counts == 1).all()
    assert found.single(1, FLOAT_LIST)[0].tolist() == list(range(n))
    assert [bytes(found.buffer[a:b]) for a, b in found.single(2, BYTES_LIST)[0].tolist()] == texts
    for i in range(n):
        kept = proto.Example.FromString(bytes(data[at[i] : at[i + 1]])).features.feature
        assert list(kept[(name + b"s").decode()].bytes_list.value) == [texts[i]]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 6, 8, 12, 13, 21, 110])
def test_a_key_that_is_like_the_expected_one_is_another(version: str, size: int) -> None:
    name = bytes(range(97, 97 + 26)) * 5
    names = [name[:size], *(name[:k] + b"-" + name[k + 1 : size] for k in range(size)), name[:size], name[: size + 1]]
    messages = [message({n.decode(): ("int64_list", [7])}) for n in names] + [bytes(200)]
    buffer, starts, ends = joined(messages)
    found = index(buffer, starts[:-1].copy(), ends[:-1].copy(), Keys.of([name[:size]]), [INT64_LIST])
    assert found.kinds[0].tolist() == [INT64_LIST, *[MISSING] * size, INT64_LIST, MISSING]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 69), st.integers(0, 255), st.sampled_from([[INT64_LIST, BYTES_LIST, FLOAT_LIST], []]))
def test_damage_is_the_same_on_both_ways(version: str, at: int, byte: int, kinds: list[int]) -> None:
    """By words, where there is room behind a message and its keys are expected, and field by field."""
    whole = message({"number": ("int64_list", [2**40]), "b": ("bytes_list", [b"x" * 20]), "c": ("float_list", [1.0])})
    changed = bytearray(whole)
    changed[at % len(whole)] = byte
    keys, read = Keys.of([b"number", b"b", b"c"]), []
    for messages in ([whole, bytes(changed), bytes(200)], [bytes(changed)]):
        buffer, starts, ends = joined(messages)
        at = min(1, len(messages) - 1)
        try:
            found = index(buffer, starts[: at + 1].copy(), ends[: at + 1].copy(), keys, kinds)
            columns: list[Any] = [found.kinds[:, at].tolist()]
            for column, kind in enumerate(kinds or [INT64_LIST, BYTES_LIST, FLOAT_LIST]):
                if found.kinds[column, at] != kind:
                    continue
                if kinds:
                    values, counts = (x[at : at + 1] for x in found.single(column, kind))
                    values = values if counts[0] else values[:0]
                else:
                    values, counts = found.ragged([column], kind)[0][0], found.counts([column], kind)[0]
                    values = values[len(values) - int(counts[at]) :]
                columns.append((values - (starts[at] if kind == BYTES_LIST else 0)).tobytes())
            read.append(columns)
        except BadMessage:
            read.append(["bad"])
    assert read[0] == read[1]


def test_numbers_that_are_not_packed_and_unknown_fields(version: str) -> None:
    ints = b"\x08\x05\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # two fields `value: 5`, `value: -1`
    feature = b"\x32\x02hi" + b"\x1a" + bytes([len(ints)]) + ints  # field 6 is unknown
    entry = b"\x0a\x01k\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    data = b"\x15\0\0\0\0" + b"\x0a" + bytes([len(features)]) + features  # field 2, fixed32, is unknown
    found = index(*joined([data]), Keys.of([b"k"]))
    assert found.ragged([0], INT64_LIST)[0][0].tolist() == [5, -1]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_damage_is_refused_or_read_never_worse(version: str, noise: bytes, at: int, byte: int) -> None:
    whole = bytearray(
        message({"a": ("int64_list", [1, 2**40]), "b": ("bytes_list", [b"x" * 20]), "c": ("float_list", [1.0])})
    )
    whole[at % len(whole)] = byte
    keys = Keys.of([b"a", b"b", b"c"])
    for data in (bytes(whole), noise, bytes(whole)[: at % len(whole)]):
        try:
            found = index(*joined([data]), keys)
            for column in range(3):
                for kind in (BYTES_LIST, FLOAT_LIST, INT64_LIST):
                    if found.kinds[column, 0] == kind:
                        found.ragged([column], kind)
        except BadMessage as error:
            assert error.index == 0


def test_a_number_that_goes_on_behind_its_list_is_none(version: str) -> None:
    """Neither counted nor written behind the others; nor is one of too many bytes."""
    for last in (b"\x80", b"\x80" * 10 + b"\x01"):
        packed = b"\x05\x07" + last
        feature = bytes([26, len(packed) + 2, 10, len(packed)]) + packed
        entry = bytes([10, 1, 97, 18, len(feature)]) + feature
        data = bytes([10, len(entry) + 2, 10, len(entry)]) + entry
        with pytest.raises(BadMessage):
            index(*joined([data, data]), Keys.of([b"a"])).ragged([0], INT64_LIST)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(INTS, max_size=3),
            st.lists(FLOATS, max_size=3),
            st.lists(st.binary(max_size=150), max_size=3),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_what_is_written_protobuf_reads(version: str, rows: Any) -> None:
    def offsets(column: int) -> np.ndarray:
        return np.cumsum([0, *(len(r[column]) for r in rows)], dtype=np.int64)

    texts = [s for r in rows for s in r[2]]
    there = np.array([r[3] for r in rows], bool)
    features = [
        Feature(b"ints", INT64_LIST, np.array([v for r in rows for v in r[0]], np.int64), offsets(0)),
        Feature(b"f" * 200, FLOAT_LIST, np.array([v for r in rows for v in r[1]], np.float32), offsets(1), there),
        Feature(b"s", BYTES_LIST, np.frombuffer(b"".join(texts), np.uint8), offsets(2), None,
                np.cumsum([0, *map(len, texts)], dtype=np.int64)),
    ]  # fmt: skip
    data, at = encode(features, len(rows))
    for i, (ints, floats, strings, present) in enumerate(rows):
        example = proto.Example.FromString(bytes(data[at[i] : at[i + 1]]))
        assert list(example.features.feature["ints"].int64_list.value) == ints
        assert list(example.features.feature["s"].bytes_list.value) == strings
        assert ("f" * 200 in example.features.feature) == present
        if present:
            assert list(example.features.feature["f" * 200].float_list.value) == floats


def test_a_feature_of_another_type_is_refused() -> None:
    at = np.arange(3)
    with pytest.raises(TypeError, match="feature b'a': expected a contiguous array of float32"):
        Feature(b"a", FLOAT_LIST, np.zeros(2), at)
    with pytest.raises(TypeError, match="strings, and they alone, have ends"):
        Feature(b"a", BYTES_LIST, np.zeros(2, np.uint8), at)
    with pytest.raises(ValueError, match="named twice"):
        Keys.of([b"a", b"a"])
