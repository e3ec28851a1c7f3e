"""3 x 3 convolution with stride 1 by Winograd's F(4 x 4, 3 x 3): 36 products for 16 outputs instead of 144.

A tile of 6 x 6 inputs is transformed, multiplied channel by channel with the transformed filter (36 matrix products
over all tiles, by machine code of conv_direct_native.py where it is there: BLAS has two thirds of its speed on matrices
of these shapes), and transformed back to 4 x 4 outputs. The gradients are the transposes of the same maps, which are in
conv_tiles.py. Tiles go block by block through memory that is reused, in several threads.

Rounding: against float64 the largest error is 1e-6 to 3e-6 of the largest output, where the plain product has 2e-7 to
6e-7. An infinity or NaN spreads over its whole tile: at most three cells further than the filter reaches.
SPARKFLOW_WINOGRAD=0 turns it off. Source: Lavin and Gray 2016, s. 4.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels import machine_code
from sparkflow_runtime.kernels.conv_direct import direct
from sparkflow_runtime.kernels.conv_direct_layout import lanes
from sparkflow_runtime.kernels.conv_tiles import (
    BIASED,
    PLAIN,
    RECTIFIED,
    filter_back,
    filter_in,
    tiles_back,
    tiles_in,
    tiles_out,
)
from sparkflow_runtime.kernels.crew import Call, crew, table_of
from sparkflow_runtime.kernels.crew_layout import ARGS
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.kernels.parallel import runs, scratch, share
from sparkflow_runtime.kernels.windows import Window

_MIN_CHANNELS = 16
_FEW = 1 << 14  # pairs of channels up to which a filter's gradient may be held several times
_LANES = 4
_AT_ONCE = np.zeros(1, np.int64)  # where the one run of a product begins
_SOME = np.zeros((1, 1, 1), np.float32)  # as the matrices are


def fits(x: np.ndarray, w: np.ndarray, win: Window) -> bool:
    """Whether this way is open, and pays."""
    _, height, width = win.out
    return (
        win.taps == (1, 3, 3)
        and win.strides == win.dilations == (1, 1, 1)
        and max(win.before + win.after) <= 2
        and x.dtype == np.float32
        and min(w.shape[-2:]) >= _MIN_CHANNELS
        and height * width >= 6 * (-(-height // 4)) * (-(-width // 4))  # tiles are not for the most part padding
        and os.environ.get("SPARKFLOW_WINOGRAD", "1") != "0"
    )


def prepare() -> None:
    crew.prepare()
    for loop in (tiles_in, tiles_out, tiles_back, filter_in, filter_back):
        loop.prepare()


def _block(channels: int) -> int:
    """Tiles of a block: a core's cache holds those of few channels, and many channels need rows for a product."""
    return 64 if channels <= 128 else 128


def _chunk() -> int:
    """Made channels of a filter that are transformed at once: as many vectors of them as meet in the lines of a first
    cache without driving each other out."""
    return 4 * (lanes() or 16)


def _matrices(name: str, rows: int, columns: int) -> np.ndarray:
    """Memory of this thread for 36 matrices; a row more in each, or they would lie powers of two apart, and cells of
    a tile meet in the same few lines of the cache."""
    return scratch(name, (36, rows + 1, columns))


class _Filter:
    """A filter [3, 3, in, out] to convolve with. back: for the gradient of the input, turned by 180 degrees and with in
    and out changed over. It is transformed in chunks of the channels that are made."""

    def __init__(self, w: np.ndarray, back: bool):
        self.w, self.back, self.flip = w, back, int(back)
        self.takes, self.makes = w.shape[3 if back else 2], w.shape[2 if back else 3]
        self.filled = _filled(self.makes)

    def fill(self, u: np.ndarray, made: int) -> None:
        """Fill u [36, takes + 1, count] with the channels that are made from `made` on; what lies past the last of them
        is not defined."""
        filter_in(*self.filling(u, made))

    def filling(self, u: np.ndarray, made: int) -> tuple[Any, Any, int, int, int]:
        """What filter_in takes for that."""
        w = self.w
        if self.back:
            w, made = np.ascontiguousarray(w[:, :, made : made + u.shape[2]].swapaxes(2, 3)), 0
        return w, u, self.flip, made, self.takes


def _filled(channels: int) -> int:
    """As whole vectors, where machine code multiplies them."""
    vector = lanes() if direct.functions else 1
    return -(-channels // vector) * vector


def _multiply(v: np.ndarray, u: np.ndarray, m: np.ndarray, made: int, tiles: int) -> None:
    """m[:, :tiles, made:] = v[:, :tiles] by u [36, takes + 1, count]."""
    if not direct.functions:
        takes, count = v.shape[2], u.shape[2]
        np.matmul(v[:, :tiles], u[:, :takes], out=m[:, :tiles, made : made + count])
        return
    direct.functions[2](*_multiplying(v, u, m, made, tiles))


def _multiplying(v: np.ndarray, u: np.ndarray, m: np.ndarray, made: int, tiles: int) -> tuple[int, ...]:
    """What its machine code takes for that."""
    ends = address(m) + 4 * made, m.strides[0], m.strides[1], tiles, v.shape[2], u.shape[2], address(_AT_ONCE)
    return address(v), v.strides[0], v.strides[1], address(u), u.strides[0], *ends


class _End(NamedTuple):
    """What an output becomes besides."""

    bias: np.ndarray
    ends: int


_PLAIN = _End(np.zeros(0, np.float32), PLAIN)


def _end(bias: np.ndarray, relu: bool) -> _End:
    filled = np.zeros(-(-len(bias) // 16) * 16, np.float32)
    filled[: len(bias)] = bias
    return _End(filled, RECTIFIED if relu else BIASED)


def _convolve(x: np.ndarray, w: _Filter, size: tuple[int, int], top: int, left: int, end: _End = _PLAIN) -> np.ndarray:
    """x [batch, height, width, k] -> [batch, *size, m]."""
    y = np.empty((x.shape[0], *size, w.makes), np.float32)
    down, across = -(-size[0] // 4), -(-size[1] // 4)
    tiles, block = x.shape[0] * down * across, _block(max(w.takes, w.makes))
    grid = down, across, top, left
    (_by_tiles if tiles >= 4 * block else _by_channels)(x, w, y, end, tiles, grid)
    return y


Grid = tuple[int, int, int, int]  # tiles down and across, padding at the top and on the left


class _Codes(NamedTuple):
    """Where the machine code of a convolution's parts begins. A thread that computes a block by one call of Python's
    each waits for the GIL between them, while another thread has it: a sixth of the time, where blocks are small."""

    filter_in: int
    tiles_in: int
    products: int
    tiles_out: int

    @classmethod
    def of(cls, x: np.ndarray, w: np.ndarray, y: np.ndarray, end: _End) -> _Codes | None:
        """None where some of it is not there, and Python calls what there is."""
        if not (crew.functions and direct.functions):
            return None
        entries = filter_in.entry((w,)), tiles_in.entry((x,)), tiles_out.entry((_SOME, y, end.bias))
        if not all(entries):
            return None
        return cls(*entries[:2], machine_code.address(direct.functions[2]), entries[2])


def _by_tiles(x: np.ndarray, w: _Filter, y: np.ndarray, end: _End, tiles: int, grid: Grid) -> None:
    """The filter is transformed once, then threads share out blocks of tiles."""
    chunks = runs(w.filled, _chunk())
    size = 36 * (w.takes + 1)
    room = scratch("filter", (size * w.filled,))
    parts = [(at, room[size * at : size * (at + count)].reshape(36, w.takes + 1, count)) for at, count in chunks]
    codes = _Codes.of(x, w.w, y, end)

    def transform(mine: Sequence[tuple[int, np.ndarray]]) -> None:
        for made, u in mine:
            w.fill(u, made)

    def convolve(blocks: Sequence[tuple[int, int]]) -> None:
        most = blocks[0][1]
        v, m = _matrices("tiles", most, w.takes), _matrices("products", most, w.filled)
        if codes:
            calls = [
                (codes.tiles_in, (id(x), id(v), 0, 0, 0, *grid)),
                *[(codes.products, _multiplying(v, u, m, made, 0)) for made, u in parts],
                (codes.tiles_out, (id(m), id(y), id(end.bias), end.ends, 0, 0, 0, *grid[:2], 0)),
            ]
            crew.in_turn(_of_blocks(calls, blocks))
            return
        for first, count in blocks:
            tiles_in(x, v, first, 0, count, *grid)
            for made, u in parts:
                _multiply(v, u, m, made, count)
            tiles_out(m, y, *end, first, 0, count, *grid[:2], 0)

    share(transform, parts)
    share(convolve, runs(tiles, _block(max(w.takes, w.makes))))


def _of_blocks(calls: Sequence[Call], blocks: Sequence[tuple[int, int]]) -> np.ndarray:
    """The table of _by_tiles's calls for each block of tiles, of which calls do not say yet where it begins and how
    many there are."""
    table = np.tile(table_of(calls), (len(blocks), 1, 1))
    first, count = (np.array(of, np.int64) for of in zip(*blocks))
    begin = ARGS // 8
    table[:, 0, begin + 2], table[:, 0, begin + 4] = first, count
    table[:, 1:-1, begin + 8] = count[:, None]
    table[:, -1, begin + 4], table[:, -1, begin + 6] = first, count
    return table.reshape(-1, table.shape[2])


def _by_channels(x: np.ndarray, w: _Filter, y: np.ndarray, end: _End, tiles: int, grid: Grid) -> None:
    """Where tiles are few, the filter is the work: threads share out the channels that are made."""
    v = _matrices("tiles", tiles, w.takes)
    codes = _Codes.of(x, w.w, y, end)
    _over_tiles(lambda a, b: tiles_in(x, v, 0, a, b, *grid), tiles)

    def each(chunks: Sequence[tuple[int, int]]) -> None:
        calls: list[Call] = []
        held: list[Any] = []  # a call knows only where they are
        for made, count in chunks:
            u, m = _matrices("filter", w.takes, count), _matrices("products", tiles, count)
            if codes:
                of, _, *where = w.filling(u, made)
                held += of, u, m
                calls += [
                    (codes.filter_in, (id(of), id(u), *where)),
                    (codes.products, _multiplying(v, u, m, 0, tiles)),
                    (codes.tiles_out, (id(m), id(y), id(end.bias), end.ends, 0, 0, tiles, *grid[:2], made)),
                ]
                continue
            w.fill(u, made)
            _multiply(v, u, m, 0, tiles)
            tiles_out(m, y, *end, 0, 0, tiles, *grid[:2], made)
        if codes:
            crew.in_turn(table_of(calls))

    share(each, runs(w.filled, _chunk() if w.makes > 4 * _chunk() else _chunk() // 2))


def _over_rows(loop: Callable[[int, int], None], matrices: np.ndarray) -> None:
    """loop(start, stop) over the rows of [36, rows, columns], in several threads."""
    _over(loop, runs(matrices.shape[1], max(1, 16384 // matrices.shape[2])))


def _over_tiles(loop: Callable[[int, int], None], count: int) -> None:
    _over(loop, runs(count, 8))


def _over(loop: Callable[[int, int], None], parts: Sequence[tuple[int, int]]) -> None:
    share(lambda mine: loop(mine[0][0], sum(mine[-1])), parts)


def forward(
    x: np.ndarray, w: np.ndarray, win: Window, bias: np.ndarray | None = None, relu: bool = False
) -> np.ndarray:
    """bias: added to the channels; relu: what is not above 0 becomes 0 then."""
    end = _PLAIN if bias is None else _end(bias, relu)
    return _convolve(x[:, 0], _Filter(w[0], False), win.out[1:], *win.before[1:], end)[:, None]


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    """The convolution of dy with the filter turned around, in and out changed over."""
    return _convolve(dy[:, 0], _Filter(w[0], True), win.size[1:], 2 - win.before[1], 2 - win.before[2])[:, None]


# ---------------------------------------------------------------------- the gradient of the filter

Transform = Callable[[np.ndarray, np.ndarray, int, int, int], None]


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    x4, dy4, inner, outer = x[:, 0], dy[:, 0], x.shape[4], dy.shape[4]
    down, across = -(-win.out[1] // 4), -(-win.out[2] // 4)
    tiles = x.shape[0] * down * across

    def transform(v: np.ndarray, u: np.ndarray, first: int, a: int, b: int) -> None:
        tiles_in(x4, v, first, a, b, down, across, *win.before[1:])
        tiles_back(dy4, u, first, a, b, down, across, 0, 0)

    sums = _sum_in_lanes if inner * outer <= _FEW else _sum_in_phases
    total, dw = sums(transform, tiles, inner, outer), np.empty((3, 3, inner, outer), np.float32)
    _over_rows(lambda a, b: filter_back(total, dw, a, b), total)
    return dw[None]


def _sum_in_lanes(transform: Transform, tiles: int, inner: int, outer: int) -> np.ndarray:
    """[36, inner, outer] as a fixed number of partial sums, so that the number of threads does not change the bits."""
    blocks = _even_runs(tiles, 128)
    lanes = np.empty((min(_LANES, len(blocks)), 36, inner, outer), np.float32)

    def work(mine: Sequence[int]) -> None:
        for lane in mine:
            for at, (first, count) in enumerate(blocks[lane :: len(lanes)]):
                v, u = _matrices("tiles", count, inner), _matrices("products", count, outer)
                transform(v, u, first, 0, count)
                _add_product(v[:, :count], u[:, :count], lanes[lane], at == 0)

    share(work, range(len(lanes)))
    for lane in lanes[1:]:
        lanes[0] += lane
    return lanes[0]


def _sum_in_phases(transform: Transform, tiles: int, inner: int, outer: int) -> np.ndarray:
    """[36, inner, outer], one sum: threads share out the tiles of a large block, then its 36 products."""
    total = scratch("filter", (36, inner, outer))
    for first, count in _even_runs(tiles, max(128, 114688 // max(inner, outer))):
        v, u = _matrices("tiles", count, inner), _matrices("products", count, outer)
        _over_tiles(partial(transform, v, u, first), count)
        v, u = v[:, :count], u[:, :count]

        def multiply(mine: Sequence[int], v: np.ndarray = v, u: np.ndarray = u, new: bool = first == 0) -> None:
            q = slice(mine[0], mine[-1] + 1)
            _add_product(v[q], u[q], total[q], new)

        share(multiply, range(36))
    return total


def _add_product(v: np.ndarray, u: np.ndarray, total: np.ndarray, new: bool) -> None:
    """total += v' u, matrix by matrix; new: there is no sum yet."""
    if new:
        np.matmul(v.swapaxes(1, 2), u, out=total)
        return
    product = scratch("sum", total.shape)
    np.matmul(v.swapaxes(1, 2), u, out=product)
    total += product


def _even_runs(count: int, length: int) -> list[tuple[int, int]]:
    """As `runs`, of nearly one length."""
    return runs(count, -(-count // max(1, -(-count // length))))
