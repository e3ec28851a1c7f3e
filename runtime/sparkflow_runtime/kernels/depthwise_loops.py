"""The hot loops of depthwise convolutions with one filter a channel: a tap at a time, over the cells that it meets.

Outputs and cells count through the batch, as rows of [batch * depth * height * width, channels]; `w` and `dw` are
[taps, channels]. `numbers` is Window.numbers. Both versions add in the order of the taps, and by filter in that of the
outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.window_loops import cell, inner_taps, place

_FIVE, _TWO = "Array({0}, 5, 'C', readonly=True)", "Array({0}, 2, 'C', readonly=True)"
_MORE = "Array(int64, 1, 'C', readonly=True), int64, int64"


def _signatures(*arrays: str) -> list[str]:
    text = f"void({', '.join(arrays)}, {_MORE})"
    return [text.format(kind) for kind in ("float32", "float64")]


@compiled(_signatures(_FIVE, _TWO, "{0}[:,::1]"), uses=[place, cell])
def filtered(x: Any, w: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    """y[output] += x[cell] w[tap], for the outputs from `start` to `stop`."""
    channels, cells = np.uint64(x.shape[4]), x.reshape(-1, x.shape[4])
    for output in range(start, stop):
        here = place(numbers, output)
        for th in range(numbers[1]):
            for tw in range(numbers[2]):
                at = cell(numbers, x.shape, here, 0, th, tw)
                if at >= 0:
                    tap = th * numbers[2] + tw
                    for c in range(channels):
                        y[output, c] += cells[at, c] * w[tap, c]


@filtered.otherwise
def _(x: Any, w: Any, y: Any, numbers: Any, start: Any, stop: Any) -> None:
    a, b = _images(numbers, start, stop)
    y5 = y.reshape(-1, *numbers[12:15].tolist(), x.shape[4])[a:b]
    for tap, cells, outputs in inner_taps(x.shape[1:4], numbers):
        y5[outputs] += x[a:b][cells] * w[tap]


@compiled(_signatures("{0}[:,:,:,:,::1]", _TWO, _TWO), uses=[place, cell])
def spread_back(dx: Any, w: Any, dy: Any, numbers: Any, start: Any, stop: Any) -> None:
    """dx[cell] += dy[output] w[tap], for the outputs from `start` to `stop`: whole images."""
    channels, cells = np.uint64(dx.shape[4]), dx.reshape(-1, dx.shape[4])
    for th in range(numbers[1]):
        for tw in range(numbers[2]):
            tap = th * numbers[2] + tw
            for output in range(start, stop):
                at = cell(numbers, dx.shape, place(numbers, output), 0, th, tw)
                if at >= 0:
                    for c in range(channels):
                        cells[at, c] += dy[output, c] * w[tap, c]


@spread_back.otherwise
def _(dx: Any, w: Any, dy: Any, numbers: Any, start: Any, stop: Any) -> None:
    a, b = _images(numbers, start, stop)
    dy5 = dy.reshape(-1, *numbers[12:15].tolist(), dx.shape[4])[a:b]
    for tap, cells, outputs in inner_taps(dx.shape[1:4], numbers):
        dx[a:b][cells] += dy5[outputs] * w[tap]


@compiled(_signatures(_FIVE, _TWO, "{0}[:,::1]"), uses=[place, cell])
def filter_gradient(x: Any, dy: Any, dw: Any, numbers: Any, start: Any, stop: Any) -> None:
    """dw[tap] += x[cell] dy[output], of zeros, for the taps from `start` to `stop`."""
    channels, cells = np.uint64(x.shape[4]), x.reshape(-1, x.shape[4])
    for tap in range(start, stop):
        th, tw = divmod(tap, numbers[2])
        for output in range(dy.shape[0]):
            at = cell(numbers, x.shape, place(numbers, output), 0, th, tw)
            if at >= 0:
                for c in range(channels):
                    dw[tap, c] += cells[at, c] * dy[output, c]


@filter_gradient.otherwise
def _(x: Any, dy: Any, dw: Any, numbers: Any, start: Any, stop: Any) -> None:
    channels = x.shape[4]
    dy5 = dy.reshape(-1, *numbers[12:15].tolist(), channels)
    for tap, cells, outputs in inner_taps(x.shape[1:4], numbers):
        parts = (x[cells] * dy5[outputs]).reshape(-1, channels)
        if start <= tap < stop and parts.size:
            dw[tap] = np.cumsum(parts, 0, dtype=dw.dtype)[-1] + dw.dtype.type(0)


def _images(numbers: Any, start: int, stop: int) -> tuple[int, int]:
    outputs = int(numbers[12] * numbers[13] * numbers[14])
    return start // max(1, outputs), stop // max(1, outputs)
