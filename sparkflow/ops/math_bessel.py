"""Bessel's modified functions of the first kind, and neighbouring floats."""

from __future__ import annotations

from sparkflow.ops.elementwise import binary, unary_float

bessel_i0 = unary_float("BesselI0", "Bessel's modified function of order 0.", "x: T -> y: T")
bessel_i0e = unary_float("BesselI0e", "exp(-|x|) times bessel_i0(x).", "x: T -> y: T")
bessel_i1 = unary_float("BesselI1", "Bessel's modified function of order 1.", "x: T -> y: T")
bessel_i1e = unary_float("BesselI1e", "exp(-|x|) times bessel_i1(x).", "x: T -> y: T")
nextafter = binary("NextAfter", "The float next to x1 on the way to x2.", "x1: T, x2: T -> output: T")
