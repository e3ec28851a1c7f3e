"""Ops of TensorFlow 2 that import puts others in the place of: ragged rows made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.functions import Call, expands
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array, array_join, array_select, array_slice, math
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import decode
from sparkflow_runtime.wire.errors import UnimplementedError


@expands("RaggedTensorToTensor", outputs=("result",))
def _ragged_to_tensor(call: Call) -> list[Tensor]:
    shape, values, filling, *parts = call.inputs
    kinds = decode(call.node.attr["row_partition_types"])
    dense = _ragged(call, values, kinds, parts).to_tensor(filling)
    wanted, axes = constant_value(shape), 1 + len(parts) - (kinds[0] == "FIRST_DIM_SIZE")
    if wanted is None:
        sizes = array.shape(dense, out_type=shape.dtype)  # -1 keeps one's own
        for axis in range(axes) if shape._shape != () else ():
            size = math.maximum(shape[axis], array_select.where(shape[axis] < 0, sizes[axis], -1))
            dense = _resized(dense, axis, math.cast(size, dtypes.int32), filling)
        return [dense]
    for axis, size in enumerate(wanted[:axes] if wanted.ndim else ()):
        if size >= 0:
            dense = _resized(dense, axis, int(size), filling)
    return [dense]


def _ragged(call: Call, values: Tensor, kinds: Sequence[str], parts: Sequence[Tensor]) -> RaggedTensor:
    made: Any = values
    for level in reversed(range(len(parts))):
        if kinds[level] == "ROW_SPLITS":
            made = RaggedTensor.from_row_splits(made, parts[level], validate=False)
        elif kinds[level] == "VALUE_ROWIDS":
            rows = parts[0] if level == 1 else array.shape(parts[level - 1], out_type=parts[level].dtype)[0]
            made = RaggedTensor.from_value_rowids(made, parts[level], rows, validate=False)
        elif kinds[level] != "FIRST_DIM_SIZE":
            raise UnimplementedError(
                call.node, None, f"import_graph_def: {call.node.name!r} has rows by {kinds[level]}, which is not known"
            )
    return made


def _resized(dense: Tensor, axis: int, size: int | Tensor, filling: Tensor) -> Tensor:
    """The first `size` cells of an axis, where there are less filled up."""
    sizes = array.shape(dense)
    more = array_join.concat([sizes[:axis], [size], sizes[axis + 1 :]], 0)
    longer = array_join.concat([dense, array.broadcast_to(filling, more)], axis)
    found = array_slice.slice_(longer, array.zeros_like(sizes), more)
    dims = list(dense.shape.as_list())
    dims[axis] = size if isinstance(size, int) else None
    found.set_shape(dims)
    return found
