"""Names that TensorFlow keeps inside array_ops and libraries of layers import all the same."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Tensor
from sparkflow.ops import array
from sparkflow_runtime.wire.dtypes import int32


def shape_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = int32) -> Tensor:
    """tf.shape. optimize: taken for the sake of callers; what is known statically is always a constant."""
    return array.shape(input, name, out_type)


def size_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = int32) -> Tensor:
    """tf.size."""
    return array.size(input, name, out_type)


def rank_internal(input: Any, name: str | None = None, optimize: bool = True) -> Tensor:
    """tf.rank."""
    return array.rank(input, name)
