"""Pools whose windows have two sizes, one cell apart, in an order that is TensorFlow's for a seed. Source:
Graham 2014."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import philox
from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.philox_loops import swapped
from sparkflow_runtime.kernels.random import stream_of
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _sequence(drawn: philox.Draws, size: int, out: int, even: bool) -> np.ndarray:
    """Where each of `out` windows over `size` cells begins, and the end; even: ceil(alpha (i + u)) for one random u."""
    least = size // out
    if size % out == 0:
        return np.arange(out + 1, dtype=np.int64) * least
    if even:
        alpha = size / out
        u = philox.Words(drawn.skip(1)).doubles(1)[0]
        u *= min((least + 2) / alpha - 1, (size + 1 - least) / alpha - (out - 1))
        inner = np.ceil(alpha * (np.arange(1, out) + u)).astype(np.int64) - 1
        return np.concatenate([[0], inner, [size]])
    order = np.arange(out)
    swapped(order, philox.Words(drawn.skip((out + 3) // 4)).take(out))
    return np.concatenate([[0], np.cumsum(least + (order < size - least * out))])


def _spans(sequence: tuple[int, ...], size: int, overlapping: bool) -> list[tuple[int, int]]:
    """(first, behind the last) cell of each window."""
    if len(sequence) < 2 or sequence[0] != 0 or any(b <= a for a, b in pairwise(sequence)):
        raise InvalidArgumentError(f"A pooling sequence must rise from 0, got {list(sequence)[:20]}")
    return [(a, min(b + overlapping, size)) for a, b in pairwise(sequence)]


def _shares(spans: list[tuple[int, int]], size: int, dtype: Any) -> np.ndarray:
    """[windows, cells]: 1 / the window's size where it has the cell."""
    out = np.zeros((len(spans), size), dtype)
    for row, (first, behind) in zip(out, spans):
        row[first:behind] = 1 / max(1, behind - first)
    return out


@bound("FractionalMaxPool", "FractionalAvgPool", multi=True)
def _pool(node: Node) -> Function:
    xp, ratios = node.xp, list(node.attrs["pooling_ratio"])
    even, overlapping = node.attr("pseudo_random", False), bool(node.attr("overlapping", False))
    stream, kept = stream_of(node), node.attr("deterministic", False)
    going_on = philox.Draws(stream)
    takes_max = node.op == "FractionalMaxPool"

    def run(x: Any) -> Any:
        if x.ndim != 4 or 0 in x.shape:
            raise InvalidArgumentError(f"{node.op}: value must be of rank 4 and not empty, got shape {list(x.shape)}")
        sizes = [(n, int(n / r)) for n, r in zip(x.shape[1:3], ratios[1:3])]
        if any(out < 1 for _, out in sizes):
            raise InvalidArgumentError(f"{node.op}: pooling_ratio {ratios} leaves nothing of shape {list(x.shape)}")
        drawn = philox.Draws(stream) if kept else going_on
        rows, columns = (_sequence(drawn, n, out, even) for n, out in sizes)
        y = x
        for axis, sequence in ((1, rows), (2, columns)):
            spans = _spans(tuple(sequence.tolist()), x.shape[axis], overlapping)
            parts = [xp.moveaxis(y, axis, 0)[first:behind] for first, behind in spans]
            parts = [p.max(0) if takes_max else p.mean(0, dtype=np.float64) for p in parts]
            y = xp.moveaxis(xp.stack(parts), 0, axis)
        return xp.ascontiguousarray(y.astype(x.dtype, copy=False)), xp.asarray(rows), xp.asarray(columns)

    return run


@kernel("FractionalAvgPoolGrad")
def _average_grad(xp: Any, shape: Any, dy: Any, rows: Any, columns: Any, *, overlapping: bool = False) -> Any:
    sizes = ints(shape)
    down, across = (
        xp.asarray(_shares(_spans(ints(s), n, overlapping), n, dy.dtype)) for s, n in zip((rows, columns), sizes[1:3])
    )
    tall = xp.tensordot(dy, down, ((1,), (0,)))  # [batch, columns, channels, height]
    return xp.ascontiguousarray(xp.transpose(xp.tensordot(tall, across, ((1,), (0,))), (0, 2, 3, 1)))


@kernel("FractionalMaxPoolGrad")
def _max_grad(xp: Any, x: Any, y: Any, dy: Any, rows: Any, columns: Any, *, overlapping: bool = False) -> Any:
    """To the first cell of each window, in row order, that has the window's maximum."""
    spans = [_spans(ints(s), n, overlapping) for s, n in zip((rows, columns), x.shape[1:3])]
    starts = [np.array([first for first, _ in one]) for one in spans]
    lengths = [np.array([behind - first for first, behind in one]) for one in spans]
    images = np.arange(len(x))
    out, open_ = xp.zeros_like(x), xp.ones(y.shape, bool)
    for down in range(int(lengths[0].max())):
        for across in range(int(lengths[1].max())):
            own = [np.flatnonzero(n > step) for n, step in zip(lengths, (down, across))]
            places = np.ix_(images, own[0], own[1])
            cells = np.ix_(images, starts[0][own[0]] + down, starts[1][own[1]] + across)
            hit = open_[places] & (x[cells] == y[places])
            out[cells] += xp.where(hit, dy[places], 0)
            open_[places] &= ~hit
    return out
