"""The feature lists of tf.train.SequenceExample messages, many at once, as columns of features.

What a message has beside them, its context, is where an Example has its features, and `example.index` reads it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.records import sequence_loops as loops
from sparkflow_runtime.records.example import BYTES_LIST, FLOAT_LIST, BadMessage, Index, Keys
from sparkflow_runtime.records.example_entries import entry, feature, find, teach
from sparkflow_runtime.records.native import raw
from sparkflow_runtime.records.varints import skip, span, varint

_PLACES = "uint8[::1], int64[::1], int64[::1]"


class FeatureList(NamedTuple):
    """One feature list of all messages. missing: bool[message]. counts: int64[message], how many features it has.
    features: of all messages, one after the other, as the messages of an index with one key."""

    missing: np.ndarray
    counts: np.ndarray
    features: Index

    def message(self, feature: int) -> int:
        """Which message has that feature."""
        return int(np.searchsorted(np.cumsum(self.counts), feature, "right"))


class Lists(NamedTuple):
    """Where the feature lists of messages lie, [list, message], and which are missing."""

    keys: Keys
    buffer: np.ndarray
    missing: np.ndarray
    firsts: np.ndarray
    lasts: np.ndarray


class Straight(NamedTuple):
    """The same where every feature is of its list's kind and size. steps, values: int64[list, message], how many
    features and values there are."""

    lists: Lists
    kinds: np.ndarray
    steps: np.ndarray
    values: np.ndarray

    def dense(self, column: int, size: int) -> np.ndarray:
        """[messages, most steps, size], filled up with zeros. Strings: [..., 2], where each starts and ends."""
        steps = self.steps[column]
        shape = (len(steps), int(steps.max(initial=0)), size)
        return self._filled(column, shape, shape[1] * size, _NO_INDICES)

    def sparse(self, column: int) -> tuple[np.ndarray, np.ndarray]:
        """(values, strings as above; int64[values, 3], the message, step and place of each)."""
        total = int(self.values[column].sum())
        indices = np.empty((total, 3), np.int64)
        return self._filled(column, (total,), -1, indices), indices

    def _filled(self, column: int, shape: tuple[int, ...], room: int, indices: np.ndarray) -> np.ndarray:
        kind, (_, buffer, _, firsts, lasts) = int(self.kinds[column]), self.lists
        out = np.zeros((*shape, 2) if kind == BYTES_LIST else shape, np.float32 if kind == FLOAT_LIST else np.int64)
        loops.fill(buffer, firsts[column], lasts[column], kind, room, out.reshape(-1).view(np.uint8), indices)
        return out


_NO_INDICES = np.empty((0, 3), np.int64)


def places(buffer: np.ndarray, starts: np.ndarray, ends: np.ndarray, keys: Keys) -> Lists:
    """Of each key, in messages buffer[starts[i]:ends[i]]; buffer: uint8, contiguous and writable. Raises BadMessage."""
    shape = (len(keys.names), len(starts))
    firsts, lasts = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    bad = _lists(buffer, starts, ends, keys.text, keys.begins, keys.slots, firsts, lasts)
    if bad >= 0:
        raise BadMessage(int(bad))
    missing = firsts < 0
    firsts[missing] = 0
    return Lists(keys, buffer, missing, firsts, lasts)


def straight(lists: Lists, kinds: np.ndarray, sizes: np.ndarray) -> Straight | None:
    """kinds, sizes: int64 of each list; size -1: any number of values. None where a feature is not as they say."""
    steps, values = np.empty_like(lists.firsts), np.empty_like(lists.firsts)
    odd = loops.count(lists.buffer, lists.firsts, lists.lasts, kinds, sizes, steps, values)
    return None if odd else Straight(lists, kinds, steps, values)


def feature_lists(lists: Lists) -> list[FeatureList]:
    """Of each key. Raises BadMessage."""
    keys, buffer, missing, firsts, lasts = lists
    shape = firsts.shape
    # A FeatureList has its features as a BytesList has its strings: to protobuf they are one.
    kinds = np.full(shape, BYTES_LIST, np.uint8)
    spans, counts = Index(keys, buffer, kinds, firsts, lasts).ragged(range(shape[0]), BYTES_LIST)
    return [FeatureList(missing[c], counts[c], _index(buffer, spans[c], counts[c], keys)) for c in range(shape[0])]


def _index(buffer: np.ndarray, spans: np.ndarray, counts: np.ndarray, keys: Keys) -> Index:
    """Of the features buffer[spans[i, 0]:spans[i, 1]]."""
    starts, ends = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
    kinds, places = np.zeros((1, len(spans)), np.uint8), np.zeros((2, 1, len(spans)), np.int64)
    bad = _features(buffer, starts, ends, kinds, *places)
    if bad >= 0:
        raise BadMessage(int(np.searchsorted(np.cumsum(counts), bad, "right")))
    return Index(keys, buffer, kinds, *places)


@compiled(
    [f"int64({_PLACES}, uint8[::1], int64[::1], int64[::1], int64[:,::1], int64[:,::1])"],
    before=teach,
)
def _lists(buffer: Any, starts: Any, ends: Any, names: Any, begins: Any, slots: Any, firsts: Any, lasts: Any) -> int:
    """Fill in where each [list, message] begins and ends; the first message that is none, or -1."""
    bytes_, names_, begins_, slots_ = raw(buffer), raw(names), raw(begins), raw(slots)
    limit, last_slot = len(buffer), len(slots) - 1
    for i in range(len(starts)):
        at, end = starts[i], ends[i]
        while at < end:
            tag, at = varint(bytes_, at, end)
            stop = at
            if at >= 0 and tag == 18:
                at, stop = span(bytes_, at, end)
            elif at >= 0:
                stop = at = skip(bytes_, at, end, tag & 7)
            while at >= 0 and at < stop:  # the entries of the map
                tag, at = varint(bytes_, at, stop)
                if at >= 0 and tag == 10:
                    at, last = span(bytes_, at, stop)
                    if at < 0:
                        return i
                    key, key_end, first, list_end = entry(bytes_, at, last)
                    if key < 0:
                        return i
                    column = find(bytes_, key, key_end - key, limit, names_, begins_, slots_, last_slot)
                    if column >= 0:
                        firsts[column, i], lasts[column, i] = first, list_end
                    at = last
                elif at >= 0:
                    at = skip(bytes_, at, stop, tag & 7)
            if at < 0:
                return i
    return -1


@compiled([f"int64({_PLACES}, uint8[:,::1], int64[:,::1], int64[:,::1])"], before=teach)
def _features(buffer: Any, starts: Any, ends: Any, kinds: Any, firsts: Any, lasts: Any) -> int:
    """Fill in kind, start and end of the list in each; the first that is no Feature, or -1."""
    bytes_ = raw(buffer)
    for i in range(len(starts)):
        kind, first, last = feature(bytes_, starts[i], ends[i])
        if kind < 0:
            return i
        kinds[0, i], firsts[0, i], lasts[0, i] = kind, first, last
    return -1


LOOPS = (_lists, _features, loops.count, loops.fill)
