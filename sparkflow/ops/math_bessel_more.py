"""Bessel's functions J, Y and K of orders 0 and 1."""

from __future__ import annotations

from sparkflow.ops.elementwise import unary_float

bessel_j0 = unary_float("BesselJ0", "Bessel's function of the first kind, of order 0.")
bessel_j1 = unary_float("BesselJ1", "Bessel's function of the first kind, of order 1.")
bessel_y0 = unary_float("BesselY0", "Bessel's function of the second kind, of order 0; -inf up to 0.")
bessel_y1 = unary_float("BesselY1", "Bessel's function of the second kind, of order 1; -inf up to 0.")
bessel_k0 = unary_float("BesselK0", "Bessel's modified function of the second kind, of order 0; inf up to 0.")
bessel_k0e = unary_float("BesselK0e", "exp(x) times bessel_k0(x).")
bessel_k1 = unary_float("BesselK1", "Bessel's modified function of the second kind, of order 1; inf up to 0.")
bessel_k1e = unary_float("BesselK1e", "exp(x) times bessel_k1(x).")
