"""The padding of what RaggedTensors are made of, and of what they make."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_join, math, math_reduce
from sparkflow_runtime.wire.errors import UnimplementedError


def to_shape(dense: Tensor, shape: Any, filling: Tensor) -> Tensor:
    """dense cut off, and filled up, to the sizes that shape tells; None or -1 leaves an axis as it is."""
    sizes: Any = constant_value(shape) if isinstance(shape, Tensor) else shapes.as_dims(shape)
    if isinstance(shape, Tensor) and sizes is None:
        raise UnimplementedError(f"RaggedTensor.to_tensor: the shape must be known statically, got {shape}")
    if sizes is None:
        return dense
    if dense.shape.ndims is not None and len(sizes) != dense.shape.ndims:
        raise ValueError(f"RaggedTensor.to_tensor: shape {shapes.show(sizes)} must have {dense.shape.ndims} axes")
    for axis, size in enumerate(sizes):
        if size is not None and size >= 0:
            dense = _of_size(dense, axis, int(size), filling)
    return dense


def _of_size(dense: Tensor, axis: int, size: int, filling: Tensor) -> Tensor:
    kept = dense[(*[slice(None)] * axis, slice(size))]
    now = array.shape(kept)
    lacking = array_join.concat([now[:axis], [size - now[axis]], now[axis + 1 :]], 0)
    found = array_join.concat([kept, array.fill(lacking, filling)], axis)
    dims = dense.shape.as_list()
    found.set_shape([*dims[:axis], size, *dims[axis + 1 :]])
    return found


def unpadded(x: Tensor, padding: Any, kind: Any) -> Tensor:
    """[n]: how many cells of each row lie before what is nothing but padding."""
    other = math.not_equal(x, convert_to_tensor(padding, x.dtype.base_dtype))
    rank = x.shape.ndims or 2
    other = math_reduce.reduce_any(other, list(range(2, rank))) if rank > 2 else other
    place = math.range(array.shape(x, out_type=kind)[1]) + 1
    return math_reduce.reduce_max(math.cast(other, kind) * place, 1)
