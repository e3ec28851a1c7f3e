"""Initializers of orthogonal and identity matrices, and TensorFlow's first scaling rule."""

from __future__ import annotations

import math as pymath
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_slice, linalg, linalg_parts, math, random
from sparkflow.ops.init_ops import Initializer
from sparkflow_runtime.wire.dtypes import as_dtype, float32


def _float_type(dtype: Any) -> Any:
    found = as_dtype(dtype)
    if not found.is_floating:
        raise ValueError(f"Argument `dtype` is expected to be floating point. Received: {found}.")
    return found


class Orthogonal(Initializer):
    """gain times a random matrix with orthonormal rows or columns, all axes but the last taken together.

    Source: Saxe et al. 2014.
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = float32):
        self.gain, self.seed, self.dtype = gain, seed, _float_type(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        dims = [int(d or 0) for d in shapes.as_dims(shape) or ()]
        if len(dims) < 2:
            raise ValueError(f"The tensor to initialize must be at least two-dimensional. Received shape={shape}")
        rows, columns = pymath.prod(dims[:-1]), dims[-1]
        long = [max(rows, columns), min(rows, columns)]
        q, r = linalg.qr(random.random_normal(long, dtype=self._dtype(dtype), seed=self.seed), full_matrices=False)
        q = math.multiply(q, math.sign(linalg_parts.matrix_diag_part(r)))  # evenly over all such matrices
        q = linalg_parts.matrix_transpose(q) if rows < columns else q
        return math.multiply(array.reshape(q, dims), self.gain)


class Identity(Initializer):
    """gain times the identity matrix; of a part its part."""

    def __init__(self, gain: float = 1.0, dtype: Any = float32):
        self.gain, self.dtype = gain, _float_type(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        whole = shapes.as_dims(shape if partition_info is None else partition_info.full_shape) or ()
        if len(whole) != 2:
            raise ValueError(f"The tensor to initialize must be two-dimensional. Received shape={shape}")
        made = linalg.eye(*whole, dtype=self._dtype(dtype))
        if partition_info is not None:
            made = array_slice.slice_(made, partition_info.var_offset, shape)
        return math.multiply(made, self.gain)


class UniformUnitScaling(Initializer):
    """Drawn evenly within factor * sqrt(3 / n) of zero, n being the product of all sizes but the last."""

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = float32):
        self.factor, self.seed, self.dtype = factor, seed, _float_type(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        whole = shapes.as_dims(shape if partition_info is None else partition_info.full_shape) or ()
        limit = pymath.sqrt(3 / max(1.0, pymath.prod(float(d or 0) for d in whole[:-1]))) * self.factor
        return random.random_uniform(shape, -limit, limit, self._dtype(dtype), seed=self.seed)


orthogonal_initializer = Orthogonal
identity_initializer = Identity
uniform_unit_scaling_initializer = UniformUnitScaling
