"""Bessel's modified functions of the first kind, in double precision: by their power series up to 30, whose terms are
all positive, and by the asymptotic one beyond (Abramowitz and Stegun 9.6.10, 9.7.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import kernel

_NEAR, _TERMS, _FAR_TERMS = 30.0, 75, 30


def _scaled(xp: Any, x: Any, order: int) -> Any:
    """exp(-|x|) I_order(x)."""
    size = xp.abs(x.astype(np.float64))
    near, far = xp.minimum(size, _NEAR), xp.maximum(size, _NEAR)
    quarter = near * near / 4
    term = xp.ones_like(near) if order == 0 else near / 2
    total = term.copy()
    for k in range(1, _TERMS):
        term = term * quarter / (k * (k + order))
        total = total + term
    part, sums = xp.ones_like(far), xp.ones_like(far)
    for k in range(1, _FAR_TERMS):
        part = part * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far)
        sums = sums + part
    with np.errstate(invalid="ignore"):
        beyond = sums / xp.sqrt(2 * np.pi * far)
    found = xp.where(size <= _NEAR, total * xp.exp(-near), beyond)
    found = xp.where(xp.isnan(size), size, found)
    return xp.where(x < 0, -found, found) if order else found


def _pair(order: int) -> None:
    @kernel(f"BesselI{order}e")
    def scaled(xp: Any, x: Any) -> Any:
        return _scaled(xp, x, order).astype(x.dtype)

    @kernel(f"BesselI{order}")
    def plain(xp: Any, x: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return (_scaled(xp, x, order) * xp.exp(xp.abs(x.astype(np.float64)))).astype(x.dtype)


_pair(0)
_pair(1)
kernel("NextAfter")(lambda xp, x, y: xp.nextafter(x, y))
