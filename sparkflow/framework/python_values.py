"""Python values as arrays: which type numbers have, what text becomes, and what no tensor can be made of."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType

_log = logging.getLogger(__name__)


def as_array(value: Any, dtype: DType | None = None) -> np.ndarray:
    """The array of a Python value: floats are float32 and ints int32 unless dtype says otherwise (as in TensorFlow).

    So are lists of numpy's numbers, as [np.mean(x), 1.0]; an array, what gives itself as one (a column of pandas or
    Arrow), and a list of arrays, has its own type. Ints that int32 does not hold are int64.
    """
    kind: Any = type(value)
    if kind is int or (kind is float and value):  # two zeros are equal, and not the same
        return _again(value, kind, dtype).copy()
    if kind is list and len(value) <= _FEW and set(map(type, value)) == _INTS:
        return _again(tuple(value), kind, dtype).copy()
    return _as_array(value, dtype)


_INTS = {int}


@lru_cache(4096)
def _again(value: Any, kind: type, dtype: DType | None) -> np.ndarray:
    """Graphs have many numbers and few different ones; the result is only copied."""
    return _as_array(list(value) if kind is list else value, dtype)


def _as_array(value: Any, dtype: DType | None) -> np.ndarray:
    if value is None:
        raise ValueError("None values are not supported: there is no tensor of None")
    if hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
    if dtype is dtypes.string or (dtype is None and _first_leaf_is_text(value)):
        return _string_array(value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if dtype is not None and array.dtype != dtype.np:
            return _as_given(array, dtype)
    else:
        array = _even_array(value)
        if dtype is None and array.dtype == np.float64 and not _has_array(value):
            array = array.astype(np.float32)
        elif dtype is None and array.dtype == np.int64 and not _has_array(value):
            array = _narrow(array)
    if dtype is not None and isinstance(value, (str, bytes)):
        raise TypeError(f"Expected {dtype.name}, got {value!r} of type {type(value).__name__!r}")
    if hasattr(value, "_computed"):
        raise TypeError(f"Expected a Tensor, got {value}: give its .flat_values, or its .to_tensor(), which is padded")
    if array.dtype == object or (array.dtype.kind in "SU" and not isinstance(value, (np.ndarray, np.generic))):
        raise TypeError(f"Cannot convert {value!r} to a Tensor: its parts have different types or lengths")
    if array.dtype.kind in "mM":
        raise TypeError(f"Cannot convert {array.dtype} to a Tensor. Give its numbers, as by .astype('int64')")
    return array if dtype is None or array.dtype == dtype.np else _checked_cast(array, dtype, value)


def _even_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"Cannot convert {value!r} to a Tensor: its rows have different lengths. "
                         "Pad them, or use tf.ragged.constant") from None  # fmt: skip


def _narrow(array: np.ndarray) -> np.ndarray:
    least, largest = _range(array)
    wide = largest > dtypes.int32.max or least < dtypes.int32.min
    return array if wide else array.astype(np.int32)


def _range(array: np.ndarray) -> tuple[Any, Any]:
    """(least, largest) of whole numbers, (0, 0) where there are none. Most are few: Python is through with those before
    numpy begins."""
    if array.size > _FEW:
        return array.min(), array.max()
    items = array.ravel().tolist()
    return min(items, default=0), max(items, default=0)


_FEW = 64


def _has_array(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return hasattr(value, "__array__") and not isinstance(value, np.generic)


def _first_leaf_is_text(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "SUO"
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes))


def _string_array(value: Any) -> np.ndarray:
    """Bytes; text is encoded as UTF-8. An array of bytes alone is returned as it is."""
    array = value if isinstance(value, np.ndarray) and value.dtype == object else np.array(value, dtype=object)
    items = array.ravel().tolist()
    kinds = set(map(type, items))
    if kinds <= {bytes}:
        return array
    wrong = next((kind for kind in kinds if not issubclass(kind, (str, bytes))), None)
    if wrong is not None:
        item = next(item for item in items if type(item) is wrong)
        rows = issubclass(wrong, (list, tuple, np.ndarray)) and ". Of a column of rows np.stack makes one array"
        raise TypeError(f"Expected strings, got {item!r} of type {wrong.__name__}{rows or ''}")
    flat = np.empty(array.size, object)
    try:
        flat[:] = _encoded(items) if kinds == {str} else [i.encode() if isinstance(i, str) else bytes(i) for i in items]
    except UnicodeEncodeError as error:  # whose class cannot be made of a message alone
        raise ValueError(
            f"Expected text, got one with {error.object[error.start]!r}, which UTF-8 has no bytes for; give bytes, as "
            "os.fsencode does of a path"
        ) from None
    return flat.reshape(array.shape)


def _encoded(items: list[str]) -> list[bytes]:
    """Each as UTF-8. All at once, in a quarter of the time, where none has the character that holds them apart."""
    together = "\0".join(items).encode().split(b"\0")
    return together if len(together) == len(items) else [item.encode() for item in items]


def _checked_cast(array: np.ndarray, dtype: DType, value: Any) -> np.ndarray:
    kinds = array.dtype.kind + dtype.np.kind
    lossless = kinds in ("ii", "uu", "iu", "ui", "ff", "fc", "cc", "bb", "bi", "bu") or (
        dtype.is_floating and array.dtype.kind in "iufb"
    )
    lossless = lossless or (dtype.is_complex and array.dtype.kind in "iufb") or array.size == 0
    if not lossless or (dtype.is_integer and array.dtype.kind == "f" and array.size):
        raise TypeError(f"Expected {dtype.name}, got {value!r} of type {array.dtype}")
    if dtype.is_integer and array.size:
        least, largest = _range(array)
        if largest > dtype.max or least < dtype.min:
            raise ValueError(f"{value!r} does not fit {dtype.name} [{dtype.min}, {dtype.max}]")
    return array.astype(dtype.np)


def _as_given(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array has the type that is asked for, as in TensorFlow, whatever becomes of its values; what then are others
    is said, for that is seldom meant."""
    with np.errstate(all="ignore"):
        cast = (array if dtype.is_complex or array.dtype.kind != "c" else array.real).astype(dtype.np)
        if array.dtype.kind + dtype.np.kind in _CUTS:
            changed = np.nonzero(np.ravel(cast != array))[0]
            if len(changed):
                was, now = array.ravel()[changed[0]], cast.ravel()[changed[0]]
                _log.warning(
                    "A numpy array of %s was given as %s: %d of its %d values are others now, the first %s, which "
                    "was %s. Round or check it before", array.dtype, dtype.name, len(changed), array.size, now, was,
                )  # fmt: skip
    return cast


_CUTS = frozenset(("fi", "fu", "ci", "cu", "cf", "ii", "iu", "ui", "uu"))


def beyond_int32(value: Any) -> bool:
    """Whether a number, or one in lists of them or in a shape, is one that int32 does not hold."""
    if isinstance(value, (int, np.integer)):
        return not dtypes.int32.min <= value <= dtypes.int32.max
    if isinstance(value, shapes.TensorShape):
        return beyond_int32(value.dims_)
    if isinstance(value, shapes.Dimension):
        return beyond_int32(value.value)
    return isinstance(value, (list, tuple)) and any(map(beyond_int32, value))
