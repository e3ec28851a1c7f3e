"""How often each number occurs in each row, as a SparseTensor."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, checks
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _of_rank(rank: int | None) -> list[Dims]:
    return [(None, rank), (None,), (rank,)]


def _dense_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    if dims is not None and len(dims) not in (1, 2):
        raise InvalidArgumentError(f"{op.type}: values must be a vector or a matrix, got shape {dims}")
    return _of_rank(None if dims is None else len(dims))


def _sparse_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[2]._shape
    rank = dims[0] if dims else None
    return _of_rank(None if rank is None else min(rank, 2))


_COUNTS = "output_indices: int64, output_values: output_type, output_dense_shape: int64"
_BOUNDS: dict[str, Any] = {"minlength": -1, "maxlength": -1}
op("DenseCountSparseOutput", f"values: T, weights: output_type -> {_COUNTS}", _dense_rule, **_BOUNDS)
op(
    "SparseCountSparseOutput",
    f"indices: int64, values: T, dense_shape: int64, weights: output_type -> {_COUNTS}", _sparse_rule, **_BOUNDS,
)  # fmt: skip
op(
    "RaggedCountSparseOutput",
    f"splits: int64, values: T, weights: output_type -> {_COUNTS}", lambda op: _of_rank(2), **_BOUNDS,
)  # fmt: skip


def sparse_bincount(
    values: Any, weights: Any = None, axis: int | None = 0, minlength: int | None = None, maxlength: int | None = None,
    binary_output: bool = False, name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """How often each number of at least 0 occurs in values, or the sums of its weights.

    values: a tensor, SparseTensor or RaggedTensor of int32 or int64; weights: of its kind and places. axis 0 or None:
    of all values, a SparseTensor [largest + 1]; axis -1: of each row, [rows, largest + 1]. maxlength: larger numbers
    are left out, and that is the last size; minlength: its least. binary_output: 1 where a number occurs at all.
    """
    if weights is not None and binary_output:
        raise ValueError("sparse.bincount: binary_output and weights exclude each other")
    if axis not in (None, 0, -1):
        raise ValueError(f"sparse.bincount: axis must be 0 or -1, got {axis}")
    attrs = {
        "minlength": -1 if minlength is None else minlength,
        "maxlength": -1 if maxlength is None else maxlength,
        "binary_output": binary_output,
    }
    with get_default_graph().name_scope(name or "count"):
        if not isinstance(values, (SparseTensor, RaggedTensor)):
            values = convert_to_tensor(values, name="values")
        found = _flat(values, weights) if axis != -1 else _by_rows(values, weights)
        return SparseTensor(*apply_op(found[0], found[1], attrs))


def _flat(values: Any, weights: Any) -> tuple[str, list[Any]]:
    if isinstance(values, (SparseTensor, RaggedTensor)):
        whole = _alike(values, weights)
        while isinstance(values, RaggedTensor):
            values = values.values
        values = values.values if isinstance(values, SparseTensor) else values
    else:
        whole = _none(values) if weights is None else array.reshape(weights, [-1])
    return "DenseCountSparseOutput", [array.reshape(values, [-1]), whole]


def _by_rows(values: Any, weights: Any) -> tuple[str, list[Any]]:
    if isinstance(values, SparseTensor):
        parts = [values.indices, values.values, values.dense_shape]
        return "SparseCountSparseOutput", [*parts, _alike(values, weights)]
    if isinstance(values, RaggedTensor):
        return "RaggedCountSparseOutput", [values.row_splits, values.values, _alike(values, weights)]
    return "DenseCountSparseOutput", [values, _none(values) if weights is None else convert_to_tensor(weights)]


def _none(values: Tensor) -> Tensor:
    return convert_to_tensor([], values.dtype.base_dtype)


def _alike(values: Any, weights: Any) -> Tensor:
    """The weights' own values, once it is known that they lie where the values do."""
    if weights is None:
        return _none(values.values)
    if type(weights) is not type(values):
        kind = type(values).__name__
        raise ValueError(f"sparse.bincount: weights must be a {kind} if values is a {kind}, got {weights!r}")
    sparse = isinstance(values, SparseTensor)
    parts = ("indices", "dense_shape") if sparse else ("row_splits",)
    pairs = [(getattr(weights, part), getattr(values, part)) for part in parts]
    with get_default_graph().control_dependencies([checks.assert_equal(a, b) for a, b in pairs if a is not b]):
        return array.identity(weights.values)
