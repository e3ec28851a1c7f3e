"""Windows laid out as columns, grey-scale morphology, pools with windows of changing sizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import WIDE, i64, noise, ramp
from tests.oracle.compare import SAME, SUM

_WINDOWS = (([2, 3], [1, 2], [1, 1]), ([3, 2], [2, 1], [2, 2]), ([1, 1], [1, 1], [1, 1]))


def _patches(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 6, 7, 3)
    for k, s, r in _WINDOWS:
        for padding in ("SAME", "VALID"):
            attrs = {"ksizes": [1, *k, 1], "strides": [1, *s, 1], "rates": [1, *r, 1], "padding": padding}
            yield f"{k}{padding}", [x], attrs
    yield "rank", [x[0]], attrs
    yield "channels", [x], {**attrs, "ksizes": [1, 2, 2, 2]}


def _volumes(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 4, 5, 3, 2)
    for padding in ("SAME", "VALID"):
        attrs = {"ksizes": [1, 2, 3, 1, 1], "strides": [1, 2, 1, 1, 1], "padding": padding}
        yield padding, [x], attrs


def _dilations(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 2, 6, 7, 3) if dtype in WIDE else ramp(dtype, 2, 6, 7, 3)
    for k, s, r in _WINDOWS:
        taps = noise(dtype, *k, 3, seed=4) if dtype in WIDE else ramp(dtype, *k, 3)
        for padding in ("SAME", "VALID"):
            attrs = {"strides": [1, *s, 1], "rates": [1, *r, 1], "padding": padding}
            yield f"{k}{padding}", [x, taps], attrs, {"grad": dtype in WIDE}
    yield "channels", [x, taps[:, :, :2]], attrs


def _dilation_grads(dtype: str) -> Iterator[Any]:
    attrs = {"strides": [1, 1, 2, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    inputs = [noise(dtype, 2, 4, 5, 2), noise(dtype, 2, 3, 2, seed=3), noise(dtype, 2, 4, 3, 2, seed=5)]
    yield "some", inputs, attrs
    yield "shape", [*inputs[:2], inputs[2][:, :3]], attrs


def _even(dtype: str, grad: bool = True) -> Iterator[Any]:
    """Where the sizes divide there is nothing random."""
    for overlapping in (False, True):
        attrs = {"pooling_ratio": [1.0, 2.0, 3.0, 1.0], "overlapping": overlapping, "deterministic": True, "seed": 3}
        yield f"{overlapping}", [noise(dtype, 2, 6, 9, 2)], attrs, {"grad": grad}
    yield "ratio", [noise(dtype, 2, 6, 9, 2)], {"pooling_ratio": [1.0, 0.5, 3.0, 1.0]}


_ROWS, _COLUMNS = i64(0, 2, 3, 5), i64(0, 1, 3)


def _largest_grads(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 2, 5, 3, 2)
    for overlapping in (False, True):
        ends = [(r, min(e + overlapping, 5)) for r, e in pairwise(_ROWS)]
        sides = [(c, min(e + overlapping, 3)) for c, e in pairwise(_COLUMNS)]
        y = np.stack([np.stack([x[:, a:b, c:d].max((1, 2)) for c, d in sides], 1) for a, b in ends], 1)
        yield f"{overlapping}", [x, y, noise(dtype, *y.shape, seed=3), _ROWS, _COLUMNS], {"overlapping": overlapping}


def _mean_grads(dtype: str) -> Iterator[Any]:
    for overlapping in (False, True):
        inputs = [i64(2, 5, 3, 2), noise(dtype, 2, 3, 2, 2), _ROWS, _COLUMNS]
        yield f"{overlapping}", inputs, {"overlapping": overlapping}


cases("ExtractImagePatches", (*WIDE, "int32", "uint8"), _patches, SAME)
cases("ExtractVolumePatches", (*WIDE, "int32"), _volumes, SAME)
cases("Dilation2D", (*WIDE, "int32", "uint8"), _dilations, SAME)
cases("Dilation2DBackpropInput", WIDE, _dilation_grads, SUM)
cases("Dilation2DBackpropFilter", WIDE, _dilation_grads, SUM)
cases("FractionalMaxPool", WIDE, _even)
cases("FractionalAvgPool", WIDE, lambda d: _even(d, False), SUM)  # TensorFlow's gradient wants a known shape
cases("FractionalMaxPoolGrad", WIDE, _largest_grads, SUM)
cases("FractionalAvgPoolGrad", WIDE, _mean_grads, SUM)
