"""Lines of comma-separated values as columns.

The compiled loop (csv_loops.py) reads what is written as most tables are. What it leaves, Python reads: first columns
of lines without quotes in which no value is missing, then value by value, which finds what is wrong and says it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.csv_loops import GONE, ODD, REAL, TENS, TEXT, WHOLE, read_lines
from sparkflow_runtime.kernels.registry import Node, bound, prepares
from sparkflow_runtime.kernels.text_makers import make_texts, texts_of
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes

_CPU = ("CPU",)
_SAID = {"float32": "float", "float64": "double"}  # of types in messages, as TensorFlow has them
_ALL = 1 << 62
_CELLS = 1 << 16  # read at once by the loop, whose notes of them stay in a processor's caches


@bound("DecodeCSV", multi=True, stateful=False, devices=_CPU)
def _decode_csv(node: Node) -> Callable[..., Any]:
    delimiter, quotes = node.attr("field_delim", ","), node.attr("use_quote_delim", True)
    missing, chosen = node.attr("na_value", ""), list(node.attr("select_cols") or ())
    if len(delimiter) != 1:
        raise InvalidArgumentError(f"DecodeCSV: field_delim should be only 1 character, got {delimiter!r}")
    types = node.attrs["OUT_TYPE"]
    form = _Form(delimiter, quotes, missing.encode(), chosen, types)

    def run(records: Any, *defaults: Any) -> list[np.ndarray]:
        array = np.asarray(records, object)
        lines: list[bytes] = array.ravel().tolist()
        if not {*map(type, lines)} <= {bytes}:
            lines = [as_bytes(line) for line in lines]
        found = form.read(lines, defaults)
        if found is None:
            found = _plain_columns(lines, delimiter, missing.encode(), chosen, types)
        if found is None:
            found = _value_by_value(lines, delimiter, quotes, missing, chosen, types, defaults)
        return [column.reshape(array.shape) for column in found]

    return run


prepares(read_lines.prepare, "DecodeCSV")
prepares(make_texts.prepare, "DecodeCSV")


class _Form:
    """How lines are written, for the loop."""

    def __init__(self, delimiter: str, quotes: bool, missing: bytes, chosen: list[int], types: Sequence[Any]):
        self._delimiter, self._quote = delimiter.encode(), ord('"') if quotes else -1
        self._missing, self._types = np.frombuffer(missing, np.uint8), types
        fields = chosen or list(range(len(types)))
        self._fits = fields == sorted(set(fields)) and len(fields) == len(types) and len(self._delimiter) == 1
        self._columns = np.full(max(fields, default=-1) + 1, -1, np.int64)
        self._columns[fields] = range(len(fields))
        kinds = [TEXT if t.name == "string" else REAL if t.name.startswith("float") else WHOLE for t in types]
        self._kinds, self._exactly = np.array(kinds, np.int64), not chosen
        self._limits = [_limits(t.np) if k == WHOLE else (0, 0) for t, k in zip(types, kinds)]
        self._block = max(_CELLS // max(len(types), 1), 1)

    def read(self, lines: list[bytes], defaults: Sequence[Any]) -> list[np.ndarray] | None:
        """The columns; None where a line is written in another way, or a value is wrong."""
        if not self._fits or (len(self._columns) == 1 and not all(lines)):  # an empty line has no field
            return None
        blocks = []
        for start in range(0, max(len(lines), 1), self._block):
            found = self._read(lines[start : start + self._block], defaults)
            if found is None:
                return None
            blocks.append(found)
        return blocks[0] if len(blocks) == 1 else [np.concatenate(parts) for parts in zip(*blocks)]

    def _read(self, lines: list[bytes], defaults: Sequence[Any]) -> list[np.ndarray] | None:
        rows, columns = len(lines), len(self._types)
        text = b"".join([*lines, b"\0"])
        ends = np.fromiter(map(len, lines), np.int64, rows).cumsum()
        wholes, spans = np.zeros((columns, rows), np.int64), np.empty((columns, rows, 2), np.int64)
        reals, states = wholes.view(np.float64), np.empty((columns, rows), np.uint8)
        about = np.zeros((columns, 4), np.int64)
        done = read_lines(
            np.frombuffer(text, np.uint8), ends, self._missing, TENS, self._columns, self._kinds, wholes, reals, spans,
            states, about, ord(self._delimiter), self._quote, int(self._exactly),
        )  # fmt: skip
        if not done:
            return None
        found = []
        for i, (kind, (gone, odd, low, high)) in enumerate(zip(self._kinds.tolist(), about.tolist())):
            least, most = self._limits[i]
            if low < least or high > most:
                return None
            if kind == TEXT:
                values = _cut(text, spans[i])
            else:
                values = (wholes if kind == WHOLE else reals)[i].astype(self._types[i].np)
            if odd and not self._set_odd(values, i, text, spans[i], states[i]):
                return None
            if gone:
                default = np.asarray(defaults[i]).ravel()
                if not default.size:
                    return None
                values[states[i] == GONE] = default[0]
            found.append(values)
        return found

    def _set_odd(self, values: np.ndarray, i: int, text: bytes, spans: np.ndarray, states: np.ndarray) -> bool:
        """Set what the loop has left; whether it could be read."""
        kind = self._types[i]
        for row in np.flatnonzero(states == ODD).tolist():
            start, stop = spans[row].tolist()
            value = text[start:stop]
            if kind.name == "string":
                values[row] = value.replace(b'""', b'"')
                continue
            if b"_" in value:
                return False
            try:
                with np.errstate(over="ignore"):
                    values[row] = float(value) if kind.name.startswith("float") else int(value)
            except (ValueError, OverflowError):
                return False
        return True


def _cut(text: bytes, spans: np.ndarray) -> np.ndarray:
    """The parts from [n, 2] (start, end). Lists of pairs would be many objects for Python's collector to go through."""
    found = texts_of(np.frombuffer(text, np.uint8), spans)
    if found is not None:
        return found
    return np.fromiter([text[a:b] for a, b in zip(*spans.T.tolist())], object, len(spans))


def _limits(dtype: Any) -> tuple[int, int]:
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def _plain_columns(
    lines: list[bytes], delimiter: str, missing: bytes, chosen: list[int], types: Sequence[Any]
) -> list[np.ndarray] | None:
    """Of lines without quotes in which no value is missing or wrong; None of others, which go value by value."""
    text, cut = b"".join(lines), delimiter.encode()
    if not all(lines) or not text.isascii() or any(c in text for c in b'"\r\n\0_'):
        return None
    rows = [line.split(cut) for line in lines]
    if len(set(map(len, rows))) != 1:
        return None
    columns: list[Any] = list(zip(*rows))
    if chosen:
        columns = [columns[i] for i in chosen] if max(chosen) < len(columns) else []
    if len(columns) != len(types) or any(b"" in column or missing in column for column in columns):
        return None
    try:
        return [_numbers_or_texts(column, kind) for column, kind in zip(columns, types)]
    except (ValueError, OverflowError):
        return None


def _numbers_or_texts(column: Sequence[bytes], kind: Any) -> np.ndarray:
    if kind.name == "string":
        return np.fromiter(column, object, len(column))
    if kind.name.startswith("float"):
        with np.errstate(over="ignore"):
            return np.fromiter(map(float, column), np.float64, len(column)).astype(kind.np)
    return np.fromiter(map(int, column), kind.np, len(column))


def _value_by_value(
    lines: list[bytes], delimiter: str, quotes: bool, missing: str, chosen: list[int], types: Sequence[Any],
    defaults: Sequence[Any],
) -> list[np.ndarray]:  # fmt: skip
    columns: list[list[Any]] = [[] for _ in types]
    for number, line in enumerate(lines):
        fields = _fields(line.decode(errors="surrogateescape"), delimiter, quotes, max(chosen, default=_ALL))
        if chosen and max(chosen) >= len(fields):
            raise InvalidArgumentError(
                f"Expect at least {max(chosen) + 1} fields, of which {chosen} are selected, but have {len(fields)} in "
                f"record {number}"
            )
        if chosen:
            fields = [fields[i] for i in chosen]
        if len(fields) != len(types):
            raise InvalidArgumentError(f"Expect {len(types)} fields but have {len(fields)} in record {number}")
        for i, text in enumerate(fields):
            columns[i].append(_value(text, types[i], defaults[i], missing, i, number))
    return [_column(values, kind) for values, kind in zip(columns, types)]


def _fields(line: str, delimiter: str, quotes: bool, last: int) -> list[str]:
    """Up to field `last`: what is behind it nobody looks at. Raises InvalidArgumentError where quotes or ends of lines
    are where TensorFlow has none."""
    fields, at = list[str](), 0
    while at < len(line) and len(fields) <= last:
        if line[at] in "\r\n":  # before a value they mean nothing
            at += 1
        elif quotes and line[at] == '"':
            text, at = _quoted(line, at + 1, delimiter)
            fields.append(text)
        else:
            stop = line.find(delimiter, at)
            text = line[at:] if stop < 0 else line[at:stop]
            if any(c in text for c in ('"\r\n' if quotes else "\r\n")):
                raise InvalidArgumentError(f"DecodeCSV: Unquoted fields cannot have quotes/CRLFs inside: {line[:60]!r}")
            fields.append(text)
            at += len(text) + 1
    return [*fields, ""] if line.endswith(delimiter) and len(fields) <= last else fields


def _quoted(line: str, at: int, delimiter: str) -> tuple[str, int]:
    """(a value within quotes, of which two stand for one; where the next one begins)."""
    parts: list[str] = []
    while True:
        stop = line.find('"', at)
        if stop < 0 or line[stop + 1 : stop + 2] not in ('"', "", delimiter):
            raise InvalidArgumentError(
                f"DecodeCSV: Quoted field has to end with quote followed by delim or end: {line[:60]!r}"
            )
        if line[stop + 1 : stop + 2] != '"':
            return "".join([*parts, line[at:stop]]), stop + 2
        parts.append(line[at : stop + 1])
        at = stop + 2


def _value(text: str, kind: Any, default: Any, missing: str, i: int, number: int) -> Any:
    if text in ("", missing):
        held = np.asarray(default).ravel()
        if not held.size:
            raise InvalidArgumentError(f"Field {i} is required but missing in record {number}!")
        return held[0]
    if kind.name == "string":
        return text.encode(errors="surrogateescape")
    try:
        if "_" not in text:  # which Python has in numbers
            return float(text) if kind.name.startswith("float") else int(text)
    except ValueError:
        pass
    shown = text.encode(errors="surrogateescape").decode(errors="replace")
    raise InvalidArgumentError(
        f"Field {i} in record {number} is not a valid {_SAID.get(kind.name, kind.name)}: {shown}"
    )


def _column(values: list[Any], kind: Any) -> np.ndarray:
    out = np.empty(len(values), kind.np)
    try:
        out[:] = values
    except OverflowError:
        raise InvalidArgumentError(f"DecodeCSV: a number does not fit {kind.name}") from None
    return out
