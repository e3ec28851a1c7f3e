"""Frames: what goes in comes out, and what nobody encoded is refused before it is believed."""

from __future__ import annotations

import random
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkflow_runtime.wire import dtypes, frames
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, OpError

NUMERIC = [t.np for t in dtypes.ALL.values() if not t.np.hasobject]
SHAPES = [(), (1,), (7,), (0,), (3, 0), (2, 3), (1, 5, 2), (1,) * 32]


def unpack(raw: bytes, **bounds: int) -> tuple[frames.Header, list[np.ndarray]]:
    """As a receiver does: the header, then the parts of the sizes it says."""
    header = frames.parse_header(raw[: frames.HEADER_BYTES], **bounds)
    meta_end = frames.HEADER_BYTES + header.meta_bytes
    table_end = meta_end + header.table_bytes
    payload = np.frombuffer(bytearray(raw[table_end:]), np.uint8)
    return header, frames.decode(header, raw[frames.HEADER_BYTES : meta_end], raw[meta_end:table_end], payload)


def round_trip(*tensors: object) -> list[np.ndarray]:
    buffers = frames.encode(frames.PUSH, 3, 4, b"meta", tensors)
    raw = b"".join(buffers)
    assert len(raw) == frames.frame_bytes(buffers)
    return unpack(raw)[1]


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    return got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()


def sample(dtype: np.dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_every_dtype_and_shape(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = sample(dtype, shape)
    (got,) = round_trip(array)
    assert same(got, array)
    assert got.flags.writeable


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_equal_neighbours_are_told_apart(dtype: np.dtype, copies: int) -> None:
    arrays = [sample(dtype, (3, 7), seed) for seed in range(copies)]
    assert all(map(same, round_trip(*arrays), arrays))


def test_strings() -> None:
    words = np.array([[b"a", "bc"], [b"", "ü"]], object)
    got, empty, one, fixed, text = round_trip(
        words, np.zeros((0, 2), object), np.array(b"x" * 70_000, object), np.array([b"ab", b"c"]), np.array(["d", "é"])
    )
    assert got.tolist() == [[b"a", b"bc"], [b"", "ü".encode()]]
    assert empty.shape == (0, 2) and empty.dtype == object
    assert one.shape == () and one.item() == b"x" * 70_000
    assert fixed.tolist() == [b"ab", b"c"]
    assert text.tolist() == [b"d", "é".encode()]


def test_odd_arrays() -> None:
    grid = np.arange(24).reshape(4, 6)
    odd = [grid.T, grid[::2, 1::2], grid[::-1], np.float32(2.5), True, [1, 2], np.arange(4, dtype=">i4")]
    odd += [np.ones((3, 2), ml_dtypes.bfloat16).T, np.broadcast_to(np.int8(3), (2, 2)), np.asfortranarray(grid)]
    for got, array in zip(round_trip(*odd), map(np.asarray, odd), strict=True):
        assert got.shape == array.shape and (got == array).all()
        assert got.dtype == array.dtype.newbyteorder("=")


def test_contiguous_arrays_are_not_copied_either_way() -> None:
    array = np.arange(1000.0)
    buffers = frames.encode(frames.PUSH, 0, 0, b"", [array])
    assert buffers[1] is array
    header = frames.parse_header(buffers[0])
    payload = np.frombuffer(array.tobytes(), np.uint8)
    (got,) = frames.decode(header, b"", buffers[0][frames.HEADER_BYTES :], payload)
    assert np.shares_memory(got, payload)


def test_payloads_are_aligned() -> None:
    arrays = [np.zeros(n, np.uint8) for n in (1, 64, 65, 0, 3)]
    header, got = unpack(b"".join(frames.encode(frames.PUSH, 0, 0, b"", arrays)))
    base = got[0].__array_interface__["data"][0]
    offsets = [a.__array_interface__["data"][0] - base for a in got if a.size]
    assert offsets == [0, 64, 128, 256]
    assert header.payload_bytes == 259


@given(
    st.lists(
        st.tuples(
            st.sampled_from(range(len(NUMERIC))),
            st.lists(st.integers(0, 4), max_size=4).map(tuple),
            st.integers(1, 3),
        ),
        max_size=8,
    ),
    st.binary(max_size=100),
    st.lists(st.binary(max_size=20) | st.text(st.characters(codec="utf-8"), max_size=5), max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_mixed_messages(rows: list[tuple[int, tuple[int, ...], int]], meta: bytes, words: list[bytes | str]) -> None:
    strings = np.empty(len(words), object)
    strings[:] = words
    arrays = [sample(NUMERIC[d], shape, seed) for seed, (d, shape, n) in enumerate(rows) for _ in range(n)]
    header, got = unpack(b"".join(frames.encode(frames.REQUEST, 65_535, 1 << 63, meta, [strings, *arrays])))
    assert (header.kind, header.method, header.call_id) == (frames.REQUEST, 65_535, 1 << 63)
    assert got[0].tolist() == [w.encode() if isinstance(w, str) else w for w in words]
    assert all(same(a, b) for a, b in zip(got[1:], arrays, strict=True))


def test_many_tensors() -> None:
    arrays = [np.array([i, -i]) for i in range(3000)]
    assert all(map(same, round_trip(*arrays), arrays))


@pytest.mark.parametrize("odd", [None, "strings", "reversed", "swapped", "number", "bfloat16", "empty", "gap"])
def test_a_table_that_is_known_is_the_same(odd: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of many tensors keep their tables by dtypes and shapes: the bytes are those of any other frame."""
    others = {
        "strings": np.array([b"a", b"bc"], object),
        "reversed": np.arange(9.0)[::-1],
        "swapped": np.arange(4, dtype=">f4"),
        "number": 7,
        "bfloat16": np.ones(3, ml_dtypes.bfloat16),
        "empty": np.ones((0, 3), np.int8),
        "gap": np.ones(5, np.int8),
    }
    for shift in range(3):
        tensors: list[object] = [np.full((2, 16), i + shift, np.float32) for i in range(12)]
        if odd is not None:
            tensors[5:5] = [others[odd]]
        known = b"".join(frames.encode(frames.PUSH, 1, 0, b"meta", tensors))
        with monkeypatch.context() as patch:
            patch.setattr(frames, "_MANY", 1 << 30)
            assert known == b"".join(frames.encode(frames.PUSH, 1, 0, b"meta", tensors))
        for got, expected in zip(unpack(known)[1], tensors, strict=True):
            assert got.shape == np.shape(expected) and got.tolist() == np.asarray(expected).tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros(2, "M8[s]"),
        np.array([1, 2], object),
        np.array([b"a", None], object),
        np.zeros((1,) * 33),
        np.zeros(1, [("a", "i4")]),
    ],
    ids=["date", "ints", "none", "33 dimensions", "record"],
)
def test_what_cannot_be_sent(tensor: np.ndarray) -> None:
    with pytest.raises(InvalidArgumentError):
        frames.encode(frames.PUSH, 0, 0, b"", [tensor])


def test_addresses_are_never_sent_or_believed() -> None:
    assert not any(t.hasobject for t in (*frames._ENUM, *frames._NUMPY.values()))


def test_sizes_that_no_receiver_takes_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="meta 67108865 bytes"):
        frames.encode(frames.PUSH, 0, 0, bytes(frames.MAX_META_BYTES + 1))
    with pytest.raises(InvalidArgumentError, match="65537 tensors"):
        frames.encode(frames.PUSH, 0, 0, b"", [np.uint8(0)] * (frames.MAX_TENSORS + 1))
    monkeypatch.setattr(frames, "MAX_PAYLOAD_BYTES", 10)
    with pytest.raises(InvalidArgumentError, match="payload 11 bytes"):
        frames.encode(frames.PUSH, 0, 0, b"", [np.zeros(11, np.uint8)])


def header_bytes(**changed: int | bytes) -> bytes:
    fields: dict[str, int | bytes] = {
        "magic": frames.MAGIC,
        "version": frames.VERSION,
        "kind": frames.PUSH,
        "method": 1,
        "call_id": 0,
        "meta": 0,
        "tensors": 0,
        "table": 0,
        "payload": 0,
    }
    return struct.pack("<4sBBHQIIIQ", *(fields | changed).values())


@pytest.mark.parametrize(
    "changed, error, said",
    [
        ({"magic": b"HTTP"}, DataLossError, "HTTP"),
        ({"version": 9}, DataLossError, "version 9"),
        ({"kind": 0}, DataLossError, "kind 0x0"),
        ({"kind": 8}, DataLossError, "kind 0x8"),
        ({"kind": 0x84}, DataLossError, "kind 0x84 with 0 payload bytes"),
        ({"meta": (64 << 20) + 1}, InvalidArgumentError, "67108865"),
        ({"tensors": 65_537, "table": 65_537 * 24}, InvalidArgumentError, "65537"),
        ({"tensors": 1, "table": 24, "payload": (16 << 30) + 1}, InvalidArgumentError, "17179869185"),
        ({"tensors": 2, "table": 24}, DataLossError, "24 table bytes"),
        ({"tensors": 1, "table": 25}, DataLossError, "25 table bytes"),
        ({"tensors": 1, "table": 36 * 8}, DataLossError, "288 table bytes"),
        ({"table": 8}, DataLossError, "8 table bytes"),
        ({"payload": 1}, DataLossError, "1 payload bytes"),
    ],
)
def test_bad_headers(changed: dict[str, int | bytes], error: type[OpError], said: str) -> None:
    with pytest.raises(error, match=said):
        frames.parse_header(header_bytes(**changed))


def test_header_bounds() -> None:
    with pytest.raises(DataLossError, match="35 bytes"):
        frames.parse_header(header_bytes()[:-1])
    with pytest.raises(InvalidArgumentError, match="at most 10"):
        frames.parse_header(header_bytes(tensors=1, table=24, payload=11), max_payload_bytes=10)


FLOAT, STRING = 1, 7
MAX = (1 << 64) - 1


@pytest.mark.parametrize(
    "words, payload_bytes",
    [
        pytest.param([99 | 1 << 8, 1, 0, 4], 4, id="unknown dtype"),
        pytest.param([FLOAT | 33 << 8, *[1] * 33, 0, 4], 4, id="33 dimensions"),
        pytest.param([FLOAT | 2 << 8, 1, 0, 4], 4, id="table too short for its dimensions"),
        pytest.param([FLOAT | 1 << 8, 1, 0, 4, 0], 4, id="words left over"),
        pytest.param([FLOAT | 1 << 8, 2, 0, 4], 4, id="bytes below shape"),
        pytest.param([FLOAT | 1 << 8, 1, 0, 8], 8, id="bytes above shape"),
        pytest.param([FLOAT | 1 << 8, 1, 64, 4], 68, id="a gap before the first"),
        pytest.param([FLOAT | 1 << 8, 2, 0, 8], 4, id="outside the payload"),
        pytest.param([FLOAT | 1 << 8, 1, 0, 4], 8, id="payload left over"),
        pytest.param([FLOAT | 2 << 8, 1 << 32, 1 << 32, 0, 0], 0, id="a product of 2^64"),
        pytest.param([FLOAT | 2 << 8, 0, MAX, 0, 0], 0, id="empty, but huge beside"),
        pytest.param([FLOAT | 3 << 8, 0, 1 << 31, 1 << 31, 0, 0], 0, id="empty, too many bytes beside"),
        pytest.param([FLOAT | 1 << 8, MAX, 0, (MAX * 4) & MAX], 4, id="an overflowing size"),
        pytest.param([FLOAT | 1 << 8, 1, MAX - 3, 4], 4, id="an overflowing offset"),
        pytest.param([STRING | 1 << 8, 1 << 40, 0, 16], 16, id="more strings than bytes"),
        pytest.param([STRING | 1 << 8, 0, 0, 16], 16, id="bytes of no strings"),
        pytest.param([STRING | 1 << 8, 1, 0, 16], 16, id="string lengths that do not add up"),
        pytest.param([FLOAT | 1 << 8, 1, 0, 4, FLOAT | 1 << 8, 1, 0, 4], 4, id="two in one place"),
        pytest.param([FLOAT | 1 << 60, 0, 0], 0, id="absurd ndim"),
    ],
)
def test_bad_tables(words: list[int], payload_bytes: int) -> None:
    tensors = 2 if len(words) == 8 else 1
    header = frames.Header(frames.PUSH, 0, 0, 0, tensors, len(words) * 8, payload_bytes)
    with pytest.raises(DataLossError):
        frames.decode(header, b"", struct.pack(f"<{len(words)}Q", *words), np.zeros(payload_bytes, np.uint8))


def test_parts_that_are_not_what_the_header_says() -> None:
    header = frames.Header(frames.PUSH, 0, 0, 2, 0, 0, 0)
    with pytest.raises(DataLossError, match="its header says"):
        frames.decode(header, b"abc", b"", np.empty(0, np.uint8))


def test_damaged_frames_are_refused_or_read_but_never_crash() -> None:
    """2,000 frames with a few bytes changed, cut or added. Some damage (in data, in meta) is invisible here: fine."""
    rng = random.Random(7)
    good = b"".join(
        frames.encode(
            frames.REQUEST, 5, 6, b"some meta", [np.arange(5), np.array([b"x", b"yz"], object), np.ones((2, 2), "f4")]
        )
    )
    refused = 0
    for _ in range(2000):
        raw = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw) if rng.random() < 0.3 else 150)] = rng.choice((0, 1, 255, rng.randrange(256)))
        raw = raw[: rng.choice((len(raw), rng.randrange(len(raw))))]
        try:
            unpack(bytes(raw), max_payload_bytes=1 << 20)
        except (DataLossError, InvalidArgumentError):
            refused += 1
    assert refused > 1000
