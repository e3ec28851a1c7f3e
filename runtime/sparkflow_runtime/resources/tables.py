"""Look-up tables: keys (numbers or strings) to values, outliving steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError

Array = np.ndarray


class TableSpec(NamedTuple):
    """What the node says. frozen: filled once, and only read from then on. value_shape: of the value of one key;
    key_shape: () or (n,), of one key."""

    key_dtype: DType
    value_dtype: DType
    frozen: bool
    value_shape: tuple[int, ...] = ()
    key_shape: tuple[int, ...] = ()


class Table:
    """Thread-safe. A key's value is a row of one array, so that many keys are found at the cost of one take.

    Keys are Python's numbers or bytes objects: what `tolist` makes of an array; where they are vectors, tuples of
    those.
    """

    def __init__(self, name: str, spec: TableSpec):
        self.name, self.spec = name, spec
        self._lock = Lock()
        self._rows: dict[Any, int] = {}
        self._values = np.empty((0, *spec.value_shape), spec.value_dtype.np)
        self._free: list[int] = []
        self._filled = not spec.frozen

    def __len__(self) -> int:
        with self._lock:
            return len(self._rows)

    def find(self, keys: Array, default: Array) -> Array:
        """[how many keys] + value_shape: each key's value, the default where it has none.

        default: one value, or one for each key. Raises FailedPreconditionError before a frozen table is filled.
        """
        self._check_dtypes(keys, default)
        batch = self._batch(keys)
        many = batch + self.spec.value_shape
        if default.shape not in (self.spec.value_shape, many):
            raise InvalidArgumentError(
                f"Table {self.name!r}: default_value must have shape {list(self.spec.value_shape)} or {list(many)}, "
                f"got {list(default.shape)}"
            )
        listed = self._listed(keys)
        with self._lock:
            self._check_filled()
            rows = np.fromiter(map(self._rows.get, listed, repeat(-1)), np.intp, len(listed))
            return self._taken(rows, default).reshape(many)

    def _batch(self, keys: Array) -> tuple[int, ...]:
        """The shape of how many keys there are: theirs without that of one key, with which it must end."""
        one = self.spec.key_shape
        if not one:
            return keys.shape
        if keys.shape[-1:] != one:
            raise InvalidArgumentError(
                f"Table {self.name!r}: the shape of keys must end with that of a key, {list(one)}, "
                f"got {list(keys.shape)}"
            )
        return keys.shape[:-1]

    def _listed(self, keys: Array) -> list[Any]:
        """The keys one by one, as they are looked up."""
        if not self.spec.key_shape:
            return keys.reshape(-1).tolist()
        return list(map(tuple, keys.reshape(-1, *self.spec.key_shape).tolist()))

    def _taken(self, rows: Array, default: Array) -> Array:
        missing = rows < 0
        if not missing.any():
            return self._values[rows]
        one = default.shape == self.spec.value_shape
        fallback = default if one else default.reshape(-1, *self.spec.value_shape)[missing]
        if not len(self._values):
            out = np.empty((len(rows), *self.spec.value_shape), self.spec.value_dtype.np)
        else:
            out = self._values[rows]  # row -1 for what is missing: replaced below
        out[missing] = fallback
        return out

    # ------------------------------------------------------------------ filling and changing

    def fill(self, keys: Array, values: Array) -> None:
        """The content of a frozen table; a second time only with the same. Of another one: instead of what it has.

        Raises FailedPreconditionError on a key with two values, or on another content than a frozen table has.
        """
        self._check_pairs(keys, values)
        with self._lock:
            if not self.spec.frozen:
                self._clear()
                self._put(keys, values)
                return
            wanted = self._distinct(keys, values)
            if self._filled:
                self._check_same(wanted)
                return
            self._rows = {key: i for i, key in enumerate(wanted)}
            self._values = _stacked(list(wanted.values()), self._values)
            self._filled = True

    def _distinct(self, keys: Array, values: Array) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(keys.reshape(-1).tolist(), values.reshape(-1, *self.spec.value_shape)):
            held = found.setdefault(key, value)
            if held is not value and not np.array_equal(held, value):
                raise FailedPreconditionError(
                    f"HashTable {self.name!r} has different value for same key. Key {key!r} has {held!r} and trying to "
                    f"add value {value!r}"
                )
        return found

    def _check_same(self, wanted: dict[Any, Any]) -> None:
        same = wanted.keys() == self._rows.keys() and all(
            np.array_equal(self._values[self._rows[key]], value) for key, value in wanted.items()
        )
        if not same:
            raise FailedPreconditionError(f"Table {self.name!r} was already initialized with different data")

    def insert(self, keys: Array, values: Array) -> None:
        """Give the keys these values; of a key that repeats the last one counts."""
        self._check_pairs(keys, values)
        self._check_changes("insert into")
        with self._lock:
            self._put(keys, values)

    def _put(self, keys: Array, values: Array) -> None:
        listed = self._listed(keys)
        places = np.fromiter(map(self._place, listed), np.intp, len(listed))
        if len(self._rows) + len(self._free) > len(self._values):
            grown = np.empty((2 * (len(self._rows) + len(self._free)), *self.spec.value_shape), self._values.dtype)
            grown[: len(self._values)] = self._values
            self._values = grown
        self._values[places] = values.reshape(-1, *self.spec.value_shape)

    def _place(self, key: Any) -> int:
        """The row of a key, a free one where it has none yet."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._free.pop() if self._free else len(self._rows)
        return row

    def remove(self, keys: Array) -> None:
        """Take the keys out that are there."""
        self._check_keys(keys)
        self._check_changes("remove from")
        with self._lock:
            self._take_out(self._listed(keys))

    def _take_out(self, keys: list[Any]) -> None:
        for key in keys:
            row = self._rows.pop(key, None)
            if row is not None:
                self._free.append(row)

    def _clear(self) -> None:
        self._rows, self._free = {}, []

    def export(self) -> tuple[Array, Array]:
        """(keys [n], values [n, ...]), copied, of one moment."""
        with self._lock:
            self._check_filled()
            keys = _put_into(np.empty(len(self._rows), self.spec.key_dtype.np), self._rows)
            rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            return keys, self._values[rows]

    # ------------------------------------------------------------------ checks

    def _check_filled(self) -> None:
        if not self._filled:
            raise FailedPreconditionError(
                f"Table not initialized: {self.name!r}. Run tf.tables_initializer() in this session first"
            )

    def _check_changes(self, what: str) -> None:
        if self.spec.frozen:
            raise InvalidArgumentError(f"Cannot {what} table {self.name!r}: a HashTable never changes once initialized")

    def _check_keys(self, keys: Array) -> None:
        self._check_key_type(keys)

    def _check_key_type(self, keys: Array) -> None:
        if keys.dtype != self.spec.key_dtype.np:
            raise InvalidArgumentError(
                f"Table {self.name!r} has keys of type {self.spec.key_dtype.name}, got {keys.dtype}"
            )

    def _check_dtypes(self, keys: Array, values: Array) -> None:
        self._check_keys(keys)
        self._check_value_type(values)

    def _check_value_type(self, values: Array) -> None:
        if values.dtype != self.spec.value_dtype.np:
            raise InvalidArgumentError(
                f"Table {self.name!r} has values of type {self.spec.value_dtype.name}, got {values.dtype}"
            )

    def _check_pairs(self, keys: Array, values: Array) -> None:
        self._check_dtypes(keys, values)
        wanted = self._batch(keys) + self.spec.value_shape
        if values.shape != wanted:
            raise InvalidArgumentError(
                f"Table {self.name!r}: values must have shape {list(wanted)} for keys of "
                f"shape {list(keys.shape)}, got {list(values.shape)}"
            )


def _put_into(out: Array, items: Any) -> Array:
    for i, item in enumerate(items):
        out[i] = item
    return out


def _stacked(values: Sequence[Any], like: Array) -> Array:
    return _put_into(np.empty((len(values), *like.shape[1:]), like.dtype), values)


# ---------------------------------------------------------------------- lines of files

WHOLE_LINE, LINE_NUMBER = -2, -1


class Columns(NamedTuple):
    """Which part of a line is key and which value: a column, WHOLE_LINE or LINE_NUMBER. lines: how many there must be
    at least, and are read; -1 for all. offset: of line numbers."""

    key: int
    value: int
    delimiter: bytes
    lines: int = -1
    offset: int = 0


def parts_of(path: str, source: Iterator[bytes], columns: Columns) -> tuple[list[Any], list[Any]]:
    """(keys, values): bytes of each line, numbers where they are line numbers.

    Raises InvalidArgumentError on an empty line, a line of too few columns, a file of too few lines.
    """
    keys: list[Any] = []
    values: list[Any] = []
    for number, line in enumerate(source):
        if number == columns.lines:
            return keys, values
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if not text:
            raise InvalidArgumentError(f"Invalid content in {path}: line {number} is empty")
        parts = text.split(columns.delimiter)
        if len(parts) <= max(columns.key, columns.value):
            raise InvalidArgumentError(
                f"Invalid number of columns in {path} line {number} ({text!r}): expected at least "
                f"{max(columns.key, columns.value) + 1}, got {len(parts)}"
            )
        for out, which in ((keys, columns.key), (values, columns.value)):
            whole = number + columns.offset if which == LINE_NUMBER else text
            out.append(whole if which < 0 else parts[which])
    if columns.lines >= 0 and len(keys) < columns.lines:
        raise InvalidArgumentError(f"Invalid vocab_size in {path}: expected {columns.lines}, got {len(keys)}")
    return keys, values
