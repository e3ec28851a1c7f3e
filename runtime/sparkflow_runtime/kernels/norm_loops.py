"""The hot loops of batch normalisation: over rows of channels, a few rows at a time.

The channels' vectors are repeated until one holds a piece of some hundred elements, so that the inner loops are long.
Sums go over blocks of pieces in their order, and the blocks are added in double precision: that loses less than one
long sum, and threads may share the blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.exp_loops import in_parts
from sparkflow_runtime.kernels.memory import address

_PIECE, _PIECES = 512, 64  # elements of a piece, pieces of a block
_IN = "Array(float32, 1, 'C', readonly=True)"
_SUMS = "float32[:,::1]"
_NO_LIMITS = np.full(2, np.nan, np.float32)


def takes(*arrays: Any) -> bool:
    return all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in arrays) and arrays[0].size > 0


class Pieces:
    """rows [cells, channels] of what `takes`, as a flat array, and vectors of its channels as pieces."""

    def __init__(self, rows: np.ndarray):
        self.count, self.channels = rows.shape
        self.times = max(1, min(_PIECE // self.channels, self.count))
        self.size = self.times * self.channels
        self.pieces = -(-rows.size // self.size)
        self.blocks = -(-self.pieces // _PIECES)

    def of(self, vector: np.ndarray) -> np.ndarray:
        out = np.empty((self.times, self.channels), np.float32)
        out[:] = vector
        return out.reshape(-1)

    def sums(self) -> np.ndarray:
        return np.zeros((self.blocks, self.size), np.float32)

    def added(self, sums: np.ndarray) -> np.ndarray:
        """Of each channel, in double precision."""
        return sums.reshape(-1, self.channels).sum(0, dtype=np.float64)


def moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, variance of the rows themselves) of each channel."""
    pieces, flat = Pieces(rows), rows.reshape(-1)
    sums = pieces.sums()
    in_parts(block_sums, pieces.blocks, pieces.size * _PIECES, flat, sums)
    mean = (pieces.added(sums) / len(rows)).astype(np.float32)
    sums[:] = 0
    in_parts(block_squares, pieces.blocks, pieces.size * _PIECES, flat, pieces.of(mean), sums)
    return mean, (pieces.added(sums) / len(rows)).astype(np.float32)


def normalised(
    rows: np.ndarray,
    mean: np.ndarray,
    inverse: np.ndarray,
    offset: np.ndarray,
    out: np.ndarray | None = None,
    limits: np.ndarray = _NO_LIMITS,
) -> np.ndarray:
    """(rows - mean) * inverse + offset within limits (nn_loops.limits); out: an array for it, or rows itself."""
    pieces = Pieces(rows)
    vectors = [*(pieces.of(v) for v in (mean, inverse, offset)), limits]
    if out is rows:
        in_parts(normalise_own, pieces.pieces, pieces.size, rows.reshape(-1), *vectors)
        return rows
    out = np.empty_like(rows) if out is None else out
    in_parts(normalise, pieces.pieces, pieces.size, rows.reshape(-1), *vectors, out.reshape(-1))
    return out


def shifted(rows: np.ndarray, offset: np.ndarray, out: np.ndarray, limits: np.ndarray = _NO_LIMITS) -> None:
    """out = rows + offset within limits (nn_loops.limits); out may be the memory of rows."""
    pieces = Pieces(rows)
    if address(out) == address(rows):
        in_parts(shift_own, pieces.pieces, pieces.size, out.reshape(-1), pieces.of(offset), limits)
    else:
        in_parts(shift, pieces.pieces, pieces.size, rows.reshape(-1), pieces.of(offset), limits, out.reshape(-1))


def prepare_shifts() -> None:
    shift.prepare()
    shift_own.prepare()


def gradient_sums(
    up: np.ndarray, rows: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sums of up and of up * (rows - mean) * inverse."""
    pieces = Pieces(rows)
    plain, scaled, vectors = pieces.sums(), pieces.sums(), [pieces.of(v) for v in (mean, inverse)]
    flat = up.reshape(-1), rows.reshape(-1)
    in_parts(block_products, pieces.blocks, pieces.size * _PIECES, *flat, *vectors, plain, scaled)
    return pieces.added(plain).astype(np.float32), pieces.added(scaled).astype(np.float32)


def gradient(up: np.ndarray, rows: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
    """(up - ((rows - mean) * slope + shift)) * factor, for those four vectors."""
    pieces, out = Pieces(rows), np.empty_like(rows)
    flat = up.reshape(-1), rows.reshape(-1)
    in_parts(descend, pieces.pieces, pieces.size, *flat, *[pieces.of(v) for v in vectors], out.reshape(-1))
    return out


@compiled([f"void({_IN}, {_SUMS}, int64, int64)"])
def block_sums(x: Any, sums: Any, start: Any, stop: Any) -> None:
    size = sums.shape[1]
    for b in range(start, stop):
        for first in range(b * _PIECES * size, min((b + 1) * _PIECES * size, x.shape[0]), size):
            for k in range(np.uint64(min(size, x.shape[0] - first))):
                sums[b, k] += x[np.uint64(first) + k]


@block_sums.otherwise
def _(x: Any, sums: Any, start: Any, stop: Any) -> None:
    for b, piece, part in _pieces(x.size, sums, start, stop):
        sums[b, part] += x[piece]


def _pieces(count: int, sums: np.ndarray, start: int, stop: int) -> Any:
    size = sums.shape[1]
    for b in range(start, stop):
        for first in range(b * _PIECES * size, min((b + 1) * _PIECES * size, count), size):
            length = min(size, count - first)
            yield b, slice(first, first + length), slice(0, length)


@compiled([f"void({_IN}, {_IN}, {_SUMS}, int64, int64)"])
def block_squares(x: Any, mean: Any, sums: Any, start: Any, stop: Any) -> None:
    size = sums.shape[1]
    for b in range(start, stop):
        for first in range(b * _PIECES * size, min((b + 1) * _PIECES * size, x.shape[0]), size):
            for k in range(np.uint64(min(size, x.shape[0] - first))):
                d = x[np.uint64(first) + k] - mean[k]
                sums[b, k] += d * d


@block_squares.otherwise
def _(x: Any, mean: Any, sums: Any, start: Any, stop: Any) -> None:
    for b, piece, part in _pieces(x.size, sums, start, stop):
        sums[b, part] += np.square(x[piece] - mean[part])


@compiled([f"void({_IN}, {_IN}, {_IN}, {_IN}, {_SUMS}, {_SUMS}, int64, int64)"])
def block_products(up: Any, x: Any, mean: Any, inverse: Any, plain: Any, scaled: Any, start: Any, stop: Any) -> None:
    size = plain.shape[1]
    for b in range(start, stop):
        for first in range(b * _PIECES * size, min((b + 1) * _PIECES * size, x.shape[0]), size):
            for k in range(np.uint64(min(size, x.shape[0] - first))):
                one = up[np.uint64(first) + k]
                plain[b, k] += one
                scaled[b, k] += one * ((x[np.uint64(first) + k] - mean[k]) * inverse[k])


@block_products.otherwise
def _(up: Any, x: Any, mean: Any, inverse: Any, plain: Any, scaled: Any, start: Any, stop: Any) -> None:
    for b, piece, part in _pieces(x.size, plain, start, stop):
        plain[b, part] += up[piece]
        scaled[b, part] += up[piece] * ((x[piece] - mean[part]) * inverse[part])


def within(x: Any, least: Any, most: Any) -> Any:
    held = least if x <= least else x
    return most if held >= most else held


def _held(x: np.ndarray, limits: np.ndarray) -> np.ndarray:
    held = np.where(x <= limits[0], limits[0], x)
    return np.where(held >= limits[1], limits[1], held)


@compiled([f"void({', '.join([_IN] * 5)}, float32[::1], int64, int64)"], parts=[within])
def normalise(x: Any, mean: Any, inverse: Any, offset: Any, limits: Any, out: Any, start: Any, stop: Any) -> None:
    size, least, most = mean.shape[0], limits[0], limits[1]
    for first in range(start * size, min(stop * size, x.shape[0]), size):
        for k in range(np.uint64(min(size, x.shape[0] - first))):
            at = np.uint64(first) + k
            out[at] = within((x[at] - mean[k]) * inverse[k] + offset[k], least, most)


@normalise.otherwise
def _(x: Any, mean: Any, inverse: Any, offset: Any, limits: Any, out: Any, start: Any, stop: Any) -> None:
    size = mean.size
    for first in range(start * size, min(stop * size, x.size), size):
        at = slice(first, min(first + size, x.size))
        part = slice(0, at.stop - at.start)
        out[at] = _held((x[at] - mean[part]) * inverse[part] + offset[part], limits)


@compiled([f"void(float32[::1], {', '.join([_IN] * 4)}, int64, int64)"], parts=[within])
def normalise_own(out: Any, mean: Any, inverse: Any, offset: Any, limits: Any, start: Any, stop: Any) -> None:
    """In the memory of the input: nn_loops.py says why apart."""
    size, least, most = mean.shape[0], limits[0], limits[1]
    for first in range(start * size, min(stop * size, out.shape[0]), size):
        for k in range(np.uint64(min(size, out.shape[0] - first))):
            at = np.uint64(first) + k
            out[at] = within((out[at] - mean[k]) * inverse[k] + offset[k], least, most)


@normalise_own.otherwise
def _(out: Any, mean: Any, inverse: Any, offset: Any, limits: Any, start: Any, stop: Any) -> None:
    normalise.numpy(out, mean, inverse, offset, limits, out, start, stop)


@compiled([f"void({_IN}, {_IN}, {_IN}, float32[::1], int64, int64)"], parts=[within])
def shift(x: Any, offset: Any, limits: Any, out: Any, start: Any, stop: Any) -> None:
    size, least, most = offset.shape[0], limits[0], limits[1]
    for first in range(start * size, min(stop * size, x.shape[0]), size):
        for k in range(np.uint64(min(size, x.shape[0] - first))):
            at = np.uint64(first) + k
            out[at] = within(x[at] + offset[k], least, most)


@shift.otherwise
def _(x: Any, offset: Any, limits: Any, out: Any, start: Any, stop: Any) -> None:
    size = offset.size
    for first in range(start * size, min(stop * size, x.size), size):
        at = slice(first, min(first + size, x.size))
        out[at] = _held(x[at] + offset[: at.stop - at.start], limits)


@compiled([f"void(float32[::1], {_IN}, {_IN}, int64, int64)"], parts=[within])
def shift_own(out: Any, offset: Any, limits: Any, start: Any, stop: Any) -> None:
    size, least, most = offset.shape[0], limits[0], limits[1]
    for first in range(start * size, min(stop * size, out.shape[0]), size):
        for k in range(np.uint64(min(size, out.shape[0] - first))):
            at = np.uint64(first) + k
            out[at] = within(out[at] + offset[k], least, most)


@shift_own.otherwise
def _(out: Any, offset: Any, limits: Any, start: Any, stop: Any) -> None:
    shift.numpy(out, offset, limits, out, start, stop)


@compiled([f"void({', '.join([_IN] * 6)}, float32[::1], int64, int64)"])
def descend(up: Any, x: Any, mean: Any, slope: Any, shift: Any, factor: Any, out: Any, start: Any, stop: Any) -> None:
    size = mean.shape[0]
    for first in range(start * size, min(stop * size, x.shape[0]), size):
        for k in range(np.uint64(min(size, x.shape[0] - first))):
            at = np.uint64(first) + k
            out[at] = (up[at] - ((x[at] - mean[k]) * slope[k] + shift[k])) * factor[k]


@descend.otherwise
def _(up: Any, x: Any, mean: Any, slope: Any, shift: Any, factor: Any, out: Any, start: Any, stop: Any) -> None:
    size = mean.size
    for first in range(start * size, min(stop * size, x.size), size):
        at = slice(first, min(first + size, x.size))
        part = slice(0, at.stop - at.start)
        out[at] = (up[at] - ((x[at] - mean[part]) * slope[part] + shift[part])) * factor[part]


@compiled(["void(Array(float32, 2, 'C', readonly=True), float32[:,::1], int64)"])
def window_sums(x: Any, out: Any, radius: Any) -> None:
    """out = of each number of a row the sum over those that are up to radius away."""
    channels = x.shape[1]
    for r in range(x.shape[0]):
        given, made = x[r], out[r]
        for c in range(np.uint64(channels)):
            made[c] = given[c]
        for shift in range(1, min(radius, channels - 1) + 1):
            by, kept = np.uint64(shift), np.uint64(channels - shift)
            for c in range(kept):
                made[c + by] += given[c]
            for c in range(kept):
                made[c] += given[c + by]


@window_sums.otherwise
def _(x: Any, out: Any, radius: Any) -> None:
    out[:] = x
    for shift in range(1, min(radius, x.shape[1] - 1) + 1):
        out[:, shift:] += x[:, :-shift]
        out[:, :-shift] += x[:, shift:]
