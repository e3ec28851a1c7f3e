"""PNG files of whole bytes, read without Pillow: its reader takes three times as long.

Anything else (palettes, transparency, 16 bits, interlaced, damaged, very large) is left to it, and so are errors.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.png_loops import unfiltered

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXEL = {0: 1, 2: 3, 4: 2, 6: 4}  # colour type -> bytes
_MOST_PIXELS = 1 << 26  # of larger ones Pillow warns, as they may be bombs
_CHANNELS = {(1, 3), (4, 3)}  # besides the same: grey repeated, without transparency


def read(raw: bytes, channels: int) -> Any:
    """The image [height, width, channels (0: its own)] of uint8, or None: ask Pillow."""
    chunks = _chunks(raw)
    if chunks is None:
        return None
    width, height, bits, colour, method, filters, interlaced = struct.unpack(">IIBBBBB", chunks[0])
    pixel = _PIXEL.get(colour, 0)
    if bits != 8 or not pixel or method or filters or interlaced or not 0 < width * height <= _MOST_PIXELS:
        return None
    if channels not in (0, pixel) and (pixel, channels) not in _CHANNELS:
        return None
    out = np.empty((height + 1, width * pixel), np.uint8)
    out[0] = 0
    stored = _inflated(chunks[1], height * (1 + width * pixel))
    if stored is None or not unfiltered(np.frombuffer(stored, np.uint8), out, pixel):
        return None
    image = out[1:].reshape(height, width, pixel)
    if channels in (0, pixel):
        return image
    return np.repeat(image, 3, 2) if pixel == 1 else np.ascontiguousarray(image[:, :, :3])


def _chunks(raw: bytes) -> tuple[bytes, bytes] | None:
    """The header and the compressed rows; None where the file ends early or has a chunk that changes its colours."""
    if not raw.startswith(_SIGNATURE):
        return None
    at, header = len(_SIGNATURE), b""
    parts: list[bytes] = []
    while True:
        if at + 12 > len(raw):
            return None
        size, kind = struct.unpack_from(">I4s", raw, at)
        at += 12 + size
        if kind == b"IEND":
            return (header, parts[0] if len(parts) == 1 else b"".join(parts)) if header and parts else None
        if at > len(raw) or kind == b"tRNS" or (kind[:1].isupper() and kind not in (b"IHDR", b"IDAT")):
            return None
        if kind == b"IDAT":
            parts.append(raw[at - 4 - size : at - 4])
        elif kind == b"IHDR":
            header = raw[at - 4 - size : at - 4]
            if size != 13 or zlib.crc32(kind + header) != struct.unpack_from(">I", raw, at - 4)[0]:
                return None


def _inflated(data: bytes, size: int) -> bytes | None:
    """What was compressed, if it is of that size; zlib has its checksum in it."""
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(data, size)
        found += inflate.decompress(inflate.unconsumed_tail, 1) if not inflate.eof else b""
    except zlib.error:
        return None
    return found if len(found) == size and inflate.eof else None
