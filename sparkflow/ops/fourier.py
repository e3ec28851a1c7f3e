"""Discrete Fourier transforms over the last axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, operators, rules  # noqa: F401 - x + y on tensors
from sparkflow_runtime.wire import dtypes

_RANKS = {"": 1, "2D": 2, "3D": 3}
_TYPES: dict[str, Any] = {"Treal": dtypes.float32, "Tcomplex": dtypes.complex64}


def _at_least(rank: int) -> Callable[[Operation], list[Dims]]:
    return lambda op: [rules.require_rank(op, "input", op.inputs[0], rank, at_least=True)]


def _real_rule(rank: int) -> Callable[[Operation], list[Dims]]:
    def rule(op: Operation) -> list[Dims]:
        dims = rules.require_rank(op, "input", op.inputs[0], rank, at_least=True)
        if dims is None:
            return [None]
        length = constant_value(op.inputs[1])
        ends: list[int | None] = [None] * rank if length is None else [int(n) for n in length]
        if op.type.startswith("R") and ends[-1] is not None:
            ends[-1] = ends[-1] // 2 + 1
        return [(*dims[:-rank], *ends)]

    return rule


for _suffix, _rank in _RANKS.items():
    for _op_type in (f"FFT{_suffix}", f"IFFT{_suffix}"):
        op(_op_type, "input: Tcomplex -> output: Tcomplex", _at_least(_rank), Tcomplex=dtypes.complex64)
    op(f"RFFT{_suffix}", "input: Treal, fft_length: int32 -> output: Tcomplex", _real_rule(_rank), **_TYPES)
    op(f"IRFFT{_suffix}", "input: Tcomplex, fft_length: int32 -> output: Treal", _real_rule(_rank), **_TYPES)


def _complex(op_type: str, rank: int, inverse: bool) -> Callable[..., Tensor]:
    def build(input: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, [input], name=name)

    build.__name__ = build.__qualname__ = op_type.lower()
    what = "inverse of the discrete Fourier transform" if inverse else "discrete Fourier transform"
    build.__doc__ = f"The {what} over the last {rank} axes of complex numbers."
    return build


def _real(op_type: str, rank: int, inverse: bool) -> Callable[..., Tensor]:
    def build(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with get_default_graph().name_scope(name or op_type.lower()) as scope:
            wanted = None if isinstance(input_tensor, Tensor) else dtypes.complex64 if inverse else dtypes.float32
            x = convert_to_tensor(input_tensor, wanted, "input")
            length = _default_length(x, rank, inverse) if fft_length is None else fft_length
            x = x if fft_length is None else _padded(x, convert_to_tensor(length, dtypes.int32), rank, inverse)
            kind = {"Tcomplex": x.dtype.base_dtype, "Treal": x.dtype.real_dtype} if inverse else {
                "Treal": x.dtype.base_dtype,
                "Tcomplex": dtypes.complex128 if x.dtype.base_dtype is dtypes.float64 else dtypes.complex64,
            }  # fmt: skip
            return apply_op(op_type, [x, length], kind, scope)

    build.__name__ = build.__qualname__ = op_type.lower()
    build.__doc__ = (
        f"The {'inverse ' if inverse else ''}discrete Fourier transform over the last {rank} axes of real signals, "
        "of n // 2 + 1 values each. fft_length: the signal's sizes, cut or filled with zeros (where the rank is known)."
    )
    return build


def _padded(x: Tensor, length: Tensor, rank: int, inverse: bool) -> Tensor:
    """Zeros behind the last axes, where the transform wants more values than there are."""
    known, dims = constant_value(length), x._shape
    if known is not None:
        wanted = known.tolist()
        wanted[-1] = wanted[-1] // 2 + 1 if inverse and wanted[-1] else wanted[-1]
        if dims is not None and all(d is not None and d >= w for d, w in zip(dims[-rank:], wanted)):
            return x
    if dims is None:
        return x  # without a rank there is nothing to pad by
    needed = length if not inverse else apply_op(
        "ConcatV2", [[length[:-1], apply_op("Maximum", [length[-1:] // 2 + 1, 0])], 0]
    )  # fmt: skip
    missing = apply_op("Maximum", [needed - array.shape(x)[-rank:], 0])
    behind = apply_op("ConcatV2", [[array.zeros([len(dims) - rank], dtypes.int32), missing], 0])
    padded = array.pad(x, apply_op("Pack", [[array.zeros_like(behind), behind]], {"axis": 1}))
    if known is not None:
        ends = [None if d is None else max(d, int(w)) for d, w in zip(dims[-rank:], wanted)]
        padded.set_shape((*dims[: len(dims) - rank], *ends))
    return padded


def _default_length(x: Tensor, rank: int, inverse: bool) -> Any:
    """The signal's own sizes: of the last axis, 2 (n - 1) of a transform's n values."""
    sizes = array.shape(x)[-rank:]
    if not inverse:
        return sizes
    last = apply_op("Maximum", [(sizes[-1:] - 1) * 2, 0])
    return last if rank == 1 else apply_op("ConcatV2", [[sizes[:-1], last], 0])


fft, ifft = _complex("FFT", 1, False), _complex("IFFT", 1, True)
fft2d, ifft2d = _complex("FFT2D", 2, False), _complex("IFFT2D", 2, True)
fft3d, ifft3d = _complex("FFT3D", 3, False), _complex("IFFT3D", 3, True)
rfft, irfft = _real("RFFT", 1, False), _real("IRFFT", 1, True)
rfft2d, irfft2d = _real("RFFT2D", 2, False), _real("IRFFT2D", 2, True)
rfft3d, irfft3d = _real("RFFT3D", 3, False), _real("IRFFT3D", 3, True)
