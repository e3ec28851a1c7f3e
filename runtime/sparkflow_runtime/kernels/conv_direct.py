"""Direct convolution of float32: no matrix of columns, and sums that stay in registers (conv_direct_native.py).

A filter's row over the input is one run of numbers side by side, so that a filter of 5 x 5 x 16 is five runs of 80. The
gradient of the input is a convolution too, of dy with the filter turned round; with a stride it is one for each phase
of the stride, with every stride-th tap.

Rounding: every sum is one chain of products from the first tap to the last, so that against float64 the largest error
is 5e-7 to 3e-6 of the largest output, as with Winograd's way, where columns have 2e-7 to 8e-7.

Whether a process computes so is settled when its first convolution is made (settled.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from sparkflow_runtime.kernels.conv_direct_layout import OFFSETS, lanes, tile
from sparkflow_runtime.kernels.memory import address
from sparkflow_runtime.kernels.parallel import scratch, scratch_at, share
from sparkflow_runtime.kernels.settled import Settled
from sparkflow_runtime.kernels.windows import Triple, Window

_BLOCK_BYTES = 1 << 18  # of padded images that are worked on at once
_PARTS = 32  # into which a batch is divided at least, for the threads
_SUMS = 8  # the same for the gradient of a filter, which has a partial sum for each
_ALONE = 1 << 20  # products that take as long as it takes to wake a thread
_ONE_SUM = 1 << 20  # products of which the gradient of a filter is one sum, for the threads gain nothing
_LINE = 64  # bytes: what follows the padded input begins on a cache line of its own
_SMALL = 1 << 16  # weights of a filter of which several partial gradients may be held
_MIN_WIDE, _MIN_MADE = 4, 4  # outputs of a row, and channels, below which tiles are mostly empty
# A filter of one tap is a product of two matrices, which BLAS computes as well where rows are few, or little is to do
_MIN_CELLS, _MIN_PRODUCT = 512, 1 << 25


_NATIVE = "sparkflow_runtime.kernels.conv_direct_native"
direct = Settled("Direct convolution", f"{__name__}:direct", _NATIVE, lanes, forward=8, gradient=8, products=12)
prepare = direct.prepare


class _Walk(NamedTuple):
    """What of a Window this needs, with no channels wasted: an axis that the filter spans whole is part of those."""

    size: Triple
    taps: Triple
    strides: Triple
    dilations: Triple
    before: Triple  # below 0: so many cells are never met
    out: Triple

    @classmethod
    def of(cls, win: Window) -> tuple[_Walk, bool]:
        """(the walk, whether width has become part of the channels)."""
        walk = cls(win.size, win.taps, win.strides, win.dilations, win.before, win.out)
        spanned = win.out[2] == 1 and win.taps[2] == win.size[2] and win.before[2] == 0 and win.dilations[2] == 1
        if not spanned:
            return walk, False
        fill = (1, 1, 1, 1, 0, 1)
        return cls(*((first, *axes[:2]) for first, axes in zip(fill, walk))), True

    @property
    def span(self) -> Triple:
        """Cells from the first tap to the last."""
        d, h, w = ((t - 1) * n + 1 for t, n in zip(self.taps, self.dilations))
        return d, h, w

    def needs(self, outputs: Triple) -> Triple:
        """Cells that so many neighbouring outputs see."""
        d, h, w = ((n - 1) * s + span for n, s, span in zip(outputs, self.strides, self.span))
        return d, h, w


def is_there() -> bool:
    """Whether its machine code is, which may be made while a program runs."""
    return bool(direct.functions)


def fits(x: np.ndarray, w: np.ndarray, win: Window, back: bool = False) -> bool:
    """Whether this way is open, and pays. back: for the gradient of the input; x is dy then."""
    if not is_there() or x.dtype != np.float32:
        return False
    if win.trivial:
        cells, takes, made = len(x) * int(np.prod(win.out)), *(w.shape[:2:-1] if back else w.shape[3:])
        return cells >= _MIN_CELLS and takes >= 2 * lanes() and made >= lanes() and cells * takes * made >= _MIN_PRODUCT
    walk, _ = _Walk.of(win)
    wide, made = walk.out[2], w.shape[-1]
    if back:
        wide, made = walk.size[2] // walk.strides[2], w.shape[-2]
        if max(walk.strides) > 1 and max(walk.dilations) > 1:
            return False
    return wide >= _MIN_WIDE and made >= _MIN_MADE


# ---------------------------------------------------------------------- plans


class _Plan(NamedTuple):
    words: np.ndarray  # conv_direct_layout.py
    pieces: int
    room: int  # bytes of words and padded input
    made: int  # bytes of a piece's output

    def divided(self, parts: int) -> Sequence[tuple[int, int]]:
        """(first, last) of each part's pieces."""
        return _divided(self.pieces, parts)


@lru_cache(256)
def _divided(pieces: int, parts: int) -> tuple[tuple[int, int], ...]:
    ends = [i * pieces // parts for i in range(parts + 1)]
    return tuple((first, last) for first, last in pairwise(ends) if last > first)


@lru_cache(256)
def _plan(walk: _Walk, images: int, channels: int, made: int, out_bytes: tuple[int, ...], least: int) -> _Plan:
    """For a batch of inputs, and outputs whose cells lie `out_bytes` apart, in `least` pieces or more."""
    group, axis, along = _division(walk, images, channels, least)
    parts = -(-walk.out[axis - 1] // along)
    outputs = list(walk.out)
    outputs[axis - 1] = along
    taps = walk.taps if walk.dilations[2] != 1 else (*walk.taps[:2], 1)
    length = channels * walk.taps[2] // taps[2]
    cells = [t * n for tap in np.ndindex(*taps) for t, n in zip(tap, walk.dilations)]
    division = [group, axis, along, parts]
    size, first = [images, *walk.size, 4 * channels], [-b for b in walk.before]
    filter_runs = [int(np.prod(taps)), length, *cells]
    words = [*division, *size, *first, *walk.strides, *walk.span, *walk.out, *out_bytes, made, *filter_runs]
    seen = group * int(np.prod(walk.needs((outputs[0], outputs[1], outputs[2])))) * 4 * channels
    room = 8 * (OFFSETS + len(cells) // 3) + seen + _LINE
    return _Plan(
        np.array(words, np.int64), -(-images // group) * parts, room, group * int(np.prod(outputs)) * 4 * _filled(made)
    )


def _division(walk: _Walk, images: int, channels: int, least: int) -> tuple[int, int, int]:
    """(images of a piece, the axis that is divided, outputs of a piece along it): whole images, several where they are
    small; where there are few, or they are large, parts of one."""
    axis = 1 if walk.out[0] > 1 else 2
    seen = walk.needs(walk.out)
    whole = 4 * channels * int(np.prod(seen))
    along, span, stride = walk.out[axis - 1], walk.span[axis - 1], walk.strides[axis - 1]
    if images >= least and whole <= 2 * _BLOCK_BYTES:
        return max(1, min(-(-images // least), _BLOCK_BYTES // whole)), axis, along
    cells = max(_BLOCK_BYTES // (whole // seen[axis - 1]), 2 * span)
    return 1, axis, max(1, min((cells - span) // stride + 1, -(-along * images // least), along))


def _filled(channels: int) -> int:
    """Channels of whole vectors."""
    return -(-channels // lanes()) * lanes()


def _packed(w: np.ndarray) -> np.ndarray:
    """Weights [*taps, channels, made] two vectors of made channels after another, the last ones filled with zeros;
    in memory of this thread (`scratch`) or in w's."""
    pair, (*inner, made) = 2 * lanes(), w.shape
    if made <= pair and made == _filled(made):
        return np.ascontiguousarray(w)
    rows, whole, filled = math.prod(inner), made // pair * pair, _filled(made)
    out = scratch("packed filter", (rows * filled,))
    if whole:
        # a pair's weights after those of the pair before
        pairs = w[..., :whole].reshape(*inner, -1, pair)
        out[: rows * whole].reshape(-1, *inner, pair)[...] = np.moveaxis(pairs, -2, 0)
    if made > whole:
        last = out[rows * whole :].reshape(*inner, filled - whole)
        last[..., : made - whole] = w[..., whole:]
        last[..., made - whole :] = 0
    return out


def _room(plan: _Plan) -> tuple[int, int]:
    """(the thread's room, where in it an output goes)."""
    room = scratch_at("direct convolution", plan.room + plan.made)
    return room, room + plan.room


# ---------------------------------------------------------------------- the three


def _convolve(x: np.ndarray, w: np.ndarray, walk: _Walk, y: np.ndarray) -> None:
    """y = x convolved with w [*taps, channels, made]; y's rows need not lie side by side."""
    plan = _plan(walk, len(x), x.shape[4], y.shape[4], y.strides[:4], _PARTS)
    weights = _packed(w)
    addresses = address(x), address(weights), address(y), address(plan.words)

    def work(parts: Sequence[tuple[int, int]]) -> None:
        direct.functions[0](*addresses, parts[0][0], parts[-1][1], *_room(plan))

    parts = plan.divided(_PARTS)
    if y.size * (w.size // w.shape[-1]) < _ALONE:
        work(parts)
    else:
        share(work, parts)


def forward(x: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    y = np.empty((len(x), *win.out, w.shape[-1]), np.float32)
    walk, flat = _Walk.of(win)
    x5, y5 = (_widthless(x), _rowless(y)) if flat else (x, y)
    if win.trivial and (wide := _long_row(y[..., 0].size)):
        high = y[..., 0].size // wide
        x5, y5 = x.reshape(1, 1, high, wide, -1), y.reshape(1, 1, high, wide, -1)
        walk = walk._replace(size=(1, high, wide), out=(1, high, wide))
    _convolve(x5, w, walk, y5)
    return y


@lru_cache(256)
def _long_row(cells: int) -> int:
    """How many cells make a row of whole tiles, as long as leaves enough of them for the threads; 0 where none do."""
    return max((w for w in range(tile(), 257, tile()) if cells % w == 0 and cells >= w * _PARTS // 2), default=0)


def by_input(dy: np.ndarray, w: np.ndarray, win: Window) -> np.ndarray:
    dx = np.empty((len(dy), *win.size, w.shape[-2]), np.float32)
    walk, flat = _Walk.of(win)
    dy5, dx5 = (_rowless(dy), _widthless(dx)) if flat else (dy, dx)
    w5 = w.reshape(*walk.taps, -1, w.shape[-1])
    for cells, taps, back in _phases(walk):
        part, used = dx5[cells], w5[taps]
        if used.size == 0:
            part[:] = 0
        elif part.size:
            _convolve(dy5, used[::-1, ::-1, ::-1].swapaxes(3, 4), back, part)
    return dx


@lru_cache(256)
def _phases(walk: _Walk) -> tuple[tuple[tuple[slice, ...], tuple[slice, ...], _Walk], ...]:
    """For each phase of the strides: (cells of the input, the taps that meet them, the walk over dy for those)."""
    axes = [
        [_phase(phase, size, *of_axis) for phase in range(stride)]
        for size, stride, *of_axis in zip(walk.size, walk.strides, walk.strides, walk.taps, walk.dilations, walk.before)
    ]
    found = [zip(*phases) for phases in product(*axes)]
    return tuple(
        ((slice(None), *cells), taps, _Walk(walk.out, counts, (1, 1, 1), walk.dilations, before, out))
        for cells, taps, counts, before, out in found
    )


def _phase(
    phase: int, size: int, stride: int, taps: int, dilation: int, before: int
) -> tuple[slice, slice, int, int, int]:
    first = (phase - before) % stride
    count = len(range(phase, taps, stride))
    # Tap `phase + stride * j` of output o meets cell `first + stride * m` where o = m + shift - j.
    shift = (first + before - phase) // stride
    return (
        slice(first, None, stride),
        slice(phase, None, stride),
        count,
        (count - 1) * dilation - shift,
        len(range(first, size, stride)),
    )


def by_filter(x: np.ndarray, dy: np.ndarray, win: Window) -> np.ndarray:
    """In a fixed number of partial sums, so that the number of threads does not change the bits."""
    walk, flat = _Walk.of(win)
    x5, dy5 = (_widthless(x), _rowless(dy)) if flat else (x, dy)
    made, weights = dy.shape[4], math.prod(walk.taps) * x5.shape[4]
    plan = _plan(walk, len(x), x5.shape[4], made, dy5.strides[:4], _SUMS)
    products = dy.size * weights
    parts = plan.divided(1 if products < _ONE_SUM else _SUMS if weights * made <= _SMALL else 2)
    sums = scratch("partial gradients", (len(parts), weights, _filled(made)))
    addresses = address(x5), address(dy5)

    def work(mine: Sequence[int]) -> None:
        for part in mine:
            sums[part] = 0
            direct.functions[1](*addresses, address(sums[part]), address(plan.words), *parts[part], *_room(plan))

    if products < _ALONE:
        work(range(len(parts)))
    else:
        share(work, range(len(parts)))
    return np.ascontiguousarray(sums.sum(0)[:, :made]).reshape(*win.taps, x.shape[4], made)


def _widthless(x: np.ndarray) -> np.ndarray:
    """An input whose width is part of its channels."""
    n, d, h, w, c = x.shape
    return x.reshape(n, 1, d, h, w * c)


def _rowless(y: np.ndarray) -> np.ndarray:
    """Its outputs, which are one wide."""
    n, d, h, _, c = y.shape
    return y.reshape(n, 1, d, h, c)
