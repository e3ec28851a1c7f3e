"""Normalisation of a small batch, and its gradient, in one loop each.

Where a batch is small, Python's way from one loop of norm_loops.py to the next takes longer than they do. The bits are
theirs: the same pieces, blocks of pieces, and sums of blocks in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels import norm_loops
from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.norm_loops import (
    Pieces,
    block_products,
    block_squares,
    block_sums,
    descend,
    normalise,
    within,
)
from sparkflow_runtime.kernels.parallel import scratch

_MOST = 1 << 16  # elements, from which on threads share the pieces
_VECTOR, _SUMS = "float32[::1]", "float32[:,::1]"
_IN = "Array(float32, 1, 'C', readonly=True)"
_NO_LIMITS = np.full(2, np.nan, np.float32)


def prepare() -> None:
    forward.prepare()
    backward.prepare()


def takes(*rows: np.ndarray) -> bool:
    """Whether they, [cells, channels] of float32, are to be normalised so; of one channel numpy adds in pairs."""
    return 1 < rows[0].size < _MOST and rows[0].shape[1] > 1 and all(x.flags.c_contiguous for x in rows)


def normalised(
    rows: np.ndarray, scale: np.ndarray, offset: np.ndarray, epsilon: Any, ratio: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """((rows - mean) * scale / sqrt(variance + epsilon) + offset, mean, variance, variance * ratio)."""
    pieces, y = Pieces(rows), np.empty_like(rows)
    sums, held = _room(pieces, 1, 3)
    mean, variance, more = (np.empty(pieces.channels, np.float32) for _ in range(3))
    flat = rows.reshape(-1), np.ascontiguousarray(scale), np.ascontiguousarray(offset)
    numbers = np.array([epsilon, ratio], np.float32)
    forward(*flat, numbers, _NO_LIMITS, sums, held, mean, variance, more, y.reshape(-1))
    return y, mean, variance, more


def gradients(
    up: np.ndarray, rows: np.ndarray, scale: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(of rows, of scale, of offset)."""
    pieces, dx = Pieces(rows), np.empty_like(rows)
    sums, held = _room(pieces, 2, 4)
    dscale, doffset = (np.empty(pieces.channels, np.float32) for _ in range(2))
    vectors = map(np.ascontiguousarray, (scale, mean, variance))
    numbers = np.array([epsilon], np.float32)
    backward(up.reshape(-1), rows.reshape(-1), *vectors, numbers, *sums, held, dscale, doffset, dx.reshape(-1))
    return dx, dscale, doffset


def _room(pieces: Pieces, sums: int, vectors: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory of this thread for so many sums of blocks, and for vectors as pieces."""
    shape = (pieces.blocks, pieces.size)
    held = scratch("norm's vectors", (vectors, pieces.size))
    return scratch("norm's sums", shape if sums == 1 else (sums, *shape)), held


def clear(sums: Any) -> None:
    for b in range(sums.shape[0]):
        for k in range(np.uint64(sums.shape[1])):
            sums[b, k] = np.float32(0)


def added(sums: Any, c: Any, channels: Any) -> Any:
    """Of a channel, in double precision."""
    total = 0.0
    for b in range(sums.shape[0]):
        for at in range(c, sums.shape[1], channels):
            total += np.float64(sums[b, at])
    return total


def repeat(vector: Any, piece: Any) -> None:
    for first in range(0, piece.shape[0], vector.shape[0]):
        for k in range(np.uint64(vector.shape[0])):
            piece[np.uint64(first) + k] = vector[k]


@compiled(
    [f"void({', '.join([_IN] * 5)}, {_SUMS}, {_SUMS}, {', '.join([_VECTOR] * 4)})"],
    parts=[within, block_sums.loop, block_squares.loop, normalise.loop, clear, added, repeat],
)
def forward(
    x: Any,
    scale: Any,
    offset: Any,
    numbers: Any,
    limits: Any,
    sums: Any,
    held: Any,
    mean: Any,
    variance: Any,
    more: Any,
    y: Any,
) -> None:
    channels, blocks = mean.shape[0], sums.shape[0]
    cells, pieces = x.shape[0] // channels, (x.shape[0] + sums.shape[1] - 1) // sums.shape[1]
    clear(sums)
    block_sums(x, sums, 0, blocks)
    for c in range(channels):
        mean[c] = added(sums, c, channels) / cells
    repeat(mean, held[0])
    clear(sums)
    block_squares(x, held[0], sums, 0, blocks)
    for c in range(channels):
        variance[c] = added(sums, c, channels) / cells
        more[c] = scale[c] / np.sqrt(variance[c] + numbers[0])
    repeat(more, held[1])
    repeat(offset, held[2])
    normalise(x, held[0], held[1], held[2], limits, y, 0, pieces)
    for c in range(channels):
        more[c] = variance[c] * numbers[1]


@forward.otherwise
def _(x: Any, scale: Any, offset: Any, numbers: Any, *room: Any) -> None:
    epsilon, ratio = numbers
    *_, mean, variance, more, y = room
    rows = x.reshape(-1, mean.size)
    mean[:], variance[:] = norm_loops.moments(rows)
    more[:] = variance * ratio
    inverse = scale / np.sqrt(variance + epsilon)
    norm_loops.normalised(rows, mean, inverse, offset, y.reshape(rows.shape))


@compiled(
    [f"void({', '.join([_IN] * 6)}, {', '.join([_SUMS] * 3)}, {', '.join([_VECTOR] * 3)})"],
    parts=[block_products.loop, descend.loop, clear, added, repeat],
)
def backward(
    up: Any,
    x: Any,
    scale: Any,
    mean: Any,
    variance: Any,
    numbers: Any,
    plain: Any,
    scaled: Any,
    held: Any,
    dscale: Any,
    doffset: Any,
    dx: Any,
) -> None:
    channels, size = mean.shape[0], plain.shape[1]
    count, pieces = np.float32(x.shape[0] // channels), (x.shape[0] + size - 1) // size
    for c in range(channels):
        dscale[c] = np.float32(1) / np.sqrt(variance[c] + numbers[0])
    repeat(mean, held[0])
    repeat(dscale, held[1])
    clear(plain)
    clear(scaled)
    block_products(up, x, held[0], held[1], plain, scaled, 0, plain.shape[0])
    for c in range(channels):
        inverse = dscale[c]
        doffset[c] = added(plain, c, channels)
        dscale[c] = added(scaled, c, channels)
        held[1, c] = dscale[c] / count * inverse
        held[2, c] = doffset[c] / count
        held[3, c] = scale[c] * inverse
    for v in range(1, 4):
        repeat(held[v, :channels], held[v])
    descend(up, x, held[0], held[1], held[2], held[3], dx, 0, pieces)


@backward.otherwise
def _(up: Any, x: Any, scale: Any, mean: Any, variance: Any, numbers: Any, *room: Any) -> None:
    *_, dscale, doffset, dx = room
    rows, ups = x.reshape(-1, mean.size), up.reshape(-1, mean.size)
    inverse, count = np.float32(1) / np.sqrt(variance + numbers[0]), np.float32(len(rows))
    doffset[:], dscale[:] = norm_loops.gradient_sums(ups, rows, mean, inverse)
    held = mean, dscale / count * inverse, doffset / count, scale * inverse
    dx.reshape(rows.shape)[:] = norm_loops.gradient(ups, rows, *held)
