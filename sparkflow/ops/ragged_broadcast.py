"""What a dense operand of an operator is beside the flat values of a RaggedTensor."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_slice
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire.errors import UnimplementedError


def beside_flat_values(dense: Any, ragged: RaggedTensor) -> Any:
    """dense, or a tensor with a row for each of ragged's flat values, by numpy's rule of broadcasting.

    Along ragged axes it must be of size 1. Raises UnimplementedError where it is not, and where a shape is not known.
    """
    given = convert_to_tensor(dense, dtype_hint=ragged.flat_values.dtype.base_dtype)
    inner, dims = ragged.flat_values._shape, given._shape
    if dims == () or (dims is not None and inner is not None and len(dims) < len(inner)):
        return dense
    if dims is None or inner is None:
        raise UnimplementedError(f"RaggedTensor: the rank of {given} beside {ragged} must be known")
    rank = ragged.ragged_rank + len(inner)
    ones = dims[max(0, len(dims) - rank + 1) : len(dims) - len(inner) + 1]
    if len(dims) > rank or any(size != 1 for size in ones):
        raise UnimplementedError(
            f"RaggedTensor: operators take dense tensors of size 1 along ragged axes, got {shapes.show(dims)} beside "
            f"{ragged}; RaggedTensor.from_tensor makes one ragged"
        )
    flat = array.squeeze(
        given, list(range(len(dims) - rank + 1 if len(dims) == rank else 0, len(dims) - len(inner) + 1))
    )
    return array_slice.gather(flat, _outer_rows(ragged)) if len(dims) == rank and dims[0] != 1 else flat


def _outer_rows(ragged: RaggedTensor) -> Tensor:
    """For each flat value, the row of the outermost axis."""
    rows = ragged.value_rowids()
    return array_slice.gather(rows, _outer_rows(ragged.values)) if isinstance(ragged.values, RaggedTensor) else rows
