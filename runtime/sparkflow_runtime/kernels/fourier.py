"""Discrete Fourier transforms, by numpy's (or cupy's) own."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.host import ints
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

_RANKS = {"": 1, "2D": 2, "3D": 3}


def _complex(op: str, name: str, rank: int) -> None:
    axes = tuple(range(-rank, 0))

    def run(xp: Any, x: Any) -> Any:
        if x.ndim < rank:
            raise InvalidArgumentError(f"{op}: Input must have rank of at least {rank}, got shape {list(x.shape)}")
        return getattr(xp.fft, name)(x, axes=axes).astype(x.dtype) if x.size else x.copy()

    kernel(op)(run)


def _lengths(op: str, x: Any, fft_length: Any, rank: int) -> tuple[int, ...]:
    lengths = ints(fft_length)
    if len(lengths) != rank or any(n < 0 for n in lengths) or x.ndim < rank:
        raise InvalidArgumentError(f"{op}: fft_length must be {rank} sizes of at least 0, got {list(lengths)}")
    return lengths


def _real(op: str, rank: int) -> None:
    axes = tuple(range(-rank, 0))

    def run(xp: Any, x: Any, fft_length: Any, *, Tcomplex: DType) -> Any:
        lengths = _lengths(op, x, fft_length, rank)
        if any(s < n for s, n in zip(x.shape[-rank:], lengths)):
            raise InvalidArgumentError(f"Input dimension {x.shape} must have length of at least {lengths}")
        if not x.size or 0 in lengths:
            return xp.zeros((*x.shape[:-rank], *lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0), Tcomplex.np)
        return xp.fft.rfftn(x, lengths, axes).astype(Tcomplex.np)

    kernel(op)(run)


def _inverse_real(op: str, rank: int) -> None:
    axes = tuple(range(-rank, 0))

    def run(xp: Any, x: Any, fft_length: Any, *, Treal: DType) -> Any:
        lengths = _lengths(op, x, fft_length, rank)
        needed = (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)
        if any(s < n for s, n in zip(x.shape[-rank:], needed)):
            raise InvalidArgumentError(f"Input dimension {x.shape} must have length of at least {needed}")
        if not x.size or 0 in lengths:
            return xp.zeros((*x.shape[:-rank], *lengths), Treal.np)
        return xp.fft.irfftn(x, lengths, axes).astype(Treal.np)

    kernel(op)(run)


for _suffix, _rank in _RANKS.items():
    _complex(f"FFT{_suffix}", "fftn", _rank)
    _complex(f"IFFT{_suffix}", "ifftn", _rank)
    _real(f"RFFT{_suffix}", _rank)
    _inverse_real(f"IRFFT{_suffix}", _rank)
