"""Numbers of as many bytes as they need, as protobuf, tables and checkpoints of TensorFlow have them.

For a few of them; loops over millions are in records/varints.py.
"""

from __future__ import annotations

from collections.abc import Iterable


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, 7 bits a byte, and where the next thing is. Raises ValueError where it has no end."""
    value = 0
    for i, byte in enumerate(raw[at : at + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError(f"the number at byte {at} of {len(raw)} has no end")


def to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def with_lengths(texts: Iterable[bytes]) -> bytes:
    """The length of each text, and then the texts."""
    found = list(texts)
    return b"".join([*map(to_varint, map(len, found)), *found])


def without_lengths(raw: bytes, count: int) -> list[bytes]:
    """What `with_lengths` wrote of so many. Raises ValueError where that is no such thing."""
    lengths, texts, at = [], [], 0
    for _ in range(count):
        length, at = varint(raw, at)
        lengths.append(length)
    for length in lengths:
        texts.append(raw[at : at + length])
        at += length
    if at != len(raw):
        raise ValueError(f"{count} texts end at byte {at} of {len(raw)}")
    return texts
