"""The maps of Winograd's F(4 x 4, 3 x 3) and the loops that take them over tiles and filters.

A map is a few sums along one axis of a tile, and is used along both; the five maps are written once, for the loops as
for their numpy versions. The points are 0, +-3/4, +-3/2 and infinity: with the usual 0, +-1, +-2 the largest error is
four times as large. Sources: Lavin and Gray 2016, s. 4.1; on points, Barabasz et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import Stack, compiled

_A, _B = np.float32(3 / 4), np.float32(3 / 2)  # the points; then their squares and cubes
_A2, _B2, _A3, _B3 = np.float32(9 / 16), np.float32(9 / 4), np.float32(27 / 64), np.float32(27 / 8)
_SUM, _PRODUCT = np.float32(45 / 16), np.float32(81 / 64)  # of the squares
_F0, _FA, _FB = np.float32(64 / 81), np.float32(-128 / 243), np.float32(32 / 243)  # what divides each point's equation
_STRIP, _NONE = (
    np.uint64(64),
    np.uint64(0),
)  # channels at a time; unsigned, or each index is asked whether it is below 0
_strip = Stack("_strip", 36, int(_STRIP))  # of a tile


# ---------------------------------------------------------------------- the maps


def inputs(d0: Any, d1: Any, d2: Any, d3: Any, d4: Any, d5: Any) -> Any:
    """B': 6 cells of an input."""
    even, odd = d4 - _B2 * d2, _A * (d3 - _B2 * d1)
    even2, odd2 = d4 - _A2 * d2, _B * (d3 - _A2 * d1)
    first, last = d4 - _SUM * d2 + _PRODUCT * d0, d5 - _SUM * d3 + _PRODUCT * d1
    return first, even + odd, even - odd, even2 + odd2, even2 - odd2, last


def outputs(m0: Any, m1: Any, m2: Any, m3: Any, m4: Any, m5: Any) -> Any:
    """A': 4 cells of an output."""
    sum1, less1, sum2, less2 = m1 + m2, m1 - m2, m3 + m4, m3 - m4
    return m0 + sum1 + sum2, _A * less1 + _B * less2, _A2 * sum1 + _B2 * sum2, _A3 * less1 + _B3 * less2 + m5


def outputs_back(d0: Any, d1: Any, d2: Any, d3: Any) -> Any:
    """A, the transpose of `outputs`."""
    even, odd, even2, odd2 = d0 + _A2 * d2, _A * d1 + _A3 * d3, d0 + _B2 * d2, _B * d1 + _B3 * d3
    return d0, even + odd, even - odd, even2 + odd2, even2 - odd2, d3


def filters(g0: Any, g1: Any, g2: Any) -> Any:
    """G: 3 cells of a filter."""
    even, odd, even2, odd2 = g0 + _A2 * g2, _A * g1, g0 + _B2 * g2, _B * g1
    return g0 * _F0, (even + odd) * _FA, (even - odd) * _FA, (even2 + odd2) * _FB, (even2 - odd2) * _FB, g2


def filters_back(m0: Any, m1: Any, m2: Any, m3: Any, m4: Any, m5: Any) -> Any:
    """G', the transpose of `filters`."""
    sum1, less1, sum2, less2 = (m1 + m2) * _FA, (m1 - m2) * _FA, (m3 + m4) * _FB, (m3 - m4) * _FB
    return m0 * _F0 + sum1 + sum2, _A * less1 + _B * less2, _A2 * sum1 + _B2 * sum2 + m5


def _twice(one: Callable[..., Any], tile: np.ndarray) -> np.ndarray:
    """A map along both of the first two axes: the second first, as in the loops."""
    rows = np.stack(one(*tile.swapaxes(0, 1)), 1)
    return np.stack(one(*rows))


def _six(tile: np.ndarray) -> np.ndarray:
    """[36, ...] as [6, 6, ...]."""
    return tile.reshape(6, 6, *tile.shape[1:])


# ---------------------------------------------------------------------- tiles of inputs and outputs

_IN = "Array(float32, {}, 'C', readonly=True)"
_TILES = f"void({_IN.format(4)}, float32[:,:,::1], int64, int64, int64, int64, int64, int64, int64)"


@compiled([_TILES], parts=[inputs, _strip])
def tiles_in(x: Any, v: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """v[:, i] = B' d B for i from start to stop, d the 6 x 6 cells of tile `first + i`.

    Tiles lie `down` by `across` over each image, 4 cells apart; `top` and `left` are the cells of padding before it."""
    _, height, width, channels = x.shape
    t = _strip()
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4 - top, place % across * 4 - left
        for c0 in range(_NONE, np.uint64(channels), _STRIP):
            some = min(_STRIP, np.uint64(channels) - c0)
            for a in range(6):
                for b in range(6):
                    h, w = h0 + a, w0 + b
                    if 0 <= h < height and 0 <= w < width:
                        for c in range(some):
                            t[6 * a + b, c] = x[n, h, w, c0 + c]
                    else:
                        for c in range(some):
                            t[6 * a + b, c] = 0
            for q in range(0, 36, 6):
                for c in range(_STRIP):
                    t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c] = inputs(
                        t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c]
                    )
            for q in range(6):
                for c in range(_STRIP):
                    t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c] = inputs(
                        t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c]
                    )
            for q in range(36):
                for c in range(some):
                    v[q, i, c0 + c] = t[q, c]


def _cells(x: np.ndarray, edge: int, first: int, count: int, down: int, across: int, top: int, left: int) -> np.ndarray:
    """[edge, edge, count, channels]: the cells of tiles, 0 outside."""
    n, row, column = np.unravel_index(np.arange(first, first + count), (1 << 40, down, across))
    out = np.zeros((edge, edge, count, x.shape[3]), x.dtype)
    for a, b in np.ndindex(edge, edge):
        h, w = row * 4 - top + a, column * 4 - left + b
        inside = (h >= 0) & (h < x.shape[1]) & (w >= 0) & (w < x.shape[2])
        out[a, b, inside] = x[n[inside], h[inside], w[inside]]
    return out


@tiles_in.otherwise
def _(x: Any, v: Any, first: Any, start: Any, stop: Any, *grid: Any) -> None:
    _six(v)[:, :, start:stop] = _twice(inputs, _cells(x, 6, first + start, stop - start, *grid))


@compiled(
    [f"void({_IN.format(3)}, float32[:,:,:,::1], int64, int64, int64, int64, int64, int64)"], parts=[outputs, _strip]
)
def tiles_out(m: Any, y: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, channel: Any) -> None:
    """The 4 x 4 cells of tile `first + i` of y, from that channel on, = A' m[:, i] A; cells outside are left out."""
    _, height, width, _ = y.shape
    channels, base = np.uint64(m.shape[2]), np.uint64(channel)
    t = _strip()
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4, place % across * 4
        for c0 in range(_NONE, channels, _STRIP):
            some = min(_STRIP, channels - c0)
            for q in range(36):
                for c in range(some):
                    t[q, c] = m[q, i, c0 + c]
            for q in range(0, 36, 6):
                for c in range(_STRIP):
                    t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c] = outputs(
                        t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c]
                    )
            for q in range(4):
                for c in range(_STRIP):
                    t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c] = outputs(
                        t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c]
                    )
            for a in range(4):
                for b in range(4):
                    h, w = h0 + a, w0 + b
                    if h < height and w < width:
                        for c in range(some):
                            y[n, h, w, base + c0 + c] = t[6 * a + b, c]


@tiles_out.otherwise
def _(m: Any, y: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, channel: Any) -> None:
    cells = _twice(outputs, _six(m)[:, :, start:stop])
    n, row, column = np.unravel_index(np.arange(first + start, first + stop), (1 << 40, down, across))
    part = y[..., channel : channel + m.shape[2]]
    for a, b in np.ndindex(4, 4):
        h, w = row * 4 + a, column * 4 + b
        inside = (h < y.shape[1]) & (w < y.shape[2])
        part[n[inside], h[inside], w[inside]] = cells[a, b, inside]


@compiled([_TILES], parts=[outputs_back, _strip])
def tiles_back(y: Any, u: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """u[:, i] = A d A', d the 4 x 4 cells of tile `first + i`: the transpose of `tiles_out`. top and left are 0."""
    _, height, width, channels = y.shape
    t = _strip()
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4 - top, place % across * 4 - left
        for c0 in range(_NONE, np.uint64(channels), _STRIP):
            some = min(_STRIP, np.uint64(channels) - c0)
            for a in range(4):
                for b in range(4):
                    h, w = h0 + a, w0 + b
                    if h < height and w < width:
                        for c in range(some):
                            t[6 * a + b, c] = y[n, h, w, c0 + c]
                    else:
                        for c in range(some):
                            t[6 * a + b, c] = 0
            for q in range(0, 24, 6):
                for c in range(_STRIP):
                    t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c] = outputs_back(
                        t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c]
                    )
            for q in range(6):
                for c in range(_STRIP):
                    t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c] = outputs_back(
                        t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c]
                    )
            for q in range(36):
                for c in range(some):
                    u[q, i, c0 + c] = t[q, c]


@tiles_back.otherwise
def _(y: Any, u: Any, first: Any, start: Any, stop: Any, *grid: Any) -> None:
    _six(u)[:, :, start:stop] = _twice(outputs_back, _cells(y, 4, first + start, stop - start, *grid))


# ---------------------------------------------------------------------- filters


@compiled([f"void({_IN.format(4)}, float32[:,:,::1], int64, int64, int64, int64, int64)"], parts=[filters, _strip])
def filter_in(w: Any, u: Any, flip: Any, inner: Any, outer: Any, start: Any, stop: Any) -> None:
    """u[:, c] = G w[:, :, inner + c, outer:] G' for c from start to stop; flip: of the filter turned by 180 degrees."""
    channels, base = np.uint64(u.shape[2]), np.uint64(outer)
    t = _strip()
    for i in range(start, stop):
        for c0 in range(_NONE, channels, _STRIP):
            some = min(_STRIP, channels - c0)
            for a in range(3):
                for b in range(3):
                    h, v = (2 - a, 2 - b) if flip else (a, b)
                    for c in range(some):
                        t[6 * a + b, c] = w[h, v, inner + i, base + c0 + c]
            for q in range(0, 18, 6):
                for c in range(_STRIP):
                    t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c] = filters(
                        t[q, c], t[q + 1, c], t[q + 2, c]
                    )
            for q in range(6):
                for c in range(_STRIP):
                    t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c] = filters(
                        t[q, c], t[q + 6, c], t[q + 12, c]
                    )
            for q in range(36):
                for c in range(some):
                    u[q, i, c0 + c] = t[q, c]


@filter_in.otherwise
def _(w: Any, u: Any, flip: Any, inner: Any, outer: Any, start: Any, stop: Any) -> None:
    g = (w[::-1, ::-1] if flip else w)[:, :, inner + start : inner + stop, outer : outer + u.shape[2]]
    _six(u)[:, :, start:stop] = _twice(filters, g)


@compiled([f"void({_IN.format(3)}, float32[:,:,:,::1], int64, int64)"], parts=[filters_back, _strip])
def filter_back(m: Any, dw: Any, start: Any, stop: Any) -> None:
    """dw[:, :, c] = G' m[:, c] G for c from start to stop: the transpose of `filter_in`."""
    channels = np.uint64(m.shape[2])
    t = _strip()
    for i in range(start, stop):
        for c0 in range(_NONE, channels, _STRIP):
            some = min(_STRIP, channels - c0)
            for q in range(36):
                for c in range(some):
                    t[q, c] = m[q, i, c0 + c]
            for q in range(0, 36, 6):
                for c in range(_STRIP):
                    t[q, c], t[q + 1, c], t[q + 2, c] = filters_back(
                        t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c], t[q + 4, c], t[q + 5, c]
                    )
            for q in range(3):
                for c in range(_STRIP):
                    t[q, c], t[q + 6, c], t[q + 12, c] = filters_back(
                        t[q, c], t[q + 6, c], t[q + 12, c], t[q + 18, c], t[q + 24, c], t[q + 30, c]
                    )
            for a in range(3):
                for b in range(3):
                    for c in range(some):
                        dw[a, b, i, c0 + c] = t[6 * a + b, c]


@filter_back.otherwise
def _(m: Any, dw: Any, start: Any, stop: Any) -> None:
    dw[:, :, start:stop] = _twice(filters_back, _six(m)[:, :, start:stop])
