"""float16 and bfloat16 as float32, and back: what numpy computes in them takes 5 to 20 ns a number."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.compression import CODECS
from sparkflow_runtime.wire import dtypes

Array = Any
_CODECS = {getattr(dtypes, name).np: codec for name, codec in CODECS.items()}
HALVES = frozenset(_CODECS)


def widened(x: Array) -> Array:
    """float16 or bfloat16 of any shape -> float32 of that shape, exactly."""
    return _CODECS[x.dtype][1](x)


def narrowed(x: Array, dtype: Any) -> Array:
    """float32 of any shape -> float16 or bfloat16 of that shape, to nearest even."""
    return _CODECS[dtype][0](x)
