"""Text and bytes as tf.compat has them, which Python 2 needed."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np

from sparkflow.framework.shapes import Dimension, TensorShape

bytes_or_text_types = (bytes, str)
complex_types = (numbers.Complex, np.number)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Raises TypeError on what is neither."""
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if not isinstance(bytes_or_text, (bytes, str)):
        raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")
    return bytes_or_text if isinstance(bytes_or_text, bytes) else bytes_or_text.encode(encoding)


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Raises TypeError on what is neither."""
    if not isinstance(bytes_or_text, (bytes, str)):
        raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")
    return bytes_or_text if isinstance(bytes_or_text, str) else bytes_or_text.decode(encoding)


as_str = as_text


def as_str_any(value: Any) -> str:
    """Bytes decoded, anything else by str()."""
    return value.decode() if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    return os.fspath(path) if hasattr(path, "__fspath__") else path


def dimension_value(dimension: Any) -> int | None:
    """The size of a Dimension, and itself of what is none."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: Any, index: int) -> Dimension:
    return TensorShape(shape)[index]


def forward_compatible(year: int, month: int, day: int) -> bool:
    """There is one version."""
    return True
