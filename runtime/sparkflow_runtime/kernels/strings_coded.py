"""Kernels of strings in other encodings and as base64, and joined by segments."""

from __future__ import annotations

import base64
import binascii
import math
import re
from itertools import pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import base64_loops
from sparkflow_runtime.kernels.host import host, one_int
from sparkflow_runtime.kernels.registry import on_host, prepares
from sparkflow_runtime.kernels.strings import each, texts
from sparkflow_runtime.wire.errors import InvalidArgumentError

_CONTROLS = re.compile(r"[\x00-\x1f]")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


@on_host("UnicodeTranscode")
def _transcode(
    xp: Any, x: Any, *, input_encoding: Any, output_encoding: Any, errors: Any = "replace",
    replacement_char: int = 65533, replace_control_characters: bool = False,
) -> Any:  # fmt: skip
    source, target, manner = _text(input_encoding), _text(output_encoding).lower(), _text(errors)
    if manner not in ("replace", "ignore", "strict"):
        raise InvalidArgumentError(f"UnicodeTranscode: errors must be replace, ignore or strict, got {manner!r}")
    other = "" if manner == "ignore" else chr(replacement_char)

    def one(raw: bytes) -> bytes:
        try:
            found = raw.decode(source, manner)
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"UnicodeTranscode: {raw[:40]!r} is no {source}: {error}") from None
        except LookupError:
            raise InvalidArgumentError(f"UnicodeTranscode: {source!r} is no encoding that is known") from None
        found = found.replace("\ufffd", other) if manner == "replace" and other != "\ufffd" else found
        return (_CONTROLS.sub(other, found) if replace_control_characters else found).encode(target)

    return each(x, one)


# ---------------------------------------------------------------------- base64


_URL = bytes.maketrans(b"+/", b"-_")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9_\-]")


@on_host("EncodeBase64")
def _encode(xp: Any, x: Any, *, pad: bool = False) -> Any:
    array = texts(x)
    found = base64_loops.encoded(array, pad)
    return each(array, _encoded_one if pad else _encoded_plain) if found is None else found


def _encoded_one(s: bytes) -> bytes:
    return binascii.b2a_base64(s, newline=False).translate(_URL)


def _encoded_plain(s: bytes) -> bytes:
    return binascii.b2a_base64(s, newline=False).translate(_URL, b"=")


@on_host("DecodeBase64")
def _decode(xp: Any, x: Any) -> Any:
    array = texts(x)
    found = base64_loops.decoded(array)
    return each(array, _decoded_one) if found is None else found


def _decoded_one(s: bytes) -> bytes:
    """With what fills the last four letters up, or without."""
    letters = s.rstrip(b"=")
    try:
        if _NOT_BASE64.search(letters):
            raise binascii.Error("a character that base64 does not have")
        missing = -len(letters) % 4
        if missing == 3 or len(s) - len(letters) not in (0, missing):
            raise binascii.Error(f"{len(letters)} letters and {len(s) - len(letters)} times '='")
        return base64.urlsafe_b64decode(letters + b"=" * missing)
    except binascii.Error as error:
        raise InvalidArgumentError(f"DecodeBase64: Invalid character found in base64: {s[:40]!r} ({error})") from None


prepares(base64_loops.encode.prepare, "EncodeBase64")
prepares(base64_loops.decode.prepare, "DecodeBase64")


# ---------------------------------------------------------------------- by segments


def _joined(parts: list[bytes], between: bytes) -> bytes:
    """As TensorFlow joins: nothing stands between empty strings at the beginning and what follows."""
    if parts and not parts[0]:
        parts = parts[next((i for i, part in enumerate(parts) if part), len(parts)) :]
    return between.join(parts)


@on_host("UnsortedSegmentJoin")
def _join(xp: Any, x: Any, ids: Any, count: Any, *, separator: Any = "") -> Any:
    strings, owners, total = texts(x), host(ids), one_int(count)
    if strings.shape[: owners.ndim] != owners.shape or total < 0:
        raise InvalidArgumentError(
            f"UnsortedSegmentJoin: segment_ids must be the first axes of inputs, got {list(owners.shape)} and "
            f"{list(strings.shape)}, num_segments {total}"
        )
    if owners.size and int(owners.max()) >= total:
        raise InvalidArgumentError(f"UnsortedSegmentJoin: segment id {owners.max()} is not below {total}")
    width = math.prod(strings.shape[owners.ndim :])
    rows, own = strings.reshape(owners.size, width), owners.reshape(-1)
    order = np.argsort(own, kind="stable")
    order = order[np.searchsorted(own[order], 0) :]  # rows of negative ids count for nothing
    segments, starts = np.unique(own[order], return_index=True)
    out = np.full((total, width), b"", object)
    between, spans = _text(separator).encode(), list(pairwise([*starts.tolist(), len(order)]))
    for k, column in enumerate(rows[order].T):
        parts = column.tolist()
        found = (_joined(parts[start:end], between) for start, end in spans)
        out[segments, k] = np.fromiter(found, object, len(segments))
    return out.reshape(total, *strings.shape[owners.ndim :])
