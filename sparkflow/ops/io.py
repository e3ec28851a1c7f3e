"""Checkpoints as nodes: save tensors to files, restore them, join what several tasks saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops.elementwise import of_ragged_too
from sparkflow_runtime.wire.checkpoint import parse_slice
from sparkflow_runtime.wire.dtypes import DType, string


def _restored_shapes(op: Operation) -> list[Dims]:
    """Known for slices alone: a whole tensor has the shape that the file says."""
    specs = constant_value(op.inputs[2])
    parts = [None] * len(op.outputs) if specs is None else [parse_slice(spec.decode()) for spec in specs]
    return [None if part is None else part[2] for part in parts]


def _join_shape(op: Operation) -> list[Dims]:
    dims: Dims = ()
    for tensor in op.inputs:
        dims = shapes.broadcast(dims, tensor._shape, "StringJoin")
    return [dims]


op("SaveV2", "prefix: string, tensor_names: string, shape_and_slices: string, tensors: [dtypes] ->", stateful=True)
op(
    "RestoreV2",
    "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: [dtypes]",
    _restored_shapes,
    stateful=True,
)
op(
    "MergeV2Checkpoints",
    "checkpoint_prefixes: string, destination_prefix: string ->",
    stateful=True,
    delete_old_dirs=True,
    allow_missing_files=False,
)
op("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string", lambda op: [()])
op("StringJoin", "inputs: N * string -> output: string", _join_shape, separator="")


def save_v2(
    prefix: Any,
    tensor_names: Sequence[str],
    shape_and_slices: Sequence[str],
    tensors: Sequence[Any],
    name: str = "SaveV2",
) -> Operation:
    """Save tensors under names in the checkpoint `prefix`. shape_and_slices: '' or a slice as
    SaveSliceInfo.spec has it."""
    return apply_op("SaveV2", [prefix, _strings(tensor_names), _strings(shape_and_slices), list(tensors)], name=name)


def restore_v2(
    prefix: Any,
    tensor_names: Sequence[str],
    shape_and_slices: Sequence[str],
    dtypes: Sequence[DType],
    name: str = "RestoreV2",
) -> list[Tensor]:
    """The tensors of those names; all are found and checked before any is there.

    Raises NotFoundError on a missing one, InvalidArgumentError on another dtype, DataLossError on damaged bytes.
    """
    attrs = {"dtypes": [d.base_dtype for d in dtypes]}
    return apply_op("RestoreV2", [prefix, _strings(tensor_names), _strings(shape_and_slices)], attrs, name)


def merge_v2_checkpoints(
    checkpoint_prefixes: Any, destination_prefix: Any, name: str = "MergeV2Checkpoints"
) -> Operation:
    """Make one checkpoint of several, by renaming their files."""
    return apply_op("MergeV2Checkpoints", [checkpoint_prefixes, destination_prefix], name=name)


def sharded_filename(basename: Any, shard: int, num_shards: Any, name: str = "ShardedFilename") -> Tensor:
    """'<basename>-00001-of-00002'."""
    return apply_op("ShardedFilename", [basename, shard, num_shards], name=name)


@of_ragged_too
def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """The strings one after the other, element by element; scalars go with every element."""
    return apply_op("StringJoin", [list(inputs)], {"separator": separator}, name)


def _strings(values: Sequence[str]) -> Tensor:
    return convert_to_tensor(list(values), string)
