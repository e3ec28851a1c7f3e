"""Windows for frames of signals. Source: Harris 1978."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_select, math, math_reduce, operators  # noqa: F401 - x + y
from sparkflow.ops.math_bessel import bessel_i0e
from sparkflow_runtime.wire import dtypes


def _raised(name: str, a: float, b: float, window_length: Any, periodic: Any, dtype: Any, label: str | None) -> Tensor:
    """a - b cos(2 pi i / n)."""
    with get_default_graph().name_scope(label or name):
        want = dtypes.as_dtype(dtype)
        length = convert_to_tensor(window_length, dtypes.int32, "window_length")
        even = 1 - math.floormod(length, 2)
        n = math.cast(length + math.cast(convert_to_tensor(periodic, dtypes.bool_), dtypes.int32) * even - 1, want)
        count = math.cast(math.range(length), want)
        ring = math.cos(count * convert_to_tensor(2 * np.pi, want) / n)
        bell = convert_to_tensor(a, want) - convert_to_tensor(b, want) * ring
        return array_select.where(array.fill(array.shape(bell), math.equal(length, 1)), array.ones_like(bell), bell)


def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """[window_length]: 1/2 - 1/2 cos(2 pi i / n); periodic: n is even lengths' own, for transforms."""
    return _raised("hann_window", 0.5, 0.5, window_length, periodic, dtype, name)


def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """[window_length]: 0.54 - 0.46 cos(2 pi i / n), as hann_window."""
    return _raised("hamming_window", 0.54, 0.46, window_length, periodic, dtype, name)


def vorbis_window(window_length: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """[window_length]: sin(pi/2 sin^2(pi (i + 1/2) / n)), whose squares half a window apart add up to 1."""
    with get_default_graph().name_scope(name or "vorbis_window"):
        want = dtypes.as_dtype(dtype)
        length = convert_to_tensor(window_length, dtypes.int32, "window_length")
        place = (math.cast(math.range(length), want) + 0.5) * np.pi / math.cast(length, want)
        return math.sin(math.square(math.sin(place)) * (np.pi / 2))


def kaiser_window(window_length: Any, beta: Any = 12.0, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """[window_length]: I0(beta sqrt(1 - (2 i / (n - 1) - 1)^2)) / I0(beta)."""
    with get_default_graph().name_scope(name or "kaiser_window"):
        want = dtypes.as_dtype(dtype)
        length = convert_to_tensor(window_length, dtypes.int32, "window_length")
        half = math.cast(length - 1, want) / 2.0
        place = math.div_no_nan(math.cast(math.range(length), want) - half, half)
        width = convert_to_tensor(beta, want)
        inner = width * math.sqrt(math.maximum(1.0 - math.square(place), 0.0))
        return math.exp(inner - width) * bessel_i0e(inner) / bessel_i0e(width)


def kaiser_bessel_derived_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """[window_length], even: roots of the running sums of kaiser_window, there and back."""
    with get_default_graph().name_scope(name or "kaiser_bessel_derived_window"):
        length = convert_to_tensor(window_length, dtypes.int32, "window_length")
        half = length // 2
        sums = math_reduce.cumsum(kaiser_window(half + 1, beta, dtype))
        first = math.sqrt(sums[:-1] / sums[-1])
        out = array_join.concat([first, array.reverse(first, [0])], 0)
        known = constant_value(length)
        out.set_shape([None if known is None else int(known) // 2 * 2])
        return out


Window = Callable[..., Tensor]


def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Window = hann_window, name: str | None = None) -> Window:
    """The window for inverse_stft that undoes forward_window_fn: divided by the sum of its squares over all frames."""

    def window(frame_length: Any, dtype: Any) -> Tensor:
        with get_default_graph().name_scope(name or "inverse_stft_window_fn"):
            length, step = (convert_to_tensor(n, dtypes.int32) for n in (frame_length, frame_step))
            forward = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            padded = array.pad(math.square(forward), [[0, overlaps * step - length]])
            sums = math_reduce.reduce_sum(array.reshape(padded, [overlaps, step]), 0, keepdims=True)
            return forward / array.reshape(array.tile(sums, [overlaps, 1]), [overlaps * step])[:length]

    return window
