"""SparseTensors as strings, for queues and records: three TensorProtos each."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import UnimplementedError

_SPARSE = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"
op("SerializeSparse", f"{_SPARSE} -> serialized_sparse: out_type", lambda op: [(3,)], out_type=dtypes.string)
op("SerializeManySparse", f"{_SPARSE} -> serialized_sparse: out_type", lambda op: [(None, 3)], out_type=dtypes.string)


def _many_rule(op: Operation) -> list[Dims]:
    return [(None, None), (None,), (None,)]


op(
    "DeserializeManySparse",
    "serialized_sparse: string -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    _many_rule,
)


def _parts(op_type: str, sp_input: Any, name: str | None, out_type: Any) -> Tensor:
    if dtypes.as_dtype(out_type) != dtypes.string:
        raise UnimplementedError(f"{op_type}: out_type must be string, got {dtypes.as_dtype(out_type).name}")
    sparse = SparseTensor.from_value(sp_input)
    return apply_op(op_type, [sparse.indices, sparse.values, sparse.dense_shape], {"out_type": dtypes.string}, name)


def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Three strings."""
    return _parts("SerializeSparse", sp_input, name, out_type)


def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Three strings for each row of the first axis: [rows, 3]."""
    return _parts("SerializeManySparse", sp_input, name, out_type)


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The SparseTensor of SparseTensors [rows, 3], along a new first axis; its other sizes are their largest.

    rank: of the result. Raises InvalidArgumentError when they are of different ranks, or of another dtype.
    """
    found = apply_op("DeserializeManySparse", [serialized_sparse], {"dtype": dtypes.as_dtype(dtype)}, name)
    indices, values, shape = found
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
