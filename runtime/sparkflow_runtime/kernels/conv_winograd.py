"""3 x 3 convolution with stride 1 by Winograd's F(2 x 2, 3 x 3): 16 products for 4 outputs instead of 36.

A tile of 4 x 4 inputs is transformed, multiplied channel by channel with the transformed filter (16 matrix products
over all tiles), and transformed back to 2 x 2 outputs. The gradients are the transposes of the same maps. Tiles go
block by block through memory that is reused, in several threads.

Rounding is that of a sum of nine terms: against float64 the largest error is 3e-7 to 7e-7 of the largest output, where
the plain product has 2e-7 to 6e-7. An infinity or NaN spreads over its whole tile: at most one cell further than the
filter reaches. SPARKFLOW_WINOGRAD=0 turns it off. Source: Lavin and Gray 2016, s. 4.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.windows import Window

_IN = "Array(float32, {}, 'C', readonly=True)"
_TILES = f"void({_IN.format(4)}, float32[:,:,::1], int64, int64, int64, int64, int64, int64, int64)"
_MIN_CHANNELS = 16
_FEW = 1 << 14  # pairs of channels up to which a filter's gradient may be held several times
_LANES = 8


def fits(x: np.ndarray, w: np.ndarray, win: Window) -> bool:
    """Whether this way is open, and pays."""
    return (
        win.taps == (1, 3, 3)
        and win.strides == win.dilations == (1, 1, 1)
        and max(win.before + win.after) <= 2
        and x.dtype == np.float32
        and min(w.shape[-2:]) >= _MIN_CHANNELS
        and os.environ.get("SPARKFLOW_WINOGRAD", "1") != "0"
    )


# ---------------------------------------------------------------------- tiles of inputs


@compiled([_TILES])
def tiles_in(x: Any, v: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """v[:, i] = B' d B for i from start to stop, d the 4 x 4 cells of tile `first + i`.

    Tiles lie `down` by `across` over each image, 2 cells apart; `top` and `left` are the cells of padding before it."""
    _, height, width, channels = x.shape
    t = np.empty((16, channels), np.float32)
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 2 - top, place % across * 2 - left
        for a in range(4):
            for b in range(4):
                h, w, q = h0 + a, w0 + b, 4 * a + b
                if 0 <= h < height and 0 <= w < width:
                    for c in range(channels):
                        t[q, c] = x[n, h, w, c]
                else:
                    for c in range(channels):
                        t[q, c] = 0
        for q in range(0, 16, 4):
            for c in range(channels):
                d0, d1, d2, d3 = t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c]
                t[q, c], t[q + 1, c], t[q + 2, c], t[q + 3, c] = d0 - d2, d1 + d2, d2 - d1, d1 - d3
        for q in range(4):
            for c in range(channels):
                d0, d1, d2, d3 = t[q, c], t[q + 4, c], t[q + 8, c], t[q + 12, c]
                v[q, i, c], v[q + 4, i, c], v[q + 8, i, c], v[q + 12, i, c] = d0 - d2, d1 + d2, d2 - d1, d1 - d3


def _cells(x: np.ndarray, edge: int, first: int, count: int, down: int, across: int, top: int, left: int) -> np.ndarray:
    """[edge, edge, count, channels]: the cells of tiles, 0 outside."""
    n, row, column = np.unravel_index(np.arange(first, first + count), (1 << 40, down, across))
    out = np.zeros((edge, edge, count, x.shape[3]), x.dtype)
    for a, b in np.ndindex(edge, edge):
        h, w = row * 2 - top + a, column * 2 - left + b
        inside = (h >= 0) & (h < x.shape[1]) & (w >= 0) & (w < x.shape[2])
        out[a, b, inside] = x[n[inside], h[inside], w[inside]]
    return out


def _forward_map(d: np.ndarray) -> np.ndarray:
    """B' along the first axis."""
    return np.stack([d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]])


@tiles_in.otherwise
def _(x: Any, v: Any, first: Any, start: Any, stop: Any, *grid: Any) -> None:
    d = _cells(x, 4, first + start, stop - start, *grid)
    rows = _forward_map(d.swapaxes(0, 1)).swapaxes(0, 1)
    v[:, start:stop] = _forward_map(rows).reshape(16, stop - start, -1)


# ---------------------------------------------------------------------- tiles of outputs


@compiled(["void(Array(float32, 3, 'C', readonly=True), float32[:,:,:,::1], int64, int64, int64, int64, int64)"])
def tiles_out(m: Any, y: Any, first: Any, start: Any, stop: Any, down: Any, across: Any) -> None:
    """The 2 x 2 cells of tile `first + i` of y = A' m[:, i] A; cells outside are left out."""
    _, height, width, channels = y.shape
    t = np.empty((8, channels), np.float32)
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 2, place % across * 2
        for q in range(4):
            for c in range(channels):
                m0, m1, m2, m3 = m[q, i, c], m[q + 4, i, c], m[q + 8, i, c], m[q + 12, i, c]
                t[q, c] = m0 + m1 + m2
                t[q + 4, c] = m1 - m2 - m3
        for a in range(2):
            q, h = 4 * a, h0 + a
            if h < height:
                for c in range(channels):
                    y[n, h, w0, c] = t[q, c] + t[q + 1, c] + t[q + 2, c]
                if w0 + 1 < width:
                    for c in range(channels):
                        y[n, h, w0 + 1, c] = t[q + 1, c] - t[q + 2, c] - t[q + 3, c]


@tiles_out.otherwise
def _(m: Any, y: Any, first: Any, start: Any, stop: Any, down: Any, across: Any) -> None:
    m4 = m[:, start:stop].reshape(4, 4, stop - start, -1)
    rows = np.stack([m4[0] + m4[1] + m4[2], m4[1] - m4[2] - m4[3]])
    cells = np.stack([rows[:, 0] + rows[:, 1] + rows[:, 2], rows[:, 1] - rows[:, 2] - rows[:, 3]], 1)
    n, row, column = np.unravel_index(np.arange(first + start, first + stop), (1 << 40, down, across))
    for a, b in np.ndindex(2, 2):
        h, w = row * 2 + a, column * 2 + b
        inside = (h < y.shape[1]) & (w < y.shape[2])
        y[n[inside], h[inside], w[inside]] = cells[a, b, inside]


@compiled([_TILES])
def tiles_back(y: Any, u: Any, first: Any, start: Any, stop: Any, down: Any, across: Any, top: Any, left: Any) -> None:
    """u[:, i] = A d A', d the 2 x 2 cells of tile `first + i`: the transpose of `tiles_out`. top and left are 0."""
    _, height, width, channels = y.shape
    t = np.empty((8, channels), np.float32)
    for i in range(start, stop):
        n, place = divmod(first + i, down * across)
        h0, w0 = place // across * 2 - top, place % across * 2 - left
        for q in range(4):
            h, w = h0 + q // 2, w0 + q % 2
            if h < height and w < width:
                for c in range(channels):
                    t[q, c] = y[n, h, w, c]
            else:
                for c in range(channels):
                    t[q, c] = 0
        for b in range(2):
            for c in range(channels):
                d0, d1 = t[b, c], t[2 + b, c]
                t[b, c], t[2 + b, c], t[4 + b, c], t[6 + b, c] = d0, d0 + d1, d0 - d1, -d1
        for a in range(4):
            for c in range(channels):  # a few streams a loop: with more the compiler gives up on vectors
                d0, d1, q = t[2 * a, c], t[2 * a + 1, c], 4 * a
                u[q, i, c], u[q + 1, i, c], u[q + 2, i, c], u[q + 3, i, c] = d0, d0 + d1, d0 - d1, -d1


def _transposed_map(d: np.ndarray) -> np.ndarray:
    """A along the first axis."""
    return np.stack([d[0], d[0] + d[1], d[0] - d[1], -d[1]])


@tiles_back.otherwise
def _(y: Any, u: Any, first: Any, start: Any, stop: Any, *grid: Any) -> None:
    rows = _transposed_map(_cells(y, 2, first + start, stop - start, *grid))
    u[:, start:stop] = _transposed_map(rows.swapaxes(0, 1)).swapaxes(0, 1).reshape(16, stop - start, -1)


# ---------------------------------------------------------------------- filters


@compiled([f"void({_IN.format(4)}, float32[:,:,::1], int64, int64, int64)"])
def filter_in(w: Any, u: Any, flip: Any, start: Any, stop: Any) -> None:
    """u[:, c] = G w[:, :, c] G' for input channels from start to stop; flip: of the filter turned by 180 degrees."""
    outer, half = w.shape[3], np.float32(0.5)
    t = np.empty((12, outer), np.float32)
    for c in range(start, stop):
        for b in range(3):
            column, first, last = (2 - b, 2, 0) if flip else (b, 0, 2)
            for k in range(outer):
                g0, g1, g2 = w[first, column, c, k], w[1, column, c, k], w[last, column, c, k]
                ends = g0 + g2
                t[b, k], t[3 + b, k], t[6 + b, k], t[9 + b, k] = g0, (ends + g1) * half, (ends - g1) * half, g2
        for a in range(4):
            for k in range(outer):
                g0, g1, g2 = t[3 * a, k], t[3 * a + 1, k], t[3 * a + 2, k]
                ends = g0 + g2
                u[4 * a, c, k], u[4 * a + 1, c, k] = g0, (ends + g1) * half
                u[4 * a + 2, c, k], u[4 * a + 3, c, k] = (ends - g1) * half, g2


def _filter_map(g: np.ndarray) -> np.ndarray:
    """G along the first axis."""
    half, ends = np.float32(0.5), g[0] + g[2]
    return np.stack([g[0], (ends + g[1]) * half, (ends - g[1]) * half, g[2]])


@filter_in.otherwise
def _(w: Any, u: Any, flip: Any, start: Any, stop: Any) -> None:
    g = (w[::-1, ::-1] if flip else w)[:, :, start:stop]
    rows = _filter_map(g)
    u[:, start:stop] = _filter_map(rows.swapaxes(0, 1)).swapaxes(0, 1).reshape(16, stop - start, -1)


@compiled([f"void({_IN.format(3)}, float32[:,:,:,::1], int64, int64)"])
def filter_back(m: Any, dw: Any, start: Any, stop: Any) -> None:
    """dw[:, :, c] = G' m[:, c] G: the transpose of `filter_in`."""
    outer, half = m.shape[2], np.float32(0.5)
    t = np.empty((12, outer), np.float32)
    for c in range(start, stop):
        for q in range(4):
            for k in range(outer):
                m0, m1, m2, m3 = m[q, c, k], m[q + 4, c, k], m[q + 8, c, k], m[q + 12, c, k]
                both = (m1 + m2) * half
                t[q, k], t[4 + q, k], t[8 + q, k] = m0 + both, (m1 - m2) * half, both + m3
        for a in range(3):
            for k in range(outer):
                m0, m1, m2, m3 = t[4 * a, k], t[4 * a + 1, k], t[4 * a + 2, k], t[4 * a + 3, k]
                both = (m1 + m2) * half
                dw[a, 0, c, k], dw[a, 1, c, k], dw[a, 2, c, k] = m0 + both, (m1 - m2) * half, both + m3


def _filter_back_map(m: np.ndarray) -> np.ndarray:
    half = np.float32(0.5)
    both = (m[1] + m[2]) * half
    return np.stack([m[0] + both, (m[1] - m[2]) * half, both + m[3]])


@filter_back.otherwise
def _(m: Any, dw: Any, start: Any, stop: Any) -> None:
    rows = _filter_back_map(m[:, start:stop].reshape(4, 4, stop - start, -1))
    dw[:, :, start:stop] = _filter_back_map(rows.swapaxes(0, 1)).swapaxes(0, 1)


# ---------------------------------------------------------------------- the convolution


def prepare() -> None:
    for loop in (tiles_in, tiles_out, tiles_back, filter_in, filter_back):
        loop.prepare()


def _over_channels(loop: Callable[..., None], source: np.ndarray, target: np.ndarray, inner: int, *more: int) -> None:
    """A loop over filters, shared out by input channels."""

    def work(parts: Sequence[tuple[int, int]]) -> None:
        for start, count in parts:
            loop(source, target, *more, start, start + count)

    share(work, runs(inner, max(1, 16384 // source.shape[-1])))


def _filter_tiles(w: np.ndarray, flip: bool) -> np.ndarray:
    """[16, in, out]."""
    u = np.empty((16, *w.shape[2:]), np.float32)
    _over_channels(filter_in, w, u, w.shape[2], int(flip))
    return u


def _block(channels: int) -> int:
    """Tiles of a block: a core's cache holds those of few channels, and many channels need rows for a product."""
    return max(128, 16384 // channels)


def _convolve(x: np.ndarray, u: np.ndarray, size: tuple[int, int], top: int, left: int) -> np.ndarray:
    """x [batch, height, width, k], u [16, k, m] -> [batch, *size, m]."""
    y = np.empty((x.shape[0], *size, u.shape[2]), np.float32)
    down, across = -(-size[0] // 2), -(-size[1] // 2)
    tiles, block = x.shape[0] * down * across, _block(max(u.shape[1:]))

    def each(blocks: Sequence[tuple[int, int]]) -> None:
        for first, count in blocks:
            v, m = scratch("tiles", (16, count, u.shape[1])), scratch("products", (16, count, u.shape[2]))
            tiles_in(x, v, first, 0, count, down, across, top, left)
            np.matmul(v, u, out=m)
            tiles_out(m, y, first, 0, count, down, across)

    if tiles >= 8 * block:
        share(each, runs(tiles, block))
        return y
    # too few tiles to keep threads busy with blocks: they share out each phase instead
    v, m = scratch("tiles", (16, tiles, u.shape[1])), scratch("products", (16, tiles, u.shape[2]))
    _over_tiles(lambda a, b: tiles_in(x, v, 0, a, b, down, across, top, left), tiles)
    _over_products(lambda q: np.matmul(v[q], u[q], out=m[q]))
    _over_tiles(lambda a, b: tiles_out(m, y, 0, a, b, down, across), tiles)
    return y


def _over_tiles(loop: Callable[[int, int], None], count: int) -> None:
    def work(parts: Sequence[tuple[int, int]]) -> None:
        loop(parts[0][0], sum(parts[-1]))

    share(work, runs(count, 32))


def _over_products(multiply: Callable[[slice], Any]) -> None:
    share(lambda mine: multiply(slice(mine[0], mine[-1] + 1)), range(16))


def forward(x: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    return _convolve(x[:, 0], _filter_tiles(w[0], False), win.out[1:], *win.before[1:])[:, None]


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    """The convolution of dy with the filter turned around, in and out changed over."""
    turned = _filter_tiles(np.ascontiguousarray(w[0].swapaxes(2, 3)), True)
    return _convolve(dy[:, 0], turned, win.size[1:], 2 - win.before[1], 2 - win.before[2])[:, None]


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    x4, dy4, inner, outer = x[:, 0], dy[:, 0], x.shape[4], dy.shape[4]
    down, across = -(-win.out[1] // 2), -(-win.out[2] // 2)
    tiles = x.shape[0] * down * across

    def transform(v: np.ndarray, u: np.ndarray, first: int, a: int, b: int) -> None:
        tiles_in(x4, v, first, a, b, down, across, *win.before[1:])
        tiles_back(dy4, u, first, a, b, down, across, 0, 0)

    sums = _sum_in_lanes if inner * outer <= _FEW else _sum_in_phases
    total, dw = sums(transform, tiles, inner, outer), np.empty((3, 3, inner, outer), np.float32)
    _over_channels(filter_back, total, dw, inner)
    return dw[None]


Transform = Callable[[np.ndarray, np.ndarray, int, int, int], None]


def _sum_in_lanes(transform: Transform, tiles: int, inner: int, outer: int) -> np.ndarray:
    """[16, inner, outer] as a fixed number of partial sums, so that the number of threads does not change the bits."""
    blocks = runs(tiles, _block(max(inner, outer)))
    lanes = np.zeros((min(_LANES, len(blocks)), 16, inner, outer), np.float32)

    def work(mine: Sequence[int]) -> None:
        product = scratch("sum", (16, inner, outer))
        for lane in mine:
            for first, count in blocks[lane :: len(lanes)]:
                v, u = scratch("tiles", (16, count, inner)), scratch("products", (16, count, outer))
                transform(v, u, first, 0, count)
                np.matmul(v.swapaxes(1, 2), u, out=product)
                lanes[lane] += product

    share(work, range(len(lanes)))
    return lanes.sum(0)


def _sum_in_phases(transform: Transform, tiles: int, inner: int, outer: int) -> np.ndarray:
    """[16, inner, outer], one sum: threads share out the tiles of a large block, then its 16 products."""
    total, product = np.zeros((16, inner, outer), np.float32), scratch("sum", (16, inner, outer))
    for first, count in runs(tiles, max(256, 131072 // max(inner, outer))):
        v, u = scratch("tiles", (16, count, inner)), scratch("products", (16, count, outer))

        def multiply(q: slice, v: np.ndarray = v, u: np.ndarray = u) -> None:
            np.matmul(v[q].swapaxes(1, 2), u[q], out=product[q])
            total[q] += product[q]

        _over_tiles(partial(transform, v, u, first), count)
        _over_products(multiply)
    return total
