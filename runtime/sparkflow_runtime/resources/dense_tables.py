"""Look-up tables whose keys lie in buckets, found by probing: what MutableDenseHashTable holds, saves and restores.

A key is found by a dictionary, as in every table here. Where it lies among the buckets matters to those who export the
table: a checkpoint has the buckets as they are, and TensorFlow looks keys up where its own hash and its own steps from
bucket to bucket lead. Source: tensorflow/core/kernels/lookup_table_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.resources.tables import Table, TableSpec
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = np.ndarray

_WORD = (1 << 64) - 1
_FEWEST_BUCKETS = 4


class Buckets(NamedTuple):
    """empty, deleted: what stands for no key in a bucket that was never used and in one that is free again, which can
    be no keys themselves. buckets: how many at first, a power of 2. load: of how many the buckets are doubled."""

    empty: Any
    deleted: Any
    buckets: int
    load: float


def _combined(a: int, b: int) -> int:
    """TensorFlow's Hash64Combine."""
    return a ^ ((b + 0x9E3779B97F4A7800 + (a << 10) + (a >> 4)) & _WORD)


class DenseTable(Table):
    """hash_text: 64 bits of a word. Raises InvalidArgumentError where `how` is of no use."""

    def __init__(self, name: str, spec: TableSpec, how: Buckets, hash_text: Callable[[bytes], int]):
        super().__init__(name, spec)
        self.how, self._hash_text = how, hash_text
        _check(name, how)
        self._clear()

    def _clear(self, buckets: int | None = None) -> None:
        count = buckets or self.how.buckets
        self._rows = {}
        self._values = np.zeros((count, *self.spec.value_shape), self.spec.value_dtype.np)
        if self._values.dtype == object:
            self._values[...] = b""
        self._keys = np.empty((count, *self.spec.key_shape), self.spec.key_dtype.np)
        self._keys[...] = self.how.empty
        self._used = np.zeros(count, bool)

    # ------------------------------------------------------------------ buckets

    def _hash(self, key: Any) -> int:
        if not isinstance(key, tuple):
            return self._hash_text(key) if isinstance(key, bytes) else int(key) & _WORD
        if len(key) == 1:
            return self._hash(key[0])
        found = 0
        for part in key:
            found = _combined(found, self._hash(part))
        return found

    def _place(self, key: Any) -> int:
        row = self._rows.get(key)
        if row is None:
            mask = len(self._used) - 1
            row, probes = self._hash(key) & mask, 0
            while self._used[row]:
                probes += 1
                row = (row + probes) & mask
            self._used[row] = True
            self._keys[row] = key
            self._rows[key] = row
        return row

    def _put(self, keys: Array, values: Array) -> None:
        listed = self._listed(keys)
        self._grow(len(self._rows) + len(listed))
        places = np.fromiter(map(self._place, listed), np.intp, len(listed))
        self._values[places] = values.reshape(-1, *self.spec.value_shape)

    def _grow(self, keys: int) -> None:
        """Buckets for so many keys; those that are there move in the order of their buckets."""
        count = len(self._used)
        while keys > count * self.how.load:
            count *= 2
        if count > len(self._used):
            held, values = self._keys[self._used], self._values[self._used]
            self._clear(count)
            places = np.fromiter(map(self._place, self._listed(held)), np.intp, len(held))
            self._values[places] = values

    def _take_out(self, keys: list[Any]) -> None:
        for key in keys:
            row = self._rows.pop(key, None)
            if row is not None:
                self._used[row] = False
                self._keys[row] = self.how.deleted

    # ------------------------------------------------------------------ the buckets as they are

    def export(self) -> tuple[Array, Array]:
        """(keys [buckets, numbers of a key], values [buckets, numbers of a value]), empty and deleted ones too."""
        with self._lock:
            count = len(self._used)
            return self._keys.reshape(count, -1).copy(), self._values.reshape(count, -1).copy()

    def fill(self, keys: Array, values: Array) -> None:
        """Instead of what it has, what another such table exported."""
        self._check_key_type(keys)
        self._check_value_type(values)
        count = len(keys) if keys.ndim == 2 else 0
        one_key, one_value = (int(np.prod(s)) for s in (self.spec.key_shape, self.spec.value_shape))
        if not _is_count(count) or keys.shape != (count, one_key) or values.shape != (count, one_value):
            raise InvalidArgumentError(
                f"Table {self.name!r}: buckets must be keys of shape [n, {one_key}] and values of shape "
                f"[n, {one_value}], n a power of 2 above 2; got {list(keys.shape)} and {list(values.shape)}"
            )
        listed = self._listed(keys.reshape(count, *self.spec.key_shape))
        rows = [i for i, key in enumerate(listed) if key not in (self.how.empty, self.how.deleted)]
        with self._lock:
            self._clear(count)
            self._keys[...] = keys.reshape(self._keys.shape)
            self._values[...] = values.reshape(self._values.shape)
            self._used[rows] = True
            self._rows = {listed[row]: row for row in rows}

    # ------------------------------------------------------------------ checks

    def _check_keys(self, keys: Array) -> None:
        self._check_key_type(keys)
        self._batch(keys)
        listed = self._listed(keys)
        for what, key in (("empty_key", self.how.empty), ("deleted_key", self.how.deleted)):
            if key in listed:
                raise InvalidArgumentError(
                    f"Table {self.name!r}: using the {what} as a table key is not allowed, and it is {key!r}"
                )


def _is_count(buckets: int) -> bool:
    return buckets >= _FEWEST_BUCKETS and not buckets & (buckets - 1)


def _check(name: str, how: Buckets) -> None:
    if how.empty == how.deleted:
        raise InvalidArgumentError(f"Table {name!r}: empty and deleted keys cannot be equal, both are {how.empty!r}")
    if not _is_count(how.buckets):
        raise InvalidArgumentError(
            f"Table {name!r}: the number of buckets must be at least {_FEWEST_BUCKETS} and a power of 2, "
            f"got {how.buckets}"
        )
    if not 0 < how.load < 1:
        raise InvalidArgumentError(f"Table {name!r}: max_load_factor must be between 0 and 1, got {how.load}")
