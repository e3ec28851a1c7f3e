"""Tensors of strings as bytes of a checkpoint: sparkflow's way, and TensorFlow's."""

from __future__ import annotations

import struct

import numpy as np

from sparkflow_runtime.wire.checkpoint import Dims
from sparkflow_runtime.wire.checksums import crc32c
from sparkflow_runtime.wire.sorted_table import mask
from sparkflow_runtime.wire.varints import to_varint

_SHORT = 1 << 32  # lengths below are summed as 4 bytes, others as 8


def packed(array: np.ndarray) -> np.ndarray:
    """The length of each string as 8 bytes, little end first, then the strings."""
    texts = _texts(array)
    lengths = np.array([len(t) for t in texts], "<u8")
    return np.frombuffer(lengths.tobytes() + b"".join(texts), np.uint8)


def unpacked(flat: np.ndarray, size: Dims) -> np.ndarray:
    count = int(np.prod(size, dtype=np.int64))
    raw = flat.tobytes()
    return _split(raw, np.frombuffer(raw, "<u8", count), 8 * count, size)


def tensorflow_packed(array: np.ndarray) -> tuple[bytes, int]:
    """Lengths as varints, their masked crc32c, the strings; and the crc32c that the index has of them."""
    texts = _texts(array)
    lengths = np.array([len(t) for t in texts], np.uint64)
    summed = _summed(lengths)
    sum_of_lengths = struct.pack("<I", mask(crc32c(summed)))
    rest = sum_of_lengths + b"".join(texts)
    return b"".join(map(to_varint, lengths.tolist())) + rest, crc32c(rest, crc32c(summed))


def tensorflow_unpacked(flat: np.ndarray, size: Dims) -> np.ndarray:
    lengths, at = _tensorflow_lengths(flat, int(np.prod(size, dtype=np.int64)))
    return _split(flat.tobytes(), lengths, at + 4, size)


def tensorflow_summed(flat: np.ndarray, size: Dims) -> np.ndarray:
    """The bytes that the crc32c of the index is of: the lengths as 4 bytes each, then what stands behind them.

    Raises ValueError where there are fewer lengths than strings, or they do not add up to what is there.
    """
    lengths, at = _tensorflow_lengths(flat, int(np.prod(size, dtype=np.int64)))
    if at + 4 + sum(lengths.tolist()) != flat.size:
        raise ValueError(f"strings of {sum(lengths.tolist())} bytes in {flat.size - at - 4}")
    return np.concatenate([np.frombuffer(_summed(lengths), np.uint8), flat[at:]])


def _texts(array: np.ndarray) -> list[bytes]:
    return [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel()]


def _split(raw: bytes, lengths: np.ndarray, at: int, size: Dims) -> np.ndarray:
    """The strings of these lengths, from byte `at` on."""
    ends = (at + np.cumsum(lengths, dtype=np.int64)).tolist()
    out = np.empty(len(ends), object)
    for i, (start, end) in enumerate(zip([at, *ends[:-1]], ends)):
        out[i] = raw[start:end]
    return out.reshape(size)


def _summed(lengths: np.ndarray) -> bytes:
    if not (lengths >= _SHORT).any():
        return lengths.astype("<u4").tobytes()
    return b"".join(n.to_bytes(4 if n < _SHORT else 8, "little") for n in lengths.tolist())


def _tensorflow_lengths(flat: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """`count` varints, and where they end."""
    if not count:
        return np.empty(0, np.uint64), 0
    last = np.flatnonzero(flat[: 10 * count] < 0x80)[:count]
    if last.size < count or last[-1] + 5 > flat.size:
        raise ValueError(f"{last.size} of the lengths of {count} strings in {flat.size} bytes")
    first = np.concatenate([[0], last[:-1] + 1])
    if (last - first > 9).any():
        raise ValueError("the length of a string has no end")
    digits = flat[: last[-1] + 1].astype(np.uint64) & np.uint64(0x7F)
    places = np.arange(digits.size) - np.repeat(first, last - first + 1)
    return np.add.reduceat(digits << (7 * places).astype(np.uint64), first), int(last[-1]) + 1
