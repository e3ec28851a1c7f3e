"""float32 that travels in half: as bfloat16 (its upper 16 bits, rounded to nearest even) or as IEEE float16.

bfloat16 keeps the range and 8 of 24 bits of precision; float16 keeps 11 bits between 6e-5 and 65504, and is inf above.
The whitepaper cuts the lower bits off; rounding costs the same, errs half as much, and in no direction.
Source: Abadi et al. 2015, s. 5.5; IEEE 754-2019, s. 4.3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.resources.rings import Codec
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.edges import CARRIED, check_carried

_BFLOAT16 = dtypes.bfloat16.np
_HALF, _ONE, _SIXTEEN = np.uint32(0x7FFF), np.uint32(1), np.uint32(16)
_MAGNITUDE, _INFINITY, _QUIET = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x40)


@compiled(["void(uint32[::1], uint16[::1])"])
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


@compiled(["void(uint16[::1], uint32[::1])"])
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
    """bfloat16 -> float32, exactly."""
    out = np.empty(x.shape, np.uint32)
    _widen(np.ascontiguousarray(x).reshape(-1).view(np.uint16), out.reshape(-1))
    return out.view(np.float32)


def to_float16(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)


def from_float16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


CODECS: dict[str, Codec] = {"bfloat16": (to_bfloat16, from_bfloat16), "float16": (to_float16, from_float16)}


def prepare() -> None:
    _round.prepare()
    _widen.prepare()


def codec_of(node: Node) -> Codec | None:
    """What the node's attribute says; for float32 alone."""
    name = check_carried(node.attr(CARRIED, ""), f"{node.op} {node.name!r}")
    if not name or node.attr("T") is not dtypes.float32:
        return None
    prepare()
    return CODECS[name]
