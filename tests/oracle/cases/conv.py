"""Convolutions, pools, normalisation over channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.oracle.cases.table import cases
from tests.oracle.cases.values import WIDE, i32, noise, np_dtype, positive, ramp
from tests.oracle.compare import SUM, Tolerance

_GOOD = {"grad": True}
_TWICE = {"grad": True, "second": True}
_SUMS = Tolerance(32, scaled=True)

# ---------------------------------------------------------------------- convolutions


def _windows(stride: int, padding: str, dilation: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "strides": [1, stride, stride, 1],
        "padding": padding,
        "dilations": [1, dilation, dilation, 1],
        **more,
    }


def _convolutions(dtype: str) -> Iterator[Any]:
    x, w = noise(dtype, 2, 7, 6, 3), noise(dtype, 3, 2, 3, 4, seed=4)
    own = _GOOD if dtype in WIDE else {}
    for padding in ("SAME", "VALID"):
        for stride in (1, 2, 3):
            yield f"{padding}-stride{stride}", [x, w], _windows(stride, padding), own
        yield f"{padding}-dilated", [x, w], _windows(1, padding, 2)  # TensorFlow has no gradient of these on a CPU
    yield "twice", [x, w], _windows(2, "SAME"), _TWICE if dtype in WIDE else {}
    explicit = {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
    yield "explicit", [x, w], {**_windows(2, "SAME"), **explicit}, own
    yield "one-by-one", [x, noise(dtype, 1, 1, 3, 5)], _windows(1, "VALID"), own
    yield "one-by-one-stride", [x, noise(dtype, 1, 1, 3, 5)], _windows(2, "SAME"), own
    yield "whole", [x, noise(dtype, 7, 6, 3, 2)], _windows(1, "VALID"), own
    yield "larger-than-input", [x, noise(dtype, 9, 3, 3, 2)], _windows(1, "SAME"), own
    yield "groups", [noise(dtype, 2, 5, 5, 4), noise(dtype, 3, 3, 2, 6)], _windows(1, "SAME")
    yield "a channel each", [noise(dtype, 2, 5, 5, 4), noise(dtype, 3, 3, 1, 8)], _windows(1, "SAME")
    yield "no-images", [x[:0], w], _windows(1, "SAME")
    yield "too-large", [x, noise(dtype, 9, 3, 3, 2)], _windows(1, "VALID")
    yield "channels", [x, noise(dtype, 3, 3, 2, 4)], _windows(1, "SAME")
    yield "rank", [x[0], w], _windows(1, "SAME")
    yield "zero-stride", [x, w], _windows(0, "SAME")
    yield "padding", [x, w], _windows(1, "AROUND")


def _backward(inputs: Any) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x, w = noise(dtype, 2, 7, 6, 3), noise(dtype, 3, 2, 3, 4, seed=4)
        for padding, stride, dilation in (
            ("SAME", 1, 1),
            ("SAME", 2, 1),
            ("VALID", 1, 1),
            ("VALID", 2, 1),
        ):
            out = [
                -(-n // stride) if padding == "SAME" else (n - (k - 1) * dilation - 1) // stride + 1
                for n, k in zip(x.shape[1:3], w.shape[:2])
            ]
            dy = noise(dtype, 2, *out, 4, seed=8)
            label = f"{padding}-{stride}-{dilation}"
            yield label, inputs(x, w, dy), _windows(stride, padding, dilation), _GOOD if dtype in WIDE else {}
        yield "mismatch", inputs(x, w, dy[:, :2]), _windows(1, "SAME")

    return make


_FLOATS = ("float32", "float64", "float16", "bfloat16")
cases("Conv2D", _FLOATS, _convolutions, _SUMS)
cases("Conv2DBackpropInput", WIDE, _backward(lambda x, w, dy: [i32(*x.shape), w, dy]), _SUMS)
cases("Conv2DBackpropFilter", WIDE, _backward(lambda x, w, dy: [x, i32(*w.shape), dy]), _SUMS)


def _depthwise(dtype: str) -> Iterator[Any]:
    x, w = noise(dtype, 2, 6, 5, 3), noise(dtype, 3, 2, 3, 2, seed=4)
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            own = _GOOD if dtype in WIDE else {}
            yield f"{padding}-stride{stride}", [x, w], _windows(stride, padding), own
    yield "channels", [x, noise(dtype, 3, 3, 2, 2)], _windows(1, "SAME")
    yield "no-images", [x[:0], w], _windows(1, "SAME")


def _depthwise_backward(inputs: Any) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x, w = noise(dtype, 2, 6, 5, 3), noise(dtype, 3, 2, 3, 2, seed=4)
        for padding, stride in ("SAME", 1), ("SAME", 2), ("VALID", 1):
            out = [
                -(-n // stride) if padding == "SAME" else (n - k) // stride + 1
                for n, k in zip(x.shape[1:3], w.shape[:2])
            ]
            dy = noise(dtype, 2, *out, 6, seed=8)
            yield f"{padding}-{stride}", inputs(x, w, dy), _windows(stride, padding), _GOOD

    return make


cases("DepthwiseConv2dNative", _FLOATS, _depthwise, _SUMS)
_by_input, _by_filter = (lambda x, w, dy: [i32(*x.shape), w, dy]), (lambda x, w, dy: [x, i32(*w.shape), dy])
cases("DepthwiseConv2dNativeBackpropInput", WIDE, _depthwise_backward(_by_input), _SUMS)
cases("DepthwiseConv2dNativeBackpropFilter", WIDE, _depthwise_backward(_by_filter), _SUMS)


def _deep(dtype: str) -> Iterator[Any]:
    x, w = noise(dtype, 2, 4, 5, 6, 2), noise(dtype, 2, 3, 2, 2, 3, seed=4)
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            attrs = {"strides": [1, stride, stride, stride, 1], "padding": padding}
            yield f"{padding}-stride{stride}", [x, w], attrs, _GOOD
    yield "channels", [x, w[..., :1, :]], {"strides": [1] * 5, "padding": "SAME"}


def _deep_backward(inputs: Any) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x, w = noise(dtype, 2, 4, 5, 6, 2), noise(dtype, 2, 3, 2, 2, 3, seed=4)
        for stride, out in (1, (4, 5, 6)), (2, (2, 3, 3)):
            attrs = {"strides": [1, stride, stride, stride, 1], "padding": "SAME"}
            yield f"stride{stride}", inputs(x, w, noise(dtype, 2, *out, 3, seed=8)), attrs, _GOOD

    return make


cases("Conv3D", WIDE, _deep, _SUMS)
cases("Conv3DBackpropInputV2", WIDE, _deep_backward(_by_input), _SUMS)
cases("Conv3DBackpropFilterV2", WIDE, _deep_backward(_by_filter), _SUMS)

# ---------------------------------------------------------------------- pools


def _pool(size: int, stride: int, padding: str) -> dict[str, Any]:
    return {"ksize": [1, size, size, 1], "strides": [1, stride, stride, 1], "padding": padding}


def _pooled(dtype: str) -> Iterator[Any]:
    x = ramp(dtype, 2, 7, 6, 3)
    for padding in ("SAME", "VALID"):
        for size, stride in (2, 2), (3, 2), (3, 1), (2, 3):
            own = _GOOD if dtype in WIDE else {}
            yield f"{padding}-{size}-{stride}", [x], _pool(size, stride, padding), own
    if dtype in WIDE:
        yield "twice", [noise(dtype, 2, 6, 6, 3)], _pool(2, 2, "SAME"), _TWICE
        yield "ties", [np.ones((1, 4, 4, 1), np_dtype(dtype))], _pool(3, 1, "SAME"), _GOOD
    yield "no-images", [x[:0]], _pool(2, 2, "SAME")
    yield "too-large", [x], _pool(8, 1, "VALID")
    yield "rank", [x[0]], _pool(2, 2, "SAME")


cases("MaxPool", (*_FLOATS, "int32", "int64", "uint8"), _pooled, SUM)
cases("AvgPool", _FLOATS, _pooled, SUM)
cases(
    "MaxPoolV2",
    WIDE,
    lambda d: [
        (f"{p}-{s}", [noise(d, 2, 6, 5, 2), i32(1, 2, 2, 1), i32(1, s, s, 1)], {"padding": p}, _GOOD)
        for p in ("SAME", "VALID")
        for s in (1, 2)
    ],
    SUM,
)


def _pool_gradients(dtype: str) -> Iterator[Any]:
    """(what came in, what came out, its gradient) of a real pool, as the kernels expect."""
    for size, stride in (2, 2), (3, 1):
        x = noise(dtype, 2, 6, 6, 2)
        out = _max_pooled(x, size, stride)
        yield f"{size}-{stride}", [x, out, noise(dtype, *out.shape, seed=7)], _pool(size, stride, "VALID"), _GOOD


def _max_pooled(x: np.ndarray, size: int, stride: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (1, 2))[:, ::stride, ::stride]
    return np.ascontiguousarray(windows.max((-1, -2)))


cases("MaxPoolGrad", WIDE, _pool_gradients, SUM)
cases(
    "MaxPoolGradV2",
    WIDE,
    lambda d: [
        (label, [*arrays, i32(*attrs["ksize"]), i32(*attrs["strides"])], {"padding": "VALID"}, _GOOD)
        for label, arrays, attrs, _ in _pool_gradients(d)
    ],
    SUM,
)
cases(
    "MaxPoolGradGradV2",
    WIDE,
    lambda d: [
        (label, [x, out, noise(d, *x.shape, seed=9), i32(*a["ksize"]), i32(*a["strides"])], {"padding": "VALID"})
        for label, (x, out, _), a, _ in _pool_gradients(d)
    ],
    SUM,
)
cases(
    "MaxPoolGradGrad",
    WIDE,
    lambda d: [
        (label, [x, out, noise(d, *x.shape, seed=9)], attrs, _GOOD)
        for label, (x, out, _), attrs, _ in _pool_gradients(d)
    ],
    SUM,
)
cases(
    "AvgPoolGrad",
    WIDE,
    lambda d: [
        ("valid", [i32(2, 6, 6, 2), noise(d, 2, 3, 3, 2)], _pool(2, 2, "VALID"), _GOOD),
        ("same", [i32(2, 5, 5, 2), noise(d, 2, 3, 3, 2)], _pool(3, 2, "SAME"), _GOOD),
    ],
    SUM,
)


def _argmax_pools(dtype: str) -> Iterator[Any]:
    for include in (False, True):
        for padding in ("SAME", "VALID"):
            attrs = {**_pool(2, 2, padding), "include_batch_in_index": include}
            yield f"{padding}-{include}", [noise(dtype, 2, 5, 6, 3)], attrs, _GOOD


def _argmax_gradients(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 1, 2, 2, 1)
    attrs = _pool(2, 2, "VALID")
    at = np.array([[[[int(x.argmax())]]]], np.int64)
    yield "one", [x, noise(dtype, 1, 1, 1, 1, seed=3), at], attrs


cases("MaxPoolWithArgmax", WIDE, _argmax_pools, SUM)
cases("MaxPoolGradWithArgmax", WIDE, _argmax_gradients, SUM)
cases(
    "MaxPoolGradGradWithArgmax",
    WIDE,
    lambda d: [
        (label, [x, noise(d, *x.shape, seed=9), at], attrs) for label, (x, _, at), attrs in _argmax_gradients(d)
    ],
    SUM,
)


def _deep_pools(dtype: str) -> Iterator[Any]:
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            attrs = {"ksize": [1, 2, 2, 2, 1], "strides": [1, stride, stride, stride, 1], "padding": padding}
            yield f"{padding}-{stride}", [noise(dtype, 2, 4, 5, 6, 2)], attrs, _GOOD


_DEEP_POOL = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}


def _deep_max(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x = noise(dtype, 1, 4, 4, 4, 2)
    return x, np.ascontiguousarray(x.reshape(1, 2, 2, 2, 2, 2, 2, 2).max((2, 4, 6)))


cases("MaxPool3D", WIDE, _deep_pools, SUM)
cases("AvgPool3D", WIDE, _deep_pools, SUM)
cases(
    "AvgPool3DGrad", WIDE, lambda d: [("valid", [i32(1, 4, 4, 4, 2), noise(d, 1, 2, 2, 2, 2)], _DEEP_POOL, _GOOD)], SUM
)
cases("MaxPool3DGrad", WIDE, lambda d: [("valid", [*_deep_max(d), noise(d, 1, 2, 2, 2, 2)], _DEEP_POOL, _GOOD)], SUM)
cases(
    "MaxPool3DGradGrad", WIDE, lambda d: [("valid", [*_deep_max(d), noise(d, 1, 4, 4, 4, 2)], _DEEP_POOL, _GOOD)], SUM
)

# ---------------------------------------------------------------------- normalisation


def _normalised(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 2, 3, 3, 4)
    scale, offset = positive("float32", 4), noise("float32", 4, seed=3)
    none = np.zeros(0, np.float32)
    for epsilon in (1e-3, 0.1):
        yield f"training-{epsilon}", [x, scale, offset, none, none], {"is_training": True, "epsilon": epsilon}, _GOOD
    given = [x, scale, offset, noise("float32", 4, seed=5), positive("float32", 4, seed=6)]
    # of the other outputs TensorFlow gives whatever was in memory
    yield "inference", given, {"is_training": False, "epsilon": 1e-3}, {"outputs": (0, 1, 2), **_GOOD}
    yield "averaged", given, {"is_training": True, "epsilon": 1e-3, "exponential_avg_factor": 0.3}


def _normalised_old(dtype: str) -> Iterator[Any]:
    yield from (c for c in _normalised(dtype) if c[0] != "averaged")


def _norm_gradients(reserves: int) -> Any:
    def make(dtype: str) -> Iterator[Any]:
        x, dy, scale = noise(dtype, 2, 3, 3, 4), noise(dtype, 2, 3, 3, 4, seed=2), positive("float32", 4)
        mean, variance = noise("float32", 4, seed=5), positive("float32", 4, seed=6)
        spare = [np.zeros(0, np.float32)] * (reserves - 2)
        attrs = {"is_training": False, "epsilon": 1e-3}
        yield "inference", [dy, x, scale, mean, variance, *spare], attrs
        wide = x.astype(np.float32)
        mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
        yield "training", [dy, x, scale, mean, variance, *spare], {**attrs, "is_training": True}, _GOOD

    return make


_NORM = Tolerance(64, scaled=True)
cases("FusedBatchNorm", ("float32",), _normalised_old, _NORM)
cases("FusedBatchNormV2", ("float32",), _normalised_old, _NORM)
cases("FusedBatchNormV3", ("float32",), _normalised, _NORM)
cases("FusedBatchNormGrad", ("float32",), _norm_gradients(2), _NORM)
cases("FusedBatchNormGradV2", ("float32",), _norm_gradients(2), _NORM)
cases("FusedBatchNormGradV3", ("float32",), _norm_gradients(3), _NORM)


def _responses(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 2, 3, 3, 7)
    yield "default", [x], {}, _GOOD
    yield "narrow", [x], {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}, _GOOD
    yield "wide", [x], {"depth_radius": 9, "bias": 1.0, "alpha": 0.1, "beta": 0.5}, _GOOD


def _response_gradients(dtype: str) -> Iterator[Any]:
    x = noise(dtype, 2, 3, 3, 7)
    attrs = {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}
    window = np.pad(x.astype(np.float64) ** 2, [(0, 0)] * 3 + [(2, 2)])
    sums = sum(window[..., i : i + 7] for i in range(5))
    y = (x * (1.5 + 0.3 * sums) ** -0.75).astype(x.dtype)
    yield "narrow", [noise(dtype, *x.shape, seed=4), x, y], attrs


cases("LRN", ("float32",), _responses, _NORM)
cases("LRNGrad", ("float32",), _response_gradients, _NORM)
