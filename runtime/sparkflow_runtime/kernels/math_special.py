"""Kernels of functions beyond arithmetic, of the parts of complex numbers, and of bits.

numpy's own functions where it has them; those of gamma and beta are computed in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import special, special_loops, special_quantiles
from sparkflow_runtime.kernels.math import direct
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.wire.dtypes import DType
from sparkflow_runtime.wire.errors import InvalidArgumentError

for _op, _name in {
    "Tan": "tan",
    "Asin": "arcsin",
    "Acos": "arccos",
    "Atan": "arctan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "arcsinh",
    "Acosh": "arccosh",
    "Atanh": "arctanh",
    "Atan2": "arctan2",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Invert": "invert",
}.items():
    direct(_op, _name)


def wide(op: str, compute: Callable[..., Any]) -> None:
    """compute(xp, epsilon, *float64 arrays of one shape), rounded to the inputs' type; on the CPU by blocks, shared
    out over threads. epsilon: how much of a value does not matter in that type."""

    def run(xp: Any, *inputs: Any) -> Any:
        dtype = inputs[0].dtype
        epsilon = 2.0**-53 if dtype == np.float64 else 2.0**-36
        arrays = xp.broadcast_arrays(*inputs) if len({x.shape for x in inputs}) > 1 else inputs
        if xp is not np:
            return xp.asarray(compute(xp, epsilon, *(x.astype(np.float64) for x in arrays))).astype(dtype)
        return special.by_blocks(lambda *parts: compute(np, epsilon, *parts), dtype, *arrays)

    kernel(op)(run)


wide("Lgamma", lambda xp, _, x: special.lgamma(xp, x))
wide("Digamma", lambda xp, _, x: special.digamma(xp, x))
wide("Zeta", lambda xp, _, x, q: special.zeta(xp, x, q))
wide("Polygamma", lambda xp, _, n, x: special.polygamma(xp, n, x))
wide("Igamma", lambda xp, epsilon, a, x: special.igamma(xp, a, x, epsilon)[0])
wide("Igammac", lambda xp, epsilon, a, x: special.igamma(xp, a, x, epsilon)[1])
wide("IgammaGradA", lambda xp, _, a, x: special.igamma_slope(xp, a, x))
wide("Betainc", lambda xp, epsilon, a, b, x: special.betainc(xp, a, b, x, epsilon))
wide("Erfinv", lambda xp, _, x: special_quantiles.erfinv(xp, x))
wide("Ndtri", lambda xp, _, x: special_quantiles.ndtri(xp, x))


_GAMMAS = ("Polygamma", "IgammaGradA", "RandomGammaGrad")
for _loop, _ops in {
    special_loops.lgamma_parts: ("Lgamma", "Igamma", "Igammac", "Betainc", *_GAMMAS),
    special_loops.digamma_parts: ("Digamma", *_GAMMAS),
    special_loops.gamma_series: ("Igamma", "Igammac"),
    special_loops.gamma_fraction: ("Igamma", "Igammac"),
    special_loops.beta_fraction: ("Betainc",),
}.items():
    prepares(_loop.prepare, *_ops)


@kernel("RandomGammaGrad")
def _random_gamma_grad(xp: Any, alpha: Any, sample: Any) -> Any:
    """How a sample moves with alpha while its probability stays: minus dP(alpha, x)/dalpha over the density."""
    a, x = xp.broadcast_arrays(xp.asarray(alpha, xp.float64), xp.asarray(sample, xp.float64))
    with np.errstate(all="ignore"):
        density = xp.exp((a - 1) * xp.log(x) - x - special.lgamma(xp, a))
        return xp.asarray(-special.igamma_slope(xp, a, x) / density).astype(sample.dtype)


def _zero_first(op: str, compute: Callable[[Any, Any, Any], Any]) -> None:
    def run(xp: Any, x: Any, y: Any) -> Any:
        x, y = xp.broadcast_arrays(x, y)
        safe = xp.where(x == 0, y.dtype.type(1), y)
        return xp.where(x == 0, x.dtype.type(0), compute(xp, x, safe))

    kernel(op)(run)


_zero_first("Xlogy", lambda xp, x, y: x * xp.log(y))
_zero_first("Xdivy", lambda xp, x, y: x / y)
_zero_first("Xlog1py", lambda xp, x, y: x * xp.log1p(y))


@kernel("MulNoNan")
def _mul_no_nan(xp: Any, x: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return xp.where(y == 0, y.dtype.type(0), x * y)


@kernel("TruncateMod")
def _truncate_mod(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind in "iu" and bool((y == 0).any()):
        raise InvalidArgumentError("TruncateMod: integer division by zero")
    return xp.fmod(x, y)


# ---------------------------------------------------------------------- bits


def _shift(op: str, name: str) -> None:
    """By at least 0 and less than the bits of the type, as TensorFlow takes it."""

    def run(xp: Any, x: Any, y: Any) -> Any:
        bits = x.dtype.itemsize * 8
        return getattr(xp, name)(x, xp.clip(y, 0, bits - 1).astype(x.dtype))

    kernel(op)(run)


_shift("LeftShift", "left_shift")
_shift("RightShift", "right_shift")


@kernel("PopulationCount")
def _population_count(xp: Any, x: Any) -> Any:
    if hasattr(xp, "bitwise_count"):  # of the magnitude, where x is signed: count the bits as they lie
        return xp.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(xp.uint8)
    bits = xp.unpackbits(xp.ascontiguousarray(x).reshape(-1).view(xp.uint8))
    return bits.reshape(*x.shape, x.dtype.itemsize * 8).sum(-1).astype(xp.uint8)


@kernel("Bitcast", aliases=True)
def _bitcast(xp: Any, x: Any, *, type: DType) -> Any:
    old, new = x.dtype.itemsize, type.np.itemsize
    if new > old:
        if not x.ndim or x.shape[-1] * old != new:
            raise InvalidArgumentError(f"Cannot bitcast from {x.dtype} to {type.name}: shape {list(x.shape)}")
        return xp.ascontiguousarray(x).view(type.np)[..., 0]
    whole = xp.ascontiguousarray(x).reshape((*x.shape, 1) if new < old else x.shape)
    return whole.view(type.np)


# ---------------------------------------------------------------------- complex numbers

kernel("Real", aliases=True)(lambda xp, x: x.real)
kernel("Imag", aliases=True)(lambda xp, x: x.imag)
kernel("Angle")(lambda xp, x: xp.angle(x))


@kernel("Complex")
def _complex(xp: Any, real: Any, imag: Any, *, Tout: DType) -> Any:
    out = xp.empty(np.broadcast_shapes(real.shape, imag.shape), Tout.np)
    out.real, out.imag = real, imag
    return out
