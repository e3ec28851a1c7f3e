"""What feature columns are made of: buckets of numbers, crosses of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import math
from sparkflow.ops.sparse import is_sparse
from sparkflow_runtime.wire import dtypes

HASH_KEY = 0xDECAFCAFFE  # of crosses whose user gives none

op("Bucketize", "input: T -> output: int32", lambda op: [op.inputs[0]._shape])
op(
    "SparseCross",
    "indices: N * int64, values: [sparse_types], shapes: N * int64, dense_inputs: [dense_types] -> "
    "output_indices: int64, output_values: out_type, output_shape: int64",
    lambda op: [(None, 2), (None,), (2,)],
)
op(
    "SparseCrossV2",
    "indices: N * int64, values: [sparse_types], shapes: N * int64, dense_inputs: [dense_types], sep: string -> "
    "output_indices: int64, output_values: string, output_shape: int64",
    lambda op: [(None, 2), (None,), (2,)],
)


def bucketize(input: Any, boundaries: Sequence[float], name: str | None = None) -> Tensor:
    """For each number how many of the ascending boundaries are at most it: int32, of its shape."""
    edges = [float(b) for b in boundaries]
    if edges != sorted(edges):
        raise ValueError(f"bucketize: boundaries must ascend, got {edges}")
    return apply_op("Bucketize", [input], {"boundaries": edges}, name)


def sparse_cross(inputs: Sequence[Any], name: str | None = None) -> SparseTensor:
    """The products of each row's features of all inputs (SparseTensors or matrices), as strings joined by `_X_`."""
    found = apply_op("SparseCrossV2", [*_parts(inputs), "_X_"], name=name or "SparseCross")
    return SparseTensor(*found)


def sparse_cross_hashed(
    inputs: Sequence[Any], num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """As sparse_cross, with a number in [0, num_buckets) for each product (below 2**63 - 1 where num_buckets is 0).

    Strings count by their Fingerprint64, integers as they are, other numbers cut to integers; sparse inputs come before
    dense ones.
    """
    attrs = {
        "hashed_output": True, "num_buckets": num_buckets, "hash_key": HASH_KEY if hash_key is None else hash_key,
        "out_type": dtypes.int64, "internal_type": dtypes.int64,
    }  # fmt: skip
    return SparseTensor(*apply_op("SparseCross", _parts(inputs), attrs, name or "SparseCross"))


def _parts(inputs: Sequence[Any]) -> list[Any]:
    """Indices, values and shapes of the sparse inputs, and the dense ones."""
    sparse = [SparseTensor.from_value(x) for x in inputs if is_sparse(x)]
    dense = [_discrete(convert_to_tensor(x)) for x in inputs if not is_sparse(x)]
    values = [_discrete(s.values) for s in sparse]
    return [[s.indices for s in sparse], values, [s.dense_shape for s in sparse], dense]


def _discrete(x: Tensor) -> Tensor:
    """Strings, or int64: of booleans, and of numbers cut to whole ones, as in TensorFlow."""
    if x.dtype.base_dtype == dtypes.string:
        return x
    return x if x.dtype.base_dtype == dtypes.int64 else math.cast(x, dtypes.int64)
