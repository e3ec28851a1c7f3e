"""Kernels between strings and their code points, and of JSON Examples."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from google.protobuf import json_format

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import on_host, prepares
from sparkflow_runtime.kernels.strings import each, texts
from sparkflow_runtime.kernels.text_makers import make_texts, texts_of
from sparkflow_runtime.wire.dtypes import DType, int64
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.example_proto import Example

_MANNERS = ("replace", "ignore", "strict")
_UTF_8 = ("utf-8", "utf8")
_BROKEN = "sparkflow.broken"
_BASE64 = re.compile("[A-Za-z0-9+/_-]*={0,2}")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _manner(op: str, errors: Any) -> str:
    manner = _text(errors)
    if manner not in _MANNERS:
        raise InvalidArgumentError(f"{op}: errors must be replace, ignore or strict, got {manner!r}")
    return manner


def _mark(error: UnicodeError) -> tuple[str, int]:
    """For what could not be decoded a sign that no text has, with the number of bytes in the next one."""
    assert isinstance(error, UnicodeDecodeError)
    return f"\udc00{chr(error.end - error.start)}", error.end


codecs.register_error(_BROKEN, _mark)


def _points(raw: bytes, encoding: str) -> Iterator[tuple[int, int]]:
    """(code point or -1 where bytes are none, where its bytes begin)."""
    at, found = 0, iter(raw.decode(encoding, _BROKEN))
    for character in found:
        if character == "\udc00":
            yield -1, at
            at += ord(next(found))
        else:
            yield ord(character), at
            at += len(character.encode(encoding))


def _decoded(
    op: str, x: Any, input_encoding: Any, errors: Any, replacement_char: int, replace_control_characters: bool
) -> tuple[Any, Any, Any]:
    """(row splits, code points, offsets)."""
    encoding, manner = _text(input_encoding), _manner(op, errors)
    encoding = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}.get(encoding.lower(), encoding)
    if encoding.lower() in _UTF_8:
        found = _well_formed(texts(x).reshape(-1).tolist())
        if found is not None and not (replace_control_characters and bool((found[1] < 32).any())):
            return found
    splits, values, offsets = [0], list[int](), list[int]()
    for raw in texts(x).reshape(-1).tolist():
        try:
            for point, at in _points(raw, encoding):
                wrong = point < 0 or (replace_control_characters and point < 32)
                if wrong and manner == "strict":
                    raise InvalidArgumentError(
                        f"{op}: Invalid formatting on input string, at byte {at} of {raw[:40]!r}"
                    )
                if not wrong or manner == "replace":
                    values.append(replacement_char if wrong else point)
                    offsets.append(at)
        except LookupError:
            raise InvalidArgumentError(f"{encoding!r} is no encoding that is known here") from None
        splits.append(len(values))
    return splits, values, offsets


def _well_formed(flat: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The same of strings that are all UTF-8, in one go; None of others."""
    whole = b"".join(flat)
    try:
        points = np.frombuffer(whole.decode().encode("utf-32-le"), np.int32)
    except UnicodeDecodeError:
        return None
    lengths = np.fromiter(map(len, flat), np.int64, len(flat))
    ends, begins = np.cumsum(lengths), np.frombuffer(whole, np.uint8) & 192 != 128
    starts = ends - lengths
    if not begins[starts[lengths > 0]].all():  # a character lies in two strings
        return None
    at = np.flatnonzero(begins)
    splits = np.concatenate([[0], np.searchsorted(at, ends)])
    return splits, points, at - np.repeat(starts, np.diff(splits))


@on_host("UnicodeDecode", multi=True)
def _decode(
    xp: Any, x: Any, *, input_encoding: Any, errors: Any = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, Tsplits: DType = int64,
) -> Any:  # fmt: skip
    found = _decoded("UnicodeDecode", x, input_encoding, errors, replacement_char, replace_control_characters)
    return [np.array(found[0], Tsplits.np), np.array(found[1], np.int32)]


@on_host("UnicodeDecodeWithOffsets", multi=True)
def _decode_with_offsets(
    xp: Any, x: Any, *, input_encoding: Any, errors: Any = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, Tsplits: DType = int64,
) -> Any:  # fmt: skip
    op = "UnicodeDecodeWithOffsets"
    splits, values, offsets = _decoded(op, x, input_encoding, errors, replacement_char, replace_control_characters)
    return [np.array(splits, Tsplits.np), np.array(values, np.int32), np.array(offsets, np.int64)]


def _is_character(point: int) -> bool:
    """In Unicode's range, and no half of a pair of UTF-16."""
    return 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF


def _encoded(points: np.ndarray, splits: np.ndarray) -> np.ndarray | None:
    """Rows of code points as UTF-8, in one go; None where one is no character, or a row is none."""
    if not points.size or not splits.size or splits[0] != 0 or splits[-1] != points.size:
        return None
    if bool((splits[1:] < splits[:-1]).any()) or points.min() < 0 or points.max() > 0x10FFFF:
        return None
    try:
        whole = points.astype("<i4").tobytes().decode("utf-32-le").encode()
    except UnicodeError:  # half of a pair of UTF-16
        return None
    sizes = 1 + (points >= 1 << 7).astype(np.int64) + (points >= 1 << 11) + (points >= 1 << 16)
    ends = np.concatenate([[0], np.cumsum(sizes)])[splits]
    return texts_of(np.frombuffer(whole, np.uint8), np.stack([ends[:-1], ends[1:]], 1))


@on_host("UnicodeEncode")
def _encode(
    xp: Any, values: Any, splits: Any, *, output_encoding: Any, errors: Any = "replace", replacement_char: int = 65533
) -> Any:
    target, manner = _text(output_encoding).lower(), _manner("UnicodeEncode", errors)
    quick = _encoded(host(values), host(splits)) if target in _UTF_8 else None
    if quick is not None:
        return quick
    points, ends = host(values).tolist(), host(splits).tolist()
    if not ends or ends[0] != 0 or ends[-1] != len(points) or any(a > b for a, b in pairwise(ends)):
        raise InvalidArgumentError(
            f"UnicodeEncode: input_splits must begin with 0, not decrease and end with the number of values, "
            f"{len(points)}, got {ends[:8]}"
        )
    kept = []
    for point in points:
        if _is_character(point):
            kept.append(chr(point))
        elif manner == "strict":
            raise InvalidArgumentError(
                f"UnicodeEncode: Code point is out of range for Unicode, or a noncharacter: {point}"
            )
        else:
            kept.append(chr(replacement_char) if manner == "replace" else "")
    out = np.empty(len(ends) - 1, object)
    out[:] = ["".join(kept[a:b]).encode(target) for a, b in pairwise(ends)]
    return out


@on_host("DecodeJSONExample")
def _decode_json(xp: Any, x: Any) -> Any:
    def one(text: bytes) -> bytes:
        try:
            found = json_format.Parse(text, Example()).SerializeToString(deterministic=True)
            _check_json(json.loads(text))
        except (ValueError, json_format.ParseError) as error:
            raise InvalidArgumentError(f"this is no Example as JSON: {text[:60]!r}: {error}") from None
        return bytes(found)

    return each(x, one)


def _check_json(found: Any) -> None:
    """Raises ValueError on what protobuf's Python takes for nothing: a list, and letters that are not base64."""
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__} and no object")
    features = ((found.get("features") or {}).get("feature") or {}).values()
    for held in (feature[key] for feature in features for key in ("bytesList", "bytes_list") if key in feature):
        for value in (held or {}).get("value") or ():
            if not _BASE64.fullmatch(value):
                raise ValueError(f"{value[:60]!r} is no base64")


prepares(make_texts.prepare, "UnicodeEncode")
