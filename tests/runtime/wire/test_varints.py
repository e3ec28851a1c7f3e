"""Numbers of as many bytes as they need, and texts behind their lengths."""

from __future__ import annotations

import pytest

from sparkflow_runtime.wire.varints import to_varint, varint, with_lengths, without_lengths


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (2**64 - 1, b"\xff" * 9 + b"\1")],
)
def test_numbers_are_written_as_protobuf_has_them(value: int, raw: bytes) -> None:
    assert to_varint(value) == raw
    assert varint(b"\xff" + raw + b"\5", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff" * 11])
def test_a_number_without_an_end_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="has no end"):
        varint(raw, 0)


@pytest.mark.parametrize("texts", [[], [b""], [b"a", b"", b"bc" * 100]])
def test_texts_come_back(texts: list[bytes]) -> None:
    assert without_lengths(with_lengths(iter(texts)), len(texts)) == texts


@pytest.mark.parametrize(("raw", "count"), [(b"\5ab", 1), (b"\1ab", 1), (b"\1a", 2), (b"\1\1ab", 1), (b"\1a", 10**15)])
def test_texts_that_do_not_fill_their_bytes_are_refused(raw: bytes, count: int) -> None:
    with pytest.raises(ValueError, match="end"):
        without_lengths(raw, count)
