"""Kernels of strings in other encodings, and joined by segments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, one_int
from sparkflow_runtime.kernels.registry import on_host
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


def _joined(parts: list[bytes], between: bytes) -> bytes:
    """As TensorFlow joins: nothing stands between empty strings at the beginning and what follows."""
    first = next((i for i, part in enumerate(parts) if part), len(parts))
    return between.join(parts[first:])


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
    rows = strings.reshape(owners.size, -1)
    out = np.empty((total, rows.shape[1]), object)
    between = _text(separator).encode()
    for segment in range(total):
        own = rows[owners.reshape(-1) == segment]
        out[segment] = [_joined(column.tolist(), between) for column in own.T] if len(own) else b""
    return out.reshape(total, *strings.shape[owners.ndim :])
