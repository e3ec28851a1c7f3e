"""Integrals that have names: Dawson's, the exponential one, Fresnel's and Spence's."""

from __future__ import annotations

from sparkflow.ops.elementwise import unary_float

dawsn = unary_float("Dawsn", "Dawson's integral: exp(-x**2) times the integral of exp(t**2) from 0 to x.")
expint = unary_float("Expint", "The exponential integral Ei(x), of exp(t) / t from -inf to x; nan below 0.")
fresnel_cos = unary_float("FresnelCos", "The integral of cos(pi / 2 t**2) from 0 to x.")
fresnel_sin = unary_float("FresnelSin", "The integral of sin(pi / 2 t**2) from 0 to x.")
spence = unary_float("Spence", "The integral of log(t) / (1 - t) from 1 to x; nan below 0.")
