"""PNG files read without Pillow: the same bytes as Pillow's, or nothing, and then Pillow is asked."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import png, png_loops

Image = pytest.importorskip("PIL.Image")
COLOURS = {"L": (0, 1), "LA": (4, 2), "RGB": (2, 3), "RGBA": (6, 4)}


@pytest.fixture(autouse=True)
def _compiled() -> None:
    png_loops.unfiltered.compile()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def file_of(rows: list[bytes], width: int, colour: int, *more: bytes, bits: int = 8, parts: int = 1) -> bytes:
    """rows: as they are stored, with their filter."""
    header = struct.pack(">IIBBBBB", width, len(rows), bits, colour, 0, 0, 0)
    data = zlib.compress(b"".join(rows))
    cut = -(-len(data) // parts)
    inside = [chunk(b"IDAT", data[at : at + cut]) for at in range(0, len(data), cut)]
    return b"".join([b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header), *more, *inside, chunk(b"IEND", b"")])


def by_pillow(raw: bytes, mode: str) -> Any:
    image = Image.open(io.BytesIO(raw))
    array = np.asarray(image if image.mode == mode else image.convert(mode))
    return array if array.ndim == 3 else array[:, :, None]


@pytest.mark.parametrize("mode", COLOURS)
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (17, 40)])
def test_every_filter(mode: str, size: tuple[int, int]) -> None:
    """Random bytes in rows of random filters are an image too."""
    (colour, pixel), (width, height) = COLOURS[mode], size
    rng = np.random.default_rng(3)
    for _ in range(5):
        rows = [bytes([rng.integers(5)]) + rng.bytes(width * pixel) for _ in range(height)]
        raw = file_of(rows, width, colour, parts=int(rng.integers(1, 4)))
        found = png.read(raw, 0)
        assert found.shape == (height, width, pixel) and found.tobytes() == by_pillow(raw, mode).tobytes()
        for channels, other in ((1, "L"), (3, "RGB"), (4, "RGBA")):
            made = png.read(raw, channels)
            assert made is None or made.tobytes() == by_pillow(raw, other).tobytes()
        assert png.read(raw, 3) is not None or mode == "LA"


def test_what_pillow_reads() -> None:
    rows = [bytes([0, 1, 2, 3]), bytes([0, 4, 5, 6])]
    good = file_of(rows, 3, 0)
    assert png.read(good, 0).tolist() == [[[1], [2], [3]], [[4], [5], [6]]]
    palette = chunk(b"PLTE", bytes(range(30)))
    for raw in (
        b"", good[:20], good[:-12], good[:-30], good[:45] + b"x" + good[46:], good[:18] + b"\x09" + good[19:],
        file_of(rows, 4, 0), file_of(rows, 2, 0), file_of([b"\x07abc", b"\x00abc"], 3, 0), file_of(rows, 3, 3, palette),
        file_of(rows, 3, 0, chunk(b"tRNS", b"\x00\x01")), file_of([b"\x00ab"], 1, 0, bits=16), file_of([], 3, 0),
        file_of(rows, 3, 0, chunk(b"NEWC", b"")), b"GIF89a" + good,
    ):  # fmt: skip
        assert png.read(raw, 0) is None
    assert png.read(file_of(rows, 3, 0, chunk(b"tEXt", b"a\x00b"), chunk(b"gAMA", bytes(4))), 1) is not None
    assert png.read(file_of([b"\x00abc"], 1, 2), 1) is None  # grey out of colours has weights


@pytest.mark.parametrize("version", ["machine code", "numpy"])
def test_decode_png(graph: Any, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it; errors are Pillow's."""
    if version == "numpy":
        monkeypatch.setattr(png, "unfiltered", png_loops.unfiltered.numpy)
    raw = tf.placeholder(tf.string, [])
    rows = [bytes([4]) + np.random.default_rng(i).bytes(21) for i in range(5)]
    good = file_of(rows, 7, 2)
    with tf.Session() as session:
        for channels, mode in ((0, "RGB"), (3, "RGB"), (4, "RGBA")):
            found = session.run(tf.image.decode_png(raw, channels), {raw: good})
            np.testing.assert_array_equal(found, by_pillow(good, mode))
        grey = session.run(tf.image.decode_png(raw, 1), {raw: good})
        weights = np.array([9797, 19234, 3737]) / 2**15  # libpng's; Pillow rounds otherwise
        np.testing.assert_array_equal(grey[..., 0], np.floor(by_pillow(good, "RGB") @ weights))
        wide = session.run(tf.image.decode_png(raw, dtype=tf.uint16), {raw: good})
        np.testing.assert_array_equal(wide, by_pillow(good, "RGB").astype(np.uint16) * 257)
        for bad in (good[:60], good[:70] + b"zzzz" + good[74:], b"none"):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"DecodePng: these \d+ bytes are no image"):
                session.run(tf.image.decode_png(raw), {raw: bad})
