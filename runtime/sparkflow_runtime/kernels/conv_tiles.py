"""The maps of Winograd's F(4 x 4, 3 x 3) and the loops that take them over tiles and filters.

A map is a few sums along one axis of a tile, and is used along both; the five maps are written once, for the loops as
for their numpy versions. The points are 0, +-3/4, +-3/2 and infinity: with the usual 0, +-1, +-2 the largest error is
four times as large. Sources: Lavin and Gray 2016, s. 4.1; on points, Barabasz et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.loop_parts import Instructions, Stack

_A, _B = np.float32(3 / 4), np.float32(3 / 2)  # the points; then their squares and cubes
_A2, _B2, _A3, _B3 = np.float32(9 / 16), np.float32(9 / 4), np.float32(27 / 64), np.float32(27 / 8)
_SUM, _PRODUCT = np.float32(45 / 16), np.float32(81 / 64)  # of the squares
_F0, _FA, _FB = np.float32(64 / 81), np.float32(-128 / 243), np.float32(32 / 243)  # what divides each point's equation
_LANES = 16  # channels that are mapped at once
_AHEAD = 8  # rows of a filter by which its numbers are asked for: they come from memory, a few at a place
_ZEROS = 36 * _LANES
# Cells of a tile that lies across an edge, or has not so many channels; then zeros.
_strip = Stack("_strip", _ZEROS + _LANES)


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


def _lanes(name: str, one: Callable[..., Any], edge: int) -> Instructions:
    def make() -> Any:
        from sparkflow_runtime.kernels.conv_tile_lanes import tile_map

        return tile_map(one, edge, _LANES)

    return Instructions(name, make)


def _biased(name: str, relu: bool) -> Instructions:
    def make() -> Any:
        from sparkflow_runtime.kernels.conv_tile_lanes import tile_map_biased

        return tile_map_biased(outputs, 6, _LANES, relu)

    return Instructions(name, make)


def _copying() -> Any:
    from sparkflow_runtime.kernels.conv_tile_lanes import vector_copy

    return vector_copy(_LANES)


PLAIN, BIASED, RECTIFIED = 0, 1, 2  # what an output becomes besides: a bias is added; then what is below 0 becomes 0
_in, _out, _back = _lanes("_in", inputs, 6), _lanes("_out", outputs, 6), _lanes("_back", outputs_back, 4)
_out_biased, _out_rectified = _biased("_out_biased", False), _biased("_out_rectified", True)
_copy = Instructions("_copy", _copying)
_filter, _of_filter = _lanes("_filter", filters, 3), _lanes("_of_filter", filters_back, 6)


def _gather(x: Any, n: Any, h0: Any, w0: Any, c0: Any, edge: Any, t: Any) -> None:
    """t = the edge x edge cells from (h0, w0) on, 0 outside and past the last channel."""
    _, height, width, channels = x.shape
    some = min(_LANES, channels - c0)
    for a in range(edge):
        for b in range(edge):
            h, w, at = h0 + a, w0 + b, (a * edge + b) * _LANES
            inside = 0 <= h < height and 0 <= w < width
            if inside and some == _LANES:
                _copy(x, ((n * height + h) * width + w) * channels + c0, t, at)
                continue
            _copy(t, _ZEROS, t, at)
            if inside:
                for c in range(some):
                    t[at + c] = x[n, h, w, c0 + c]


def _scatter(t: Any, v: Any, i: Any, c0: Any, some: Any) -> None:
    """v[:, i, c0 : c0 + some] = t"""
    for q in range(36):
        for c in range(some):
            v[q, i, c0 + c] = t[q * _LANES + c]


@compiled([_TILES], parts=[_in, _copy, _gather, _scatter, _strip])
def tiles_in(x: Any, v: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """v[:, i] = B' d B for i from start to stop, d the 6 x 6 cells of tile `first + i`.

    Tiles lie `down` by `across` over each image, 4 cells apart; `top` and `left` are the cells of padding before it."""
    _, height, width, channels = x.shape
    step, t = v.shape[1] * channels, _strip()
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4 - top, place % across * 4 - left
        inside = h0 >= 0 and w0 >= 0 and h0 + 6 <= height and w0 + 6 <= width
        at = ((n * height + h0) * width + w0) * channels
        for c0 in range(0, channels, _LANES):
            some = min(_LANES, channels - c0)
            if inside and some == _LANES:
                _in(x, at + c0, width * channels, channels, v, i * channels + c0, 6 * step, step, 0)
                continue
            _gather(x, n, h0, w0, c0, 6, t)
            if some == _LANES:
                _in(t, 0, 6 * _LANES, _LANES, v, i * channels + c0, 6 * step, step, 0)
            else:
                _in(t, 0, 6 * _LANES, _LANES, t, 0, 6 * _LANES, _LANES, 0)
                _scatter(t, v, i, c0, some)


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


def _collect(m: Any, i: Any, c0: Any, channels: Any, t: Any) -> None:
    """t = m[:, i, c0:], 0 past the last channel."""
    some = min(_LANES, channels - c0)
    for q in range(36):
        for c in range(some):
            t[q * _LANES + c] = m[q, i, c0 + c]
        for c in range(some, _LANES):
            t[q * _LANES + c] = 0


def _finished(
    m: Any, at: Any, row: Any, cell: Any, y: Any, to: Any, to_row: Any, to_cell: Any, bias: Any, b: Any, ends: Any
) -> None:
    if ends == RECTIFIED:
        _out_rectified(m, at, row, cell, y, to, to_row, to_cell, bias, b)
    elif ends == BIASED:
        _out_biased(m, at, row, cell, y, to, to_row, to_cell, bias, b)
    else:
        _out(m, at, row, cell, y, to, to_row, to_cell, 0)


@compiled(
    [f"void({_IN.format(3)}, float32[:,:,:,::1], {_IN.format(1)}, " + ", ".join(["int64"] * 7) + ")"],
    parts=[_out, _out_biased, _out_rectified, _finished, _copy, _collect, _strip],
)
def tiles_out(
    m: Any, y: Any, bias: Any, ends: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, channel: Any
) -> None:
    """The 4 x 4 cells of tile `first + i` of y, from that channel on, = A' m[:, i] A, as far as both reach; cells
    outside are left out. ends: PLAIN, BIASED or RECTIFIED; the bias has y's channels, zeros up to a whole vector."""
    _, height, width, all_channels = y.shape
    row, channels, t = m.shape[2], min(m.shape[2], all_channels - channel), _strip()
    step = m.shape[1] * row
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4, place % across * 4
        inside = h0 + 4 <= height and w0 + 4 <= width
        at = ((n * height + h0) * width + w0) * all_channels + channel
        for c0 in range(0, channels, _LANES):
            some, b = min(_LANES, channels - c0), channel + c0
            if inside and some == _LANES:
                to_row = width * all_channels
                _finished(m, i * row + c0, 6 * step, step, y, at + c0, to_row, all_channels, bias, b, ends)
                continue
            if some == _LANES:
                _finished(m, i * row + c0, 6 * step, step, t, 0, 4 * _LANES, _LANES, bias, b, ends)
            else:
                _collect(m, i, c0, channels, t)
                _finished(t, 0, 6 * _LANES, _LANES, t, 0, 4 * _LANES, _LANES, bias, b, ends)
            for a in range(min(4, height - h0)):
                for e in range(min(4, width - w0)):
                    if some == _LANES:
                        _copy(t, (4 * a + e) * _LANES, y, at + c0 + (a * width + e) * all_channels)
                        continue
                    for c in range(some):
                        y[n, h0 + a, w0 + e, channel + c0 + c] = t[(4 * a + e) * _LANES + c]


@tiles_out.otherwise
def _(
    m: Any, y: Any, bias: Any, ends: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, channel: Any
) -> None:
    part = y[..., channel : channel + m.shape[2]]
    channels = part.shape[3]
    cells = _twice(outputs, _six(m)[:, :, start:stop, :channels])
    if ends != PLAIN:
        cells += bias[channel : channel + channels]
    if ends == RECTIFIED:
        cells[cells <= 0] = 0
    n, row, column = np.unravel_index(np.arange(first + start, first + stop), (1 << 40, down, across))
    for a, b in np.ndindex(4, 4):
        h, w = row * 4 + a, column * 4 + b
        inside = (h < y.shape[1]) & (w < y.shape[2])
        part[n[inside], h[inside], w[inside]] = cells[a, b, inside]


@compiled([_TILES], parts=[_back, _copy, _gather, _scatter, _strip])
def tiles_back(y: Any, u: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """u[:, i] = A d A', d the 4 x 4 cells of tile `first + i`: the transpose of `tiles_out`. top and left are 0."""
    _, height, width, channels = y.shape
    step, t = u.shape[1] * channels, _strip()
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 4 - top, place % across * 4 - left
        inside = h0 + 4 <= height and w0 + 4 <= width
        at = ((n * height + h0) * width + w0) * channels
        for c0 in range(0, channels, _LANES):
            some = min(_LANES, channels - c0)
            if inside and some == _LANES:
                _back(y, at + c0, width * channels, channels, u, i * channels + c0, 6 * step, step, 0)
                continue
            _gather(y, n, h0, w0, c0, 4, t)
            if some == _LANES:
                _back(t, 0, 4 * _LANES, _LANES, u, i * channels + c0, 6 * step, step, 0)
            else:
                _back(t, 0, 4 * _LANES, _LANES, t, 0, 6 * _LANES, _LANES, 0)
                _scatter(t, u, i, c0, some)


@tiles_back.otherwise
def _(y: Any, u: Any, first: Any, start: Any, stop: Any, *grid: Any) -> None:
    _six(u)[:, :, start:stop] = _twice(outputs_back, _cells(y, 4, first + start, stop - start, *grid))


# ---------------------------------------------------------------------- filters


@compiled([f"void({_IN.format(4)}, float32[:,:,::1], int64, int64, int64)"], parts=[_filter, _scatter, _strip])
def filter_in(w: Any, u: Any, flip: Any, outer: Any, rows: Any) -> None:
    """u[:, i] = G w[:, :, i, outer:] G' for the first rows, as far as both reach; flip: of the filter turned by 180
    degrees."""
    _, _, all_rows, all_channels = w.shape
    row, channels, t = u.shape[2], min(u.shape[2], all_channels - outer), _strip()
    cell, step = all_rows * all_channels, u.shape[1] * row
    first, by_row, by_cell = (8 * cell, -3 * cell, -cell) if flip else (0, 3 * cell, cell)
    for i in range(rows):
        far = _AHEAD * all_channels if i + _AHEAD < rows else 0
        for c0 in range(0, channels, _LANES):
            some = min(_LANES, channels - c0)
            at = i * all_channels + outer + c0
            if some == _LANES:
                _filter(w, first + at, by_row, by_cell, u, i * row + c0, 6 * step, step, far)
                continue
            for q in range(9):
                for c in range(some):
                    t[q * _LANES + c] = w[q // 3, q % 3, i, outer + c0 + c]
                for c in range(some, _LANES):
                    t[q * _LANES + c] = 0
            begin, down, right = (8 * _LANES, -3 * _LANES, -_LANES) if flip else (0, 3 * _LANES, _LANES)
            _filter(t, begin, down, right, t, 0, 6 * _LANES, _LANES, 0)
            _scatter(t, u, i, c0, some)


@filter_in.otherwise
def _(w: Any, u: Any, flip: Any, outer: Any, rows: Any) -> None:
    g = (w[::-1, ::-1] if flip else w)[:, :, :rows, outer : outer + u.shape[2]]
    _six(u)[:, :, :rows, : g.shape[3]] = _twice(filters, g)


@compiled([f"void({_IN.format(3)}, float32[:,:,:,::1], int64, int64)"], parts=[_of_filter, _collect, _strip])
def filter_back(m: Any, dw: Any, start: Any, stop: Any) -> None:
    """dw[:, :, c] = G' m[:, c] G for c from start to stop: the transpose of `filter_in`."""
    _, rows, channels = m.shape
    _, _, inner, _ = dw.shape
    step, cell, t = rows * channels, inner * channels, _strip()
    for i in range(start, stop):
        for c0 in range(0, channels, _LANES):
            some = min(_LANES, channels - c0)
            at = i * channels + c0
            if some == _LANES:
                _of_filter(m, at, 6 * step, step, dw, at, 3 * cell, cell, 0)
                continue
            _collect(m, i, c0, channels, t)
            _of_filter(t, 0, 6 * _LANES, _LANES, t, 0, 3 * _LANES, _LANES, 0)
            for q in range(9):
                for c in range(some):
                    dw[q // 3, q % 3, i, c0 + c] = t[q * _LANES + c]


@filter_back.otherwise
def _(m: Any, dw: Any, start: Any, stop: Any) -> None:
    dw[:, :, start:stop] = _twice(filters_back, _six(m)[:, :, start:stop])
