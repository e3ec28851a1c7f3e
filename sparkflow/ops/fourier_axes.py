"""Discrete Fourier transforms over any axes, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, fourier, math
from sparkflow_runtime.wire.dtypes import complex64, float32


def _along(x: Tensor, axis: int, act: Callable[[Tensor], Tensor]) -> Tensor:
    """What act makes of x with that axis at the end, put back."""
    rank = x.shape.ndims or 0
    if axis == rank - 1:
        return act(x)
    order = [i for i in range(rank) if i != axis] + [axis]
    return array.transpose(act(array.transpose(x, order)), [order.index(i) for i in range(rank)])


def _chosen(what: str, x: Tensor, fft_length: Any, axes: Any, norm: str | None) -> tuple[list[int], list[int | None]]:
    """(the axes, the length of each, None for its own)."""
    rank = x.shape.ndims
    if rank is None:
        raise ValueError(f"{what}: the rank of the input must be known")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"{what}: norm must be backward, ortho or forward, got {norm!r}")
    lengths: Sequence[Any] = []
    if fft_length is not None:
        known = constant_value(convert_to_tensor(fft_length))
        if known is None:
            raise ValueError(f"{what}: fft_length must be known while the graph is built")
        lengths = [int(n) for n in known.ravel()]
    count = len(lengths) if fft_length is not None else rank
    listed = list(range(rank - count, rank)) if axes is None else [int(a) % rank for a in axes]
    if len(set(listed)) != len(listed) or (fft_length is not None and len(lengths) != len(listed)):
        raise ValueError(f"{what}: axes {axes!r} must differ, and be as many as the sizes of fft_length {fft_length!r}")
    return listed, list(lengths) or [None] * len(listed)


def _sized(x: Tensor, axis: int, length: int | None) -> Tensor:
    """Cut, or filled with zeros, to that length."""
    size = x.shape[axis].value
    if length is None or size == length:
        return x
    if size is None:
        raise ValueError(f"fftnd: the size of axis {axis} must be known, got shape {x.shape}")
    if size > length:
        return x[(slice(None),) * axis + (slice(0, length),)]
    return array.pad(x, [[0, length - size if i == axis else 0] for i in range(x.shape.ndims or 0)])


def _scaled(x: Tensor, count: Any, norm: str | None, inverse: bool) -> Tensor:
    """norm: which way is divided by the number of values, which the inverse is by itself."""
    if norm in (None, "backward"):
        return x
    factor = (sqrt(count) if inverse else 1 / sqrt(count)) if norm == "ortho" else (count if inverse else 1 / count)
    return math.multiply(x, convert_to_tensor(factor, x.dtype.base_dtype))


def _count(x: Tensor, axes: Sequence[int], norm: str | None) -> int:
    found = 1
    for axis in axes:
        size = x.shape[axis].value
        if size is None and norm not in (None, "backward"):
            raise ValueError(f"fftnd: with norm={norm!r} the sizes must be known, got shape {x.shape}")
        found *= size or 1
    return found


def _complex(what: str, inverse: bool) -> Callable[..., Tensor]:
    one = fourier.ifft if inverse else fourier.fft

    def build(
        input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
    ) -> Tensor:
        with get_default_graph().name_scope(name or what):
            x = convert_to_tensor(input_tensor)
            listed, lengths = _chosen(what, x, fft_length, axes, norm)
            for axis, length in zip(listed, lengths):
                x = _sized(x, axis, length)
            for axis in reversed(listed):
                x = _along(x, axis, one)
            return _scaled(x, _count(x, listed, norm), norm, inverse)

    build.__name__ = build.__qualname__ = what
    build.__doc__ = (
        f"The {'inverse ' if inverse else ''}discrete Fourier transform over `axes`, the last ones by default."
    )
    return build


fftnd, ifftnd = _complex("fftnd", False), _complex("ifftnd", True)


def rfftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """fftnd of real values, of which the last axis keeps n // 2 + 1."""
    with get_default_graph().name_scope(name or "rfftnd"):
        x = convert_to_tensor(input_tensor)
        listed, lengths = _chosen("rfftnd", x, fft_length, axes, norm)
        for axis, length in zip(listed, lengths):
            x = _sized(x, axis, length)
        count = _count(x, listed, norm)
        x = _along(x, listed[-1], fourier.rfft)
        for axis in reversed(listed[:-1]):
            x = _along(x, axis, fourier.fft)
        return _scaled(x, count, norm, False)


def irfftnd(
    input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse of rfftnd; the last of fft_length is the size that the last axis had, an even one by default."""
    with get_default_graph().name_scope(name or "irfftnd"):
        x = convert_to_tensor(input_tensor)
        listed, lengths = _chosen("irfftnd", x, fft_length, axes, norm)
        for axis, length in zip(listed[:-1], lengths[:-1]):
            x = _along(_sized(x, axis, length), axis, fourier.ifft)
        last = lengths[-1]
        x = _along(x, listed[-1], lambda t: fourier.irfft(t, None if last is None else [last]))
        return _scaled(x, _count(x, listed, norm), norm, True)


# What tf.fftnd and the others are, beside tf.signal's: the ops' own arguments.


def fftnd_op(input: Any, fft_length: Any, axes: Any, name: str | None = None) -> Tensor:
    """tf.signal.fftnd of these lengths along these axes."""
    return fftnd(input, fft_length, axes, name=name)


def ifftnd_op(input: Any, fft_length: Any, axes: Any, name: str | None = None) -> Tensor:
    """tf.signal.ifftnd of these lengths along these axes."""
    return ifftnd(input, fft_length, axes, name=name)


def rfftnd_op(input: Any, fft_length: Any, axes: Any, Tcomplex: Any = complex64, name: str | None = None) -> Tensor:
    """tf.signal.rfftnd of these lengths along these axes, as Tcomplex."""
    return math.cast(rfftnd(input, fft_length, axes, name=name), Tcomplex)


def irfftnd_op(input: Any, fft_length: Any, axes: Any, Treal: Any = float32, name: str | None = None) -> Tensor:
    """tf.signal.irfftnd of these lengths along these axes, as Treal."""
    return math.cast(irfftnd(input, fft_length, axes, name=name), Treal)
