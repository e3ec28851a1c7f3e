"""Columns to tf.train.Example messages and to the parts of tf.train.SequenceExample, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.records import encode_loops as loops
from sparkflow_runtime.records.example import BYTES_LIST, FLOAT_LIST, INT64_LIST, Room
from sparkflow_runtime.records.framing import FOOTER, HEADER

MESSAGES = loops.MESSAGES
_STRINGS = (BYTES_LIST, MESSAGES)
_MOST_PER_VALUE = {BYTES_LIST: 6, MESSAGES: 6, FLOAT_LIST: 4, INT64_LIST: 10}  # bytes; of a string: beside its own
EXAMPLE_TAG, SEQUENCES_TAG = 10, 18
_MOST_AROUND = 24  # tags and sizes of an entry, beside its head
_MOST_BY_WORDS = 110  # bytes of a head: then an entry with one number is less than 128 long
_DTYPES: dict[int, Any] = {BYTES_LIST: np.uint8, MESSAGES: np.uint8, FLOAT_LIST: np.float32, INT64_LIST: np.int64}


@dataclass(frozen=True)
class Feature:
    """One feature of all messages: message i has values[offsets[i]:offsets[i + 1]], or lacks it where present is False.
    Without offsets, message i has one value, number i.

    values: float32, int64, or, of strings, uint8 with `ends` (int64[strings + 1]) where string k is
    values[ends[k]:ends[k + 1]]. All are contiguous. Raises TypeError on other types. kind MESSAGES: strings that
    `feature_messages` has made are the features of a FeatureList.
    """

    name: bytes
    kind: int
    values: np.ndarray
    offsets: np.ndarray | None
    present: np.ndarray | None = None
    ends: np.ndarray | None = None

    def __post_init__(self) -> None:
        wanted = [(self.values, _DTYPES[self.kind]), (self.offsets, np.int64), (self.present, bool)]
        wanted += [(self.ends, np.int64)]
        for array, dtype in wanted:
            if array is not None and (array.dtype != dtype or not array.flags.c_contiguous):
                raise TypeError(f"feature {self.name!r}: expected a contiguous array of {np.dtype(dtype)}")
        if (self.kind in _STRINGS) != (self.ends is not None):
            raise TypeError(f"feature {self.name!r}: strings, and they alone, have ends")


def encode(
    features: Sequence[Feature],
    messages: int,
    framed: bool = False,
    tag: int = EXAMPLE_TAG,
    room: Room | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(uint8, offsets): message i is the bytes offsets[i]:offsets[i + 1]; framed: as they stand in a TFRecord file. The
    features of a message stand in the given order. tag: SEQUENCES_TAG for the feature lists of a SequenceExample; its
    context is as an Example. room: where the bytes may be, until it is given to another call."""
    heads = [_head(f.name) for f in features]
    begins = np.cumsum([0, *map(len, heads)])
    words = [bytes([10, 0]) + head for head in heads]
    padded = [word + bytes(-len(word) % 8) for word in words]
    first_word = int(begins[-1]) + np.cumsum([0, *map(len, padded)])
    table = np.zeros((len(features), loops.WIDTH), np.int64)
    for row, feature, begin, end, word in zip(table, features, begins, begins[1:], first_word.tolist()):
        by_words = end - begin < _MOST_BY_WORDS and feature.kind != MESSAGES
        row[:] = (*_places(feature), begin, end, word if by_words else -1, *_plain(feature, end - begin, by_words))
    most = messages * (6 + (HEADER + FOOTER) * framed + sum(_MOST_AROUND + len(h) for h in heads)) + 32
    most += sum(_most_of(f, messages) for f in features)
    out, offsets = (room or Room()).take_bytes(most), np.zeros(messages + 1, np.int64)
    text = np.frombuffer(bytearray(b"".join(heads + padded) + bytes(8)), np.uint8)
    used = loops.rows(table, text, framed, tag, out, offsets[1:])
    return out[:used], offsets


def feature_messages(feature: Feature, messages: int) -> tuple[np.ndarray, np.ndarray]:
    """(uint8, offsets): the values of message i, which all have some, as a tf.train.Feature of their own."""
    table = np.array([(*_places(feature), 0, 0, -1, 0, 0, 0)], np.int64)
    out = np.empty(messages * _MOST_AROUND + _most_of(feature, messages) + 32, np.uint8)
    offsets = np.zeros(messages + 1, np.int64)
    used = loops.features(table, out, offsets[1:])
    return out[:used], offsets


def _plain(feature: Feature, head_size: int, by_words: bool) -> tuple[int, int, int]:
    """PLAIN, FIRST and TAIL of its row."""
    one = feature.offsets is None and feature.present is None and feature.kind in (FLOAT_LIST, INT64_LIST)
    if not one or not by_words:
        return 0, 0, 0
    first = int.from_bytes((bytes([10, head_size + 6]) + _head(feature.name) + bytes(4))[:8], "little", signed=True)
    return feature.kind, first, 18 | 4 << 8 | (feature.kind << 3 | 2) << 16 | 2 << 24 | 10 << 32


def _places(feature: Feature) -> tuple[int, ...]:
    arrays = (feature.offsets, feature.present, feature.ends)
    return (feature.kind, feature.values.ctypes.data, *map(_address, arrays))


def _address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


def _most_of(feature: Feature, messages: int) -> int:
    """Bytes that its values take at the most."""
    at = feature.offsets
    values = messages if at is None else int(at[-1] - at[0]) if len(at) else 0
    own = len(feature.values) if feature.kind in _STRINGS else 0
    return values * _MOST_PER_VALUE[feature.kind] + own


def _head(name: bytes) -> bytes:
    """The key of an entry: tag, length, name."""
    size, length = bytearray([10]), len(name)
    while length >= 128:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes(size) + bytes([length]) + name
