"""Kernels of strings: arrays of objects that hold bytes, always on the host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import number_texts, text_loops, text_parts
from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import on_host, prepares
from sparkflow_runtime.kernels.text_makers import join_texts, joined
from sparkflow_runtime.records.fingerprints import fingerprints_of
from sparkflow_runtime.records.murmur_hashes import murmur_hashes_of
from sparkflow_runtime.records.sip_hashes import sip_hashes_of
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import as_bytes


def texts(x: Any) -> np.ndarray:
    """An array of bytes objects; one string comes as bytes where a plan computes single values."""
    if isinstance(x, np.ndarray):
        return x
    out = np.empty((), object)
    out[()] = as_bytes(x)
    return out


def each(x: Any, function: Callable[[bytes], Any], dtype: Any = object) -> np.ndarray:
    array = texts(x)
    return np.fromiter(map(function, array.reshape(-1).tolist()), dtype, array.size).reshape(array.shape)


on_host("StringStrip")(lambda xp, x: each(x, bytes.strip))


def _cased(op: str, of_bytes: Callable[[bytes], bytes], of_text: Callable[[str], str]) -> None:
    def run(xp: Any, x: Any, *, encoding: str = "") -> Any:
        return each(x, of_bytes if not encoding else lambda s: of_text(s.decode()).encode())

    on_host(op)(run)


_cased("StringLower", bytes.lower, str.lower)
_cased("StringUpper", bytes.upper, str.upper)


@on_host("StringLength")
def _length(xp: Any, x: Any, *, unit: str = "BYTE") -> Any:
    found = text_parts.lengths_of(texts(x), unit != "BYTE")
    return each(x, len if unit == "BYTE" else _characters, np.int32) if found is None else found


_INSIDE = bytes(range(128, 192))  # of characters of UTF-8: every other byte begins one


def _characters(text: bytes) -> int:
    return len(text.translate(None, _INSIDE))


# ---------------------------------------------------------------------- bytes


@on_host("DecodeRaw")
def _decode_raw(xp: Any, x: Any, *, out_type: DType, little_endian: bool = True) -> Any:
    array = texts(x)
    lengths = {len(s) for s in array.reshape(-1)}
    size = out_type.np.itemsize
    if len(lengths) > 1 or any(n % size for n in lengths):
        raise InvalidArgumentError(
            f"DecodeRaw: the strings must be of one length, a multiple of {size} bytes of {out_type.name}, "
            f"got lengths {sorted(lengths)[:5]}"
        )
    count = next(iter(lengths), 0) // size
    raw = np.frombuffer(b"".join(array.reshape(-1)), out_type.np)
    raw = raw if little_endian or size == 1 else raw.byteswap()
    return xp.asarray(raw.reshape(*array.shape, count))


# ---------------------------------------------------------------------- numbers

_HEX = re.compile(rb"\s*[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?\d+)?\s*$", re.I)  # of floats, as C reads them
_LIKE_C = re.compile(rb"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*$", re.I)


def number(text: bytes, dtype: DType) -> Any:
    """The number that a string names. Raises InvalidArgumentError where it names none of this type."""
    try:
        if dtype.is_integer:
            value = int(text)
            if not dtype.min <= value <= dtype.max or b"_" in text:
                raise ValueError
            return value
        if _HEX.match(text):
            return float.fromhex(text.decode())
        if not _LIKE_C.match(text):
            raise ValueError
        return float(text)
    except ValueError:
        raise InvalidArgumentError(
            f"StringToNumberOp could not correctly convert string: {text[:60].decode(errors='replace')} to {dtype.name}"
        ) from None


@on_host("StringToNumber")
def _to_number(xp: Any, x: Any, *, out_type: DType) -> Any:
    array = texts(x)
    found, odd = text_loops.wholes(array) if out_type.is_integer else text_loops.reals(array)
    if odd.any():
        found[odd] = _left_over(array.reshape(-1)[odd].tolist(), out_type)
    with np.errstate(over="ignore"):
        narrow = found.astype(out_type.np)
    if out_type.is_integer and not bool((narrow == found).all()):
        number(array.reshape(-1)[int((narrow != found).argmax())], out_type)  # says so
    return xp.asarray(narrow.reshape(array.shape))


def _left_over(flat: list[bytes], dtype: DType) -> Any:
    """Of strings that the loops did not read."""
    try:
        if b"_" not in b"".join(flat):  # which Python reads and C does not
            return np.array([*map(int, flat)], np.int64) if dtype.is_integer else [*map(float, flat)]
    except (ValueError, OverflowError):
        pass
    return [number(s, dtype) for s in flat]  # one of them is none: which one?


@on_host("AsString")
def _as_string(
    xp: Any, x: Any, *, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1,
    fill: str = "",
) -> Any:  # fmt: skip
    array = np.asarray(host(x))
    kind = array.dtype.kind
    if fill not in ("", " ", "-", "+", "0", "#"):
        raise InvalidArgumentError(f"as_string: fill must be empty, ' ', '-', '+', '0' or '#', got {fill!r}")
    flags = f"%{fill}{width if width > -1 else ''}"
    if kind == "O":
        return array
    if kind == "b":  # of whatever width
        return np.array([b"false", b"true"], object)[array.reshape(-1).astype(np.intp)].reshape(array.shape)
    form: Callable[[Any], bytes]
    if kind in "iu":
        form = f"{flags}d".encode().__mod__
    else:
        letter = "g" if shortest else "e" if scientific else "f"
        real = f"{flags}{f'.{precision}' if precision > -1 else ''}{letter}".encode()
        form = (lambda v: b"(%b,%b)" % (real % v.real, real % v.imag)) if kind == "c" else real.__mod__
    wide = array.astype(np.float64) if kind not in "biufc" else array  # bfloat16 gives itself as it is
    if flags == "%" and (kind == "i" or (kind == "u" and array.dtype.itemsize < 8)):
        quick = number_texts.whole_texts(wide)
        if quick is not None:
            return quick.reshape(array.shape)
    if flags == "%" and kind not in "iuc" and letter != "e":
        found = number_texts.real_texts(wide, 6 if precision < 0 else precision, shortest)
        if found is not None:
            out, odd = found
            out[odd] = [*map(form, wide.reshape(-1)[odd].tolist())]
            return out.reshape(array.shape)
    return np.fromiter(map(form, wide.reshape(-1).tolist()), object, array.size).reshape(array.shape)


prepares(number_texts.write_wholes.prepare, "AsString")
prepares(number_texts.write_reals.prepare, "AsString")


# ---------------------------------------------------------------------- hashes


def _bucket(found: np.ndarray, count: int) -> np.ndarray:
    return (found % np.uint64(count)).astype(np.int64)


@on_host("StringToHashBucketFast")
def _fast(xp: Any, x: Any, *, num_buckets: int) -> Any:
    return _bucket(fingerprints_of(texts(x)), num_buckets)


@on_host("StringToHashBucket")
def _legacy(xp: Any, x: Any, *, num_buckets: int) -> Any:
    return _bucket(murmur_hashes_of(texts(x)), num_buckets)


@on_host("StringToHashBucketStrong")
def _strong(xp: Any, x: Any, *, num_buckets: int, key: Any) -> Any:
    if len(key) != 2:
        raise InvalidArgumentError(f"Key must have 2 elements, got {list(key)}")
    return _bucket(sip_hashes_of(texts(x), *key), num_buckets)


# ---------------------------------------------------------------------- parts


@on_host("Substr")
def _substr(xp: Any, x: Any, pos: Any, length: Any, *, unit: str = "BYTE") -> Any:
    given, places, wanted = texts(x), np.asarray(pos), np.asarray(length)
    if {places.shape, wanted.shape} <= {given.shape, ()}:
        found = text_parts.parts_of(given, places, wanted, unit != "BYTE")
        if found is not None:
            return found
    array, at, count = np.broadcast_arrays(given, places, wanted)
    part = _part if unit == "BYTE" else _part_of_characters
    flat = array.reshape(-1).tolist()
    rows = [part(s, a, n) for s, a, n in zip(flat, at.reshape(-1).tolist(), count.reshape(-1).tolist())]
    if None in rows:
        wrong = rows.index(None)
        index = [int(i) for i in np.unravel_index(wrong, array.shape)]
        raise InvalidArgumentError(
            f"pos {int(at.flat[wrong])} out of range for string b'{flat[wrong]!r}' at index {index}"
        )
    return np.fromiter(rows, object, array.size).reshape(array.shape)


def _part(text: bytes, at: int, most: int) -> bytes | None:
    """None where `at` is not in the text; of a length below 0 all that follows."""
    size = len(text)
    if not -size <= at <= size:
        return None
    at += size if at < 0 else 0
    return text[at : size if most < 0 else at + most]


def _part_of_characters(text: bytes, at: int, most: int) -> bytes | None:
    """As `text_parts.find_characters` has it."""
    ends = [i for i, byte in enumerate(text) if i == 0 or byte & 192 != 128] + [len(text)]
    size = len(ends) - 1
    if not -size <= at <= size or (at < 0 and most < 0):
        return None
    at += size if at < 0 else 0
    return text[ends[at] : ends[min(at + max(most, 0), size)]]


def _sparse(rows: list[list[bytes]]) -> Any:
    """Indices, values and shape of rows of parts."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return _indexed(np.fromiter(chain.from_iterable(rows), object, int(counts.sum())), counts)


def _indexed(values: np.ndarray, counts: np.ndarray) -> Any:
    """Of the parts of all rows, one row's after the other's."""
    indices = np.empty((len(values), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(counts)), counts)
    indices[:, 1] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return indices, values, np.array([len(counts), counts.max(initial=0)], np.int64)


def _placed(indices: np.ndarray, values: np.ndarray, counts: np.ndarray) -> Any:
    return indices, values, np.array([len(counts), counts.max(initial=0)], np.int64)


@on_host("StringSplit", multi=True)
def _split(xp: Any, x: Any, delimiter: Any, *, skip_empty: bool = True) -> Any:
    """At every character of the delimiter; between all characters where it is empty."""
    cut, given = as_bytes(texts(delimiter).item()), texts(x)
    quick = text_parts.pieces_of(given, cut, False) if cut and skip_empty else None
    if quick is not None:
        return _placed(*quick)
    characters = None if cut else text_parts.characters_of(given)
    if characters is not None:
        return _indexed(*characters)
    flat = given.reshape(-1).tolist()
    if not cut:
        return _sparse([[s[i : i + 1] for i in range(len(s))] for s in flat])
    if len(cut) > 1:
        alike = bytes.maketrans(cut, cut[:1] * len(cut))
        flat = [s.translate(alike) for s in flat]
    first = cut[:1]
    if skip_empty:
        return _split_at(flat, first)
    rows = [s.split(first) if s else [] for s in flat]
    return _sparse(rows)


_WHITE = b" \t\n\r\v\f"
prepares(text_parts.prepare, "StringLength", "Substr", "StringSplit", "StringSplitV2")


def _split_at(flat: list[bytes], cut: bytes) -> Any:
    """The pieces that are not empty: of all rows end to end, which are split in one go."""
    pieces, empty = text_loops.counts_of(np.fromiter(flat, object, len(flat)), cut[0])
    parts = cut.join(flat).split(cut) if flat else []
    values = np.fromiter(filter(None, parts) if empty.any() else parts, object, int((pieces - empty).sum()))
    return _indexed(values, pieces - empty)


@on_host("StringSplitV2", multi=True)
def _split_v2(xp: Any, x: Any, sep: Any, *, maxsplit: int = -1) -> Any:
    cut = as_bytes(texts(sep).item())
    quick = text_parts.pieces_of(texts(x), cut or _WHITE, bool(cut)) if len(cut) < 2 and maxsplit < 0 else None
    if quick is not None:
        return _placed(*quick)
    flat = texts(x).reshape(-1).tolist()
    rows = [s.split(cut or None, maxsplit) for s in flat] if maxsplit else [[s] for s in flat]
    if not cut and maxsplit > 0:  # what follows the last piece is one too, even if it is nothing
        rows = [[*row, b""] if len(row) == maxsplit else row for row in rows]
    return _sparse(rows)


@on_host("ReduceJoin")
def _reduce_join(xp: Any, x: Any, axes: Any, *, keep_dims: bool = False, separator: Any = "") -> Any:
    array, order = texts(x), [a % max(1, texts(x).ndim) for a in ints(axes)]
    if len(set(order)) < len(order) or any(not -array.ndim <= a < array.ndim for a in ints(axes)):
        raise InvalidArgumentError(f"ReduceJoin: axes {ints(axes)} are no different axes of shape {array.shape}")
    kept = [a for a in range(array.ndim) if a not in order]
    if not order:
        return array
    sizes = [array.shape[a] for a in kept] + [math.prod(array.shape[a] for a in order)]
    moved = np.ascontiguousarray(array.transpose(kept + order[::-1]).reshape(sizes))
    rows, width = moved.reshape(math.prod(sizes[:-1]), sizes[-1]), sizes[-1]
    flat = joined([rows.reshape(-1)[i:] for i in range(width)], [width] * width, len(rows), as_bytes(separator))
    if flat is None:
        flat = np.fromiter(map(as_bytes(separator).join, rows.tolist()), object, len(rows))
    out = flat.reshape(sizes[:-1])
    return out.reshape([1 if a in order else n for a, n in enumerate(array.shape)]) if keep_dims else out


prepares(join_texts.prepare, "ReduceJoin", "StringJoin")
