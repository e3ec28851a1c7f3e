"""Values that tell kernels apart: signs, zeros, ends of the range, what is not a number, empty and scalar shapes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
WIDE = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
REAL = FLOATS + INTS
NUMBERS = REAL + COMPLEX
ALL = (*NUMBERS, "bool", "string")

_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 3.0, 7.25, -1e-3, 30.0, -30.0, np.inf, -np.inf, np.nan]


def np_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(object if name == "string" else name)


def is_float(name: str) -> bool:
    return name in FLOATS


def special(name: str) -> np.ndarray:
    """A vector of a dtype's awkward values."""
    dtype = np_dtype(name)
    if name == "string":
        return strings("", "a", "b", "abc", "ABC", "\u00e4", "a\0b")
    if name == "bool":
        return np.array([True, False])
    if name in COMPLEX:
        return np.array([0, 1, -1, 1j, -1j, 0.5 + 2j, -2 - 0.25j, 3 - 4j, -1.5 + 0.5j], dtype)
    if name in FLOATS:
        info = ml_dtypes.finfo(dtype)
        return np.array([*_SPECIAL, info.max, info.min, info.smallest_normal], np.float64).astype(dtype)
    info = np.iinfo(dtype)
    small = [0, 1, 2, 3, 7, 10] + ([-1, -2, -3, -7, -8] if info.min < 0 else [])
    return np.array([*small, info.max, info.max - 1, info.min, info.min + 1], dtype)


def finite(name: str) -> np.ndarray:
    """`special` without what is infinite, not a number, or at the end of the range."""
    values = special(name)
    if name in FLOATS:
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return values[np.isfinite(wide) & (np.abs(wide) < 100) & ((wide == 0) | (np.abs(wide) > 1e-4))]
    if name in INTS:
        return values[(values <= 10) & ~((values.astype(np.float64)) < -10)]
    return values


def ramp(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Different small values of that shape, in mixed order: floats with fractions, both signs where there are two."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed + count).permutation(count)
    dtype = np_dtype(name)
    if name == "string":
        return strings(*(f"s{i}" for i in order)).reshape(shape)
    if name == "bool":
        return (order % 3 == 0).reshape(shape)
    if name in UNSIGNED:
        return (order % 100).astype(dtype).reshape(shape)
    centred = order - count // 2
    if name in SIGNED:
        return (centred % 200 - 100 if count > 200 else centred).astype(dtype).reshape(shape)
    values = centred * 0.375 + 0.0625
    if name in COMPLEX:
        return (values + 1j * (order * 0.25 - 1)).astype(dtype).reshape(shape)
    return values.astype(dtype).reshape(shape)


def noise(name: str, *shape: int, seed: int = 1) -> np.ndarray:
    """Normal values, with imaginary parts for complex types."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if name in COMPLEX:
        return (values + 1j * rng.normal(size=shape)).astype(np_dtype(name))
    return values.astype(np_dtype(name))


def positive(name: str, *shape: int, seed: int = 2) -> np.ndarray:
    return (np.abs(np.random.default_rng(seed).normal(size=shape)) + 0.1).astype(np_dtype(name))


def strings(*texts: str) -> np.ndarray:
    out = np.empty(len(texts), object)
    out[:] = [t.encode() for t in texts]
    return out


def i32(*values: Any) -> np.ndarray:
    """A vector of int32, or a matrix where the values are lists."""
    return np.array(values, np.int32)


def i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def s32(value: int) -> np.ndarray:
    return np.array(value, np.int32)
