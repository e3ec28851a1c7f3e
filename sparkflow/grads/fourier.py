"""Gradients of Fourier transforms: a transform's adjoint is its inverse times the number of values."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import (
    array,
    fourier,
    math,
    operators,  # noqa: F401 - x + y on tensors
)
from sparkflow.ops.array_join import concat
from sparkflow.ops.math_reduce import reduce_prod

_RANKS = {"": 1, "2D": 2, "3D": 3}


def _count(x: Tensor, rank: int, dtype: Any) -> Tensor:
    return math.cast(reduce_prod(array.shape(x)[-rank:]), dtype)


def _complex(suffix: str, rank: int) -> None:
    forward, back = getattr(fourier, f"fft{suffix.lower()}"), getattr(fourier, f"ifft{suffix.lower()}")
    gradient(f"FFT{suffix}")(lambda op, dy: back(dy) * _count(dy, rank, dy.dtype))
    gradient(f"IFFT{suffix}")(lambda op, dy: forward(dy) / _count(dy, rank, dy.dtype))


for _suffix, _rank in _RANKS.items():
    _complex(_suffix, _rank)


def _halved(x: Tensor, n: Tensor, scale: float) -> Tensor:
    """Along the last axis, what stands for itself and its mirror image times scale; the first one and, of an even n,
    the last one stand for themselves."""
    kept = n // 2 + 1
    even = 1 - math.floormod(n, 2)
    inner = array.fill(apply_op("Pack", [[kept - 1 - even]]), convert_to_tensor(scale, x.dtype.base_dtype))
    one = array.fill([1], convert_to_tensor(1, x.dtype.base_dtype))
    last = array.fill(apply_op("Pack", [[even]]), convert_to_tensor(1, x.dtype.base_dtype))
    return x * concat([one, inner, last], 0)


@gradient("RFFT", "RFFT2D")
def _rfft(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """Re of the unscaled backward transform of dy, in which every value stands for itself alone."""
    x, length = op.inputs
    rank = 2 if op.type.endswith("2D") else 1

    def grad() -> Tensor:
        back = apply_op("IRFFT2D" if rank == 2 else "IRFFT", [_halved(dy, length[-1], 0.5), length],
                        {"Treal": x.dtype.base_dtype, "Tcomplex": dy.dtype.base_dtype})  # fmt: skip
        scaled = back * math.cast(reduce_prod(length), x.dtype)
        return _filled(scaled, x, rank)

    return grad, None


@gradient("IRFFT", "IRFFT2D")
def _irfft(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    x, length = op.inputs
    rank = 2 if op.type.endswith("2D") else 1

    def grad() -> Tensor:
        forward = apply_op("RFFT2D" if rank == 2 else "RFFT", [dy, length],
                           {"Treal": dy.dtype.base_dtype, "Tcomplex": x.dtype.base_dtype})  # fmt: skip
        scaled = _halved(forward, length[-1], 2.0) / math.cast(reduce_prod(length), x.dtype)
        return _filled(scaled, x, rank)

    return grad, None


def _filled(part: Tensor, x: Tensor, rank: int) -> Tensor:
    """part with zeros behind, along the last axes, up to x's shape: what was cut off has no gradient."""
    missing = array.shape(x) - array.shape(part)
    padded = array.pad(part, apply_op("Pack", [[array.zeros_like(missing), missing]], {"axis": 1}))
    padded.set_shape(x.shape)
    return padded
