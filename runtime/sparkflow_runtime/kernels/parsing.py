"""Parsers of serialized Examples: string tensors to columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parsing_single import OneRow
from sparkflow_runtime.kernels.registry import Node, bound, prepares
from sparkflow_runtime.kernels.text_makers import make_texts, texts_of
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.example import (
    BYTES_LIST,
    FLOAT_LIST,
    INT64_LIST,
    KIND_NAMES,
    MISSING,
    BadMessage,
    Index,
    Keys,
    index,
)
from sparkflow_runtime.records.example_entries import REACH
from sparkflow_runtime.records.example_line import Line
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_CPU = ("CPU",)
_LONG = 200  # values of a row, from which on its places are made by themselves
_KINDS = {"string": BYTES_LIST, "float32": FLOAT_LIST, "int64": INT64_LIST}
DTYPES: dict[int, Any] = {BYTES_LIST: object, FLOAT_LIST: np.float32, INT64_LIST: np.int64}


def kinds_of(types: Sequence[Any]) -> list[int]:
    return [_KINDS[t.name] for t in types]


class Examples:
    """Serialized messages of one call, and what errors call them."""

    def __init__(
        self, serialized: Any, names: Any, keys: tuple[bytes, ...], singles: Sequence[int] = (), what: str = "example"
    ):
        given = np.asarray(serialized, object).ravel().tolist()
        self._messages = [m if type(m) is bytes else as_bytes(m) for m in given]
        self.count, self._what = len(self._messages), what
        self._names = [as_bytes(n).decode(errors="replace") for n in np.asarray(names, object).ravel()]
        lengths = np.fromiter(map(len, self._messages), np.int64, self.count)
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        # With room behind the last one, so that it is read by words too.
        buffer = np.frombuffer(bytearray(b"".join([*self._messages, bytes(REACH)])), np.uint8)
        try:
            self.found: Index = index(buffer, self.starts, self.ends, keys_of(keys), singles)
        except BadMessage as error:
            raise self.unreadable(error.index) from None

    def unreadable(self, i: int) -> InvalidArgumentError:
        shown = self._messages[i][:40]
        return InvalidArgumentError(
            f"Could not parse {self._what} input, value: {shown!r} ({self.who(i)}, message {i})"
        )

    def who(self, i: int) -> str:
        return f"Name: {self._names[i] if i < len(self._names) else '<unknown>'}"

    def check_kind(self, column: int, kind: int) -> None:
        kinds = self.found.kinds[column]
        if len(kinds) == 1 and kinds[0] in (kind, MISSING):
            return
        wrong = (kinds != kind) & (kinds != MISSING)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidArgumentError(
                f"{self.who(i)}, Feature: {self.key(column)} (message {i}). Data types don't match. Data type: "
                f"{KIND_NAMES[kinds[i]]} but expected type: {KIND_NAMES[kind]}"
            )

    def key(self, column: int) -> str:
        return self.found.keys.names[column].decode(errors="replace")

    def strings(self, spans: np.ndarray) -> np.ndarray:
        """An object array of the bytes at [n, 2] (start, end)."""
        found = texts_of(self.found.buffer, spans)
        if found is not None:
            return found
        data = self.found.buffer.tobytes() if len(spans) * 64 > len(self.found.buffer) else self.found.buffer.data
        pairs = zip(*spans.T.tolist())  # no list of pairs, which are many objects for Python's collector to go through
        return np.fromiter([bytes(data[a:b]) for a, b in pairs], object, len(spans))


@lru_cache(256)
def keys_of(names: tuple[bytes, ...]) -> Keys:
    try:
        return Keys.of(names)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None


class Dense:
    """How one dense feature is read: a fixed shape, or [any number, fixed ...] filled up to the longest."""

    def __init__(self, column: int, kind: int, dims: tuple[int | None, ...]):
        self.column, self.kind, self.dims = column, kind, dims
        self.varies = bool(dims) and dims[0] in (None, -1)
        fixed = dims[1:] if self.varies else dims
        self.size = int(np.prod([int(d or 0) for d in fixed], dtype=np.int64))

    @property
    def is_single(self) -> bool:
        return self.size == 1 and not self.varies

    def check_default(self, default: np.ndarray, examples: Examples) -> None:
        if self.varies and default.size > 1:
            key = examples.key(self.column)
            raise InvalidArgumentError(
                f"dense_shape of {key!r} varies: its default must be one value, got {default.size}"
            )
        if not self.varies and default.size not in (0, self.size):
            key = examples.key(self.column)
            raise InvalidArgumentError(
                f"the default of {key!r} has shape {list(default.shape)}, its dense_shape is {list(self.dims)}"
            )

    def filled(self, examples: Examples, values: np.ndarray, counts: np.ndarray, default: np.ndarray) -> np.ndarray:
        """values: [messages, size, ...] as read."""
        missing = examples.found.kinds[self.column] == MISSING
        wrong = (counts != self.size) & ~missing
        if wrong.any():
            i, key = int(np.argmax(wrong)), examples.key(self.column)
            raise InvalidArgumentError(
                f"{examples.who(i)}, Key: {key}, Index: {i}.  Number of {KIND_NAMES[self.kind]} values != expected.  "
                f"values size: {counts[i]} but output shape: {list(self.dims)}"
            )
        if missing.any() and not default.size:
            raise InvalidArgumentError(
                f"{examples.who(int(np.argmax(missing)))}, Feature: {examples.key(self.column)} (data type: "
                f"{KIND_NAMES[self.kind]}) is required but could not be found."
            )
        if self.kind == BYTES_LIST:
            values = np.where(missing[:, None, None], 0, values)
            values = examples.strings(values.reshape(-1, 2)).reshape(values.shape[:2])
        if missing.any():
            values[missing] = default.ravel()
        return values.reshape(examples.count, *(int(d or 0) for d in self.dims))

    def padded(self, examples: Examples, default: np.ndarray) -> np.ndarray:
        (values,), counts = examples.found.ragged([self.column], self.kind)
        lengths = counts[0]
        uneven = lengths % self.size != 0 if self.size else lengths != 0
        if uneven.any():
            i = int(np.argmax(uneven))
            raise InvalidArgumentError(
                f"{examples.who(i)}, Key: {examples.key(self.column)}, Index: {i}.  Number of "
                f"{KIND_NAMES[self.kind]} values is not a multiple of stride length. Saw {lengths[i]} values but "
                f"output shape is: {list(self.dims)}"
            )
        most = int(lengths.max(initial=0))
        if self.kind == BYTES_LIST:
            values = examples.strings(values)
        filler = default.ravel()[0] if default.size else (b"" if self.kind == BYTES_LIST else 0)
        out = np.full((examples.count, most), filler, DTYPES[self.kind])
        out[np.arange(most) < lengths[:, None]] = values
        rest = [int(d or 0) for d in self.dims[1:]]
        return out.reshape(examples.count, most // self.size if self.size else 0, *rest)


def dense_columns(examples: Examples, wanted: list[Dense], defaults: Sequence[Any]) -> list[np.ndarray]:
    """Features of one kind and size are read in one go."""
    out: list[Any] = [None] * len(wanted)
    groups: dict[tuple[int, int], list[int]] = {}
    for place, one in enumerate(wanted):
        default = np.asarray(defaults[place])
        one.check_default(default, examples)
        if one.is_single and (found := examples.found.whole(one.column)) is not None:
            found = examples.strings(found) if one.kind == BYTES_LIST else found
            out[place] = found.reshape(examples.count, *one.dims)
            continue
        examples.check_kind(one.column, one.kind)
        if one.varies:
            out[place] = one.padded(examples, default)
        elif one.is_single:
            values, counts = examples.found.single(one.column, one.kind)
            out[place] = one.filled(examples, values[:, None], counts, default)
        else:
            groups.setdefault((one.kind, one.size), []).append(place)
    for (kind, size), places in groups.items():
        values, counts = examples.found.dense([wanted[p].column for p in places], kind, size)
        for place, mine, count in zip(places, values, counts):
            out[place] = wanted[place].filled(examples, mine, count, np.asarray(defaults[place]))
    return out


def ragged_columns(examples: Examples, columns: Sequence[int], kinds: Sequence[int]) -> list[tuple[Any, Any]]:
    """(values, how many each message has) of each. Features of one kind are read in one go."""
    for column, kind in zip(columns, kinds):
        examples.check_kind(column, kind)
    out: dict[int, tuple[Any, Any]] = {}
    for kind in dict.fromkeys(kinds):
        mine = [column for column, own in zip(columns, kinds) if own == kind]
        found, counts = examples.found.ragged(mine, kind)
        for column, values, lengths in zip(mine, found, counts):
            out[column] = (examples.strings(values) if kind == BYTES_LIST else values), lengths
    return [out[column] for column in columns]


def sparse_columns(examples: Examples, columns: Sequence[int], kinds: Sequence[int]) -> list[tuple[Any, Any, Any]]:
    """(indices [n, 2], values [n], shape [2]) of each."""
    found = []
    for values, lengths in ragged_columns(examples, columns, kinds):
        places, shape = _places(examples.count, lengths, len(values))
        found.append((places, values, shape))
    return found


def _places(count: int, lengths: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """(indices, shape) of rows of these lengths."""
    places, most = np.empty((total, 2), np.int64), int(lengths.max(initial=0))
    if total >= _LONG * count:  # row by row, each while it is in the cache
        numbers, at = np.arange(most), 0
        for row, length in enumerate(lengths.tolist()):
            places[at : at + length, 0], places[at : at + length, 1] = row, numbers[:length]
            at += length
    else:
        places[:, 0] = np.repeat(np.arange(count), lengths)
        places[:, 1] = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return places, np.array([count, most], np.int64)


Parsed = tuple[list[tuple[Any, Any, Any]], list[np.ndarray], list[tuple[Any, Any]]]


def _parse(
    node: Node, sparse_kinds: list[int], dense_kinds: list[int], ragged_kinds: Sequence[int] = ()
) -> Callable[..., Parsed]:
    first, last = len(sparse_kinds), len(sparse_kinds) + len(dense_kinds)
    shapes = [s.dims for s in node.attrs["dense_shapes"]]
    wanted = [Dense(first + i, k, d) for i, (k, d) in enumerate(zip(dense_kinds, shapes))]
    singles = [MISSING] * first + [one.kind if one.is_single else MISSING for one in wanted]
    singles += [MISSING] * len(ragged_kinds)

    def run(
        serialized: Any, names: Any, sparse_keys: Sequence[bytes], dense_keys: Sequence[bytes], defaults: Sequence[Any],
        ragged_keys: Sequence[bytes] = (),
    ) -> Parsed:  # fmt: skip
        examples = Examples(serialized, names, (*sparse_keys, *dense_keys, *ragged_keys), singles)
        sparse, dense = sparse_columns(examples, range(first), sparse_kinds), dense_columns(examples, wanted, defaults)
        return sparse, dense, ragged_columns(examples, range(last, last + len(ragged_kinds)), ragged_kinds)

    return run


def _flat(sparse: list[tuple[Any, Any, Any]], dense: list[np.ndarray]) -> list[Any]:
    return [s[0] for s in sparse] + [s[1] for s in sparse] + [s[2] for s in sparse] + dense


def text(key: Any) -> bytes:
    return as_bytes(key.item() if isinstance(key, np.ndarray) else np.asarray(key, object).item())


def texts(keys: Any) -> list[bytes]:
    return [as_bytes(k) for k in np.asarray(keys, object).ravel()]


@bound("ParseExample", multi=True, stateful=False, devices=_CPU)
def _parse_example(node: Node) -> Callable[..., Any]:
    sparse_kinds, dense_kinds = kinds_of(node.attrs["sparse_types"]), kinds_of(node.attrs["Tdense"])
    parse, s, d = _parse(node, sparse_kinds, dense_kinds), len(sparse_kinds), len(dense_kinds)

    def run(serialized: Any, names: Any, *rest: Any) -> list[Any]:
        sparse_keys, dense_keys = [text(k) for k in rest[:s]], [text(k) for k in rest[s : s + d]]
        return _flat(*parse(serialized, names, sparse_keys, dense_keys, rest[s + d :])[:2])

    return run


@bound("ParseExampleV2", multi=True, stateful=False, devices=_CPU)
def _parse_example_v2(node: Node) -> Callable[..., Any]:
    ragged_kinds = kinds_of(node.attrs["ragged_value_types"])
    split_types = [t.np for t in node.attrs["ragged_split_types"]]
    parse = _parse(node, kinds_of(node.attrs["sparse_types"]), kinds_of(node.attrs["Tdense"]), ragged_kinds)

    def run(serialized: Any, names: Any, sparse_keys: Any, dense_keys: Any, ragged: Any, *defaults: Any) -> list[Any]:
        single = np.ndim(serialized) == 0
        keys = texts(sparse_keys), texts(dense_keys), defaults, texts(ragged)
        sparse, dense, lists = parse(serialized, names, *keys)
        splits = [splits_of(lengths, kind, single) for (_, lengths), kind in zip(lists, split_types)]
        return [*(_single if single else _flat)(sparse, dense), *[values for values, _ in lists], *splits]

    return run


def splits_of(lengths: np.ndarray, kind: Any, single: bool) -> np.ndarray:
    """Where each message's values begin, and the last one's end; nothing of a message alone."""
    if single:
        return np.empty(0, kind)
    return np.cumsum([0, *lengths], dtype=kind)


@bound("ParseSingleExample", multi=True, stateful=False, devices=_CPU)
def _parse_single_example(node: Node) -> Callable[..., Any]:
    kinds = kinds_of(node.attrs["Tdense"])
    parse = _parse(node, kinds_of(node.attrs["sparse_types"]), kinds)
    sparse_keys, dense_keys = texts(node.attrs["sparse_keys"]), texts(node.attrs["dense_keys"])

    def whole(serialized: Any, *defaults: Any) -> list[Any]:
        return _single(*parse(serialized, [], sparse_keys, dense_keys, defaults)[:2])

    dims = [tuple(s.dims) for s in node.attrs["dense_shapes"]]
    if sparse_keys or not all(Dense(0, *each).is_single for each in zip(kinds, dims)):
        return whole
    line = Line(keys_of(tuple(dense_keys)), kinds)
    return OneRow(line, [DTYPES[kind] for kind in kinds], dims, whole)


def _single(sparse: list[tuple[Any, Any, Any]], dense: list[np.ndarray]) -> list[Any]:
    """Of a batch of one message: without its first dimension."""
    return _flat([(i[:, 1:], v, s[1:]) for i, v, s in sparse], [only(d) for d in dense])


def only(values: np.ndarray) -> np.ndarray:
    """Of a batch of one: an array, where an index would take a string out of it."""
    return values.reshape(values.shape[1:])


prepares(ready.prepare, "ParseExample", "ParseExampleV2", "ParseSingleExample")
prepares(make_texts.prepare, "ParseExample", "ParseExampleV2")
