"""Quantiles of the normal distribution.

Source: M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988), 477-484: rational approximations, in the centre
by the square of the distance from 1/2, outside by the root of the logarithm of the smaller probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.special_loops import polynomial

_CENTRE_P = (
    2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987,
    13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665,
)  # fmt: skip
_CENTRE_Q = (
    5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
    5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0,
)  # fmt: skip
_SHOULDER_P = (
    0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
    3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835,
)  # fmt: skip
_SHOULDER_Q = (
    1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
    0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0,
)  # fmt: skip
_TAIL_P = (
    2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
    0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
)  # fmt: skip
_TAIL_Q = (
    2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
    0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0,
)  # fmt: skip


def _quantile(xp: Any, from_half: Any, smaller: Any) -> Any:
    """x with Phi(x) = 1/2 + from_half; smaller: the smaller of Phi(x) and 1 - Phi(x)."""
    near = 0.180625 - xp.minimum(from_half * from_half, 0.180625)
    centre = from_half * polynomial(_CENTRE_P, near) / polynomial(_CENTRE_Q, near)
    root = xp.sqrt(-xp.log(smaller))
    middle, far = xp.clip(root, 0, 5) - 1.6, xp.maximum(root, 5) - 5
    shoulder = polynomial(_SHOULDER_P, middle) / polynomial(_SHOULDER_Q, middle)
    tail = polynomial(_TAIL_P, far) / polynomial(_TAIL_Q, far)
    outer = xp.where(smaller > 0, xp.where(root <= 5, shoulder, tail), xp.inf)
    return xp.where(xp.abs(from_half) <= 0.425, centre, xp.copysign(outer, from_half))


def ndtri(xp: Any, p: Any) -> Any:
    """The value that a normal variable stays below with probability p; nan outside [0, 1]."""
    with np.errstate(all="ignore"):
        return xp.where((p >= 0) & (p <= 1), _quantile(xp, p - 0.5, xp.minimum(p, 1 - p)), xp.nan)


def erfinv(xp: Any, x: Any) -> Any:
    """y with erf(y) = x; nan outside [-1, 1]."""
    with np.errstate(all="ignore"):
        found = _quantile(xp, x / 2, (1 - xp.abs(x)) / 2) / math.sqrt(2)
        return xp.where(xp.abs(x) <= 1, found, xp.nan)
