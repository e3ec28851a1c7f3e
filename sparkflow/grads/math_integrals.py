"""Gradients of Bessel's functions J, Y and K, and of integrals that have names."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from sparkflow.framework.graph import Tensor
from sparkflow.grads.registry import gradient
from sparkflow.ops import math
from sparkflow.ops import math_bessel_more as bessel
from sparkflow.ops.array import ones_like
from sparkflow.ops.array_select import where


def _slope(op_type: str, slope: Callable[[Tensor, Tensor], Tensor]) -> None:
    """dy/dx from (x, y)."""
    gradient(op_type)(lambda op, dy: dy * slope(op.inputs[0], op.outputs[0]))


def _except_at(point: float, there: float, x: Tensor, slope: Callable[[Tensor], Tensor]) -> Tensor:
    """slope(x), and `there` at the point where that cannot be computed."""
    at = math.equal(x, point)
    return where(at, there * ones_like(x), slope(where(at, (point + 1.0) * ones_like(x), x)))


_slope("BesselJ0", lambda x, y: -bessel.bessel_j1(x))
_slope("BesselJ1", lambda x, y: bessel.bessel_j0(x) - _except_at(0.0, 0.5, x, lambda safe: y / safe))
_slope("BesselY0", lambda x, y: -bessel.bessel_y1(x))
_slope("BesselY1", lambda x, y: bessel.bessel_y0(x) - y / x)
_slope("BesselK0", lambda x, y: -bessel.bessel_k1(x))
_slope("BesselK0e", lambda x, y: y - bessel.bessel_k1e(x))
_slope("BesselK1", lambda x, y: -bessel.bessel_k0(x) - y / x)
_slope("BesselK1e", lambda x, y: y * (1.0 - 1.0 / x) - bessel.bessel_k0e(x))
_slope("Dawsn", lambda x, y: 1.0 - 2.0 * x * y)
_slope("Expint", lambda x, y: math.exp(x) / x)
_slope("FresnelCos", lambda x, y: math.cos(pi / 2 * math.square(x)))
_slope("FresnelSin", lambda x, y: math.sin(pi / 2 * math.square(x)))
_slope("Spence", lambda x, y: _except_at(1.0, -1.0, x, lambda safe: math.log(safe) / (1.0 - safe)))
