"""Decimals as the nearest doubles, which Spark makes of them in SQL (Arrow's own cast is off by a bit at times), and as
whole numbers with all their digits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkflow_connectors.arrow_numpy import arrow_of, is_valid

_EXACT, _MOST_SCALE = 1 << 53, 22  # whole numbers and powers of ten up to these are doubles themselves


def doubles(array: pa.Array) -> pa.Array:
    """float64 of a decimal array; a null stays one."""
    digits = _digits(array) if pa.types.is_decimal128(array.type) and 0 <= array.type.scale <= _MOST_SCALE else None
    if digits is None:
        return array.cast(pa.string()).cast(pa.float64())
    missing = ~is_valid(array) if array.null_count else None
    return arrow_of(digits / 10.0**array.type.scale, missing)


def for_integers(array: pa.Array) -> pa.Array:
    """The same decimals in a form that Arrow casts to any whole number: those of 32 and 64 bits it refuses to cast to
    longer ones (seen in 26.0.1)."""
    kind = array.type
    return array.cast(pa.decimal128(kind.precision, kind.scale)) if kind.bit_width < 128 else array


def _digits(array: pa.Array) -> np.ndarray | None:
    """The values without their point, where doubles have them all; of a null, any."""
    if not len(array):
        return np.zeros(0)
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[::2], words[1::2]
    fits = (low >> 63 == high) & (low <= _EXACT) & (low >= -_EXACT)
    if not fits.all() and not (fits | ~is_valid(array)).all():
        return None
    return low
