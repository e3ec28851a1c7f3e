"""float32 that travels in half: as bfloat16 (its upper 16 bits, rounded to nearest even) or as IEEE float16.

bfloat16 keeps the range and 8 of 24 bits of precision; float16 keeps 11 bits between 6e-5 and 65504, and is inf above.
The whitepaper cuts the lower bits off; rounding costs the same, errs half as much, and in no direction.
Source: Abadi et al. 2015, s. 5.5; IEEE 754-2019, s. 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.half_numbers import of_half, to_half
from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.resources.rings import Codec
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import CARRIED, check_carried
from sparkflow_runtime.wire.errors import InvalidArgumentError

_BFLOAT16 = dtypes.bfloat16.np
_HALF, _ONE, _SIXTEEN = np.uint32(0x7FFF), np.uint32(1), np.uint32(16)
_MAGNITUDE, _INFINITY, _QUIET = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x40)


@compiled(["void(Array(uint32, 1, 'C', readonly=True), uint16[::1])"])
def _round(bits: Any, out: Any) -> None:
    for i in range(bits.shape[0]):
        b = bits[i]
        rounded = (b + _HALF + ((b >> _SIXTEEN) & _ONE)) >> _SIXTEEN
        quiet = (b >> _SIXTEEN) | _QUIET
        out[i] = quiet if (b & _MAGNITUDE) > _INFINITY else rounded


@_round.otherwise
def _(bits: Any, out: Any) -> None:
    rounded = (bits + _HALF + ((bits >> _SIXTEEN) & _ONE)) >> _SIXTEEN
    out[:] = np.where((bits & _MAGNITUDE) > _INFINITY, (bits >> _SIXTEEN) | _QUIET, rounded)


@compiled(["void(Array(uint16, 1, 'C', readonly=True), uint32[::1])"])
def _widen(bits: Any, out: Any) -> None:
    for i in range(bits.shape[0]):
        out[i] = np.uint32(bits[i]) << _SIXTEEN


@_widen.otherwise
def _(bits: Any, out: Any) -> None:
    np.left_shift(bits, _SIXTEEN, out=out, dtype=np.uint32)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 of any shape -> bfloat16 of that shape; a NaN stays one."""
    out = np.empty(x.shape, np.uint16)
    _round(np.ascontiguousarray(x).reshape(-1).view(np.uint32), out.reshape(-1))
    return out.view(_BFLOAT16)


def from_bfloat16(x: np.ndarray) -> np.ndarray:
    """bfloat16 -> float32, exactly. Raises InvalidArgumentError on another dtype."""
    _check(x, _BFLOAT16)
    out = np.empty(x.shape, np.uint32)
    _widen(np.ascontiguousarray(x).reshape(-1).view(np.uint16), out.reshape(-1))
    return out.view(np.float32)


_MAGNITUDE16, _INFINITY16, _QUIET_BIT = np.uint32(0x7FFF), np.uint32(0x7C00), np.uint32(0x400000)
_SIGN16, _NAN16, _MANTISSA16, _THIRTEEN = np.uint32(0x8000), np.uint32(0x7E00), np.uint32(0x3FF), np.uint32(13)


@compiled(["void(Array(uint32, 1, 'C', readonly=True), uint16[::1])"], parts=[to_half])
def _round16(bits: Any, out: Any) -> None:
    for i in range(bits.shape[0]):
        out[i] = to_half(bits[i])


@_round16.otherwise
def _(bits: Any, out: Any) -> None:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out[:] = bits.view(np.float32).astype(np.float16).view(np.uint16)
    nans = (bits & _MAGNITUDE) > _INFINITY
    out[nans] = (bits[nans] >> _THIRTEEN) & _MANTISSA16 | _NAN16 | ((bits[nans] >> _SIXTEEN) & _SIGN16)


@compiled(["void(Array(uint16, 1, 'C', readonly=True), uint32[::1])"], parts=[of_half])
def _widen16(bits: Any, out: Any) -> None:
    for i in range(bits.shape[0]):
        out[i] = of_half(np.uint32(bits[i]))


@_widen16.otherwise
def _(bits: Any, out: Any) -> None:
    with np.errstate(invalid="ignore"):
        out.view(np.float32)[:] = bits.view(np.float16)
    out[(bits & _MAGNITUDE16) > _INFINITY16] |= _QUIET_BIT


def to_float16(x: np.ndarray) -> np.ndarray:
    """float32 of any shape -> float16 of that shape, to nearest even; a NaN stays one."""
    out = np.empty(x.shape, np.uint16)
    _round16(np.ascontiguousarray(x).reshape(-1).view(np.uint32), out.reshape(-1))
    return out.view(np.float16)


def from_float16(x: np.ndarray) -> np.ndarray:
    """float16 -> float32, exactly. Raises InvalidArgumentError on another dtype."""
    _check(x, np.dtype(np.float16))
    out = np.empty(x.shape, np.uint32)
    _widen16(np.ascontiguousarray(x).reshape(-1).view(np.uint16), out.reshape(-1))
    return out.view(np.float32)


def _check(x: np.ndarray, dtype: Any) -> None:
    """Of what another process sent: the loops look at memory, not at dtypes."""
    if x.dtype != dtype:
        raise InvalidArgumentError(f"{x.dtype} travels there, and {dtype} is expected here")


CODECS: dict[str, Codec] = {"bfloat16": (to_bfloat16, from_bfloat16), "float16": (to_float16, from_float16)}


MIN_ITEMS = 256  # below, a message is not shorter for it: a loss or a learning rate keeps all its bits


def narrowed(tensors: list[Any], carried: Sequence[str]) -> list[Any]:
    """What a bundle is as it travels: first which of the tensors were narrowed, then all of them.

    carried: of the last len(carried) tensors, as what each travels; "" or "float32" as it is, and so does whatever is
    no large float32.
    """
    plain = len(tensors) - len(carried)
    marks, out = np.zeros(len(tensors), np.uint8), list(tensors)
    for i, name in enumerate(carried, plain):
        tensor = tensors[i]
        if (
            name in CODECS
            and isinstance(tensor, np.ndarray)
            and tensor.dtype == np.float32
            and tensor.size >= MIN_ITEMS
        ):
            out[i], marks[i] = CODECS[name][0](tensor), 1
    return [marks, *out]


def widened(tensors: list[Any]) -> list[Any] | None:
    """What `narrowed` was given, as near as it travelled; None where this is nothing that it makes."""
    if not tensors or tensors[0].dtype != np.uint8 or tensors[0].shape != (len(tensors) - 1,):
        return None
    found: list[Any] = []
    for mark, tensor in zip(tensors[0], tensors[1:]):
        codec = CODECS.get(tensor.dtype.name) if mark else None
        if mark and codec is None:
            return None
        found.append(codec[1](tensor) if codec is not None else tensor)
    return found


def carried_as(attrs: Sequence[dict[str, Any]]) -> list[str]:
    """Of the transfers in a bundle that carry data: as what each travels; empty where all do as they are."""
    names = [a.get(CARRIED, "") for a in attrs]
    if not any(names):
        return []
    prepare()
    return names


def prepare() -> None:
    for loop in (_round, _widen, _round16, _widen16):
        loop.prepare()


def codec_of(node: Node) -> Codec | None:
    """What the node's attribute says; for float32 alone."""
    name = check_carried(node.attr(CARRIED, ""), f"{node.op} {node.name!r}")
    if name not in CODECS or node.attr("T") is not dtypes.float32:
        return None
    prepare()
    return CODECS[name]
