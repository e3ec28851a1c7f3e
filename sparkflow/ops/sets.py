"""Sets along the last axis: each row of a tensor, or of a SparseTensor, is a set of values."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.ops import rules
from sparkflow_runtime.wire.errors import InvalidArgumentError

_ALLOWED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "string")


def _rank(op: Operation, first: int, sparse: bool) -> int | None:
    """The rank of the set that begins at that input. Raises InvalidArgumentError where it is below 2."""
    if not sparse:
        dims = rules.require_rank(op, op.spec.inputs[first].name, op.inputs[first], 2, at_least=True)
        return None if dims is None else len(dims)
    indices = rules.require_rank(op, op.spec.inputs[first].name, op.inputs[first], 2) or (None, None)
    rules.require_rank(op, op.spec.inputs[first + 2].name, op.inputs[first + 2], 1)
    if indices[1] is not None and indices[1] < 2:
        raise InvalidArgumentError(f"{op.type}: sets must be of rank 2 or more, got indices {shapes.show(indices)}")
    return indices[1]


def _rule(op: Operation) -> list[Dims]:
    first_is_sparse, second_is_sparse = op.type.startswith("Sparse"), "ToSparse" in op.type
    ranks = [_rank(op, 0, first_is_sparse), _rank(op, 3 if first_is_sparse else 1, second_is_sparse)]
    if None not in ranks and ranks[0] != ranks[1]:
        raise InvalidArgumentError(f"{op.type}: both sets must have one rank, got {ranks[0]} and {ranks[1]}")
    if op.type.startswith("DenseToDense"):
        a, b = op.inputs[0]._shape, op.inputs[1]._shape
        if a is not None and b is not None and not shapes.compatible(a[:-1], b[:-1]):
            raise InvalidArgumentError(
                f"{op.type}: both sets must have the same shape but for the last size, got {shapes.show(a)} and "
                f"{shapes.show(b)}"
            )
    rank = ranks[1] if ranks[0] is None else ranks[0]
    return [(None, rank), (None,), (rank,)]


_PARTS = "set{0}_indices: int64, set{0}_values: T, set{0}_shape: int64"
_OUT = "result_indices: int64, result_values: T, result_shape: int64"
op("DenseToDenseSetOperation", f"set1: T, set2: T -> {_OUT}", _rule, validate_indices=True)
op("DenseToSparseSetOperation", f"set1: T, {_PARTS.format(2)} -> {_OUT}", _rule, validate_indices=True)
op(
    "SparseToSparseSetOperation",
    f"{_PARTS.format(1)}, {_PARTS.format(2)} -> {_OUT}",
    _rule,
    validate_indices=True,
)
op(
    "SetSize",
    "set_indices: int64, set_values: T, set_shape: int64 -> size: int32",
    lambda op: [None],
    validate_indices=True,
)


def _as_set(value: Any) -> Any:
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        found: Any = SparseTensor.from_value(value)
    else:
        found = convert_to_tensor(value)
    if found.dtype.base_dtype.name not in _ALLOWED:
        raise TypeError(f"Sets are of integers or strings, got {found.dtype.name} ({found})")
    return found


def _parts(value: Any) -> list[Tensor]:
    return [value.indices, value.values, value.dense_shape] if isinstance(value, SparseTensor) else [value]


def _operation(a: Any, b: Any, kind: str, validate_indices: bool) -> SparseTensor:
    a, b = _as_set(a), _as_set(b)
    if a.dtype.base_dtype is not b.dtype.base_dtype:
        raise TypeError(f"Types of the sets differ: {a.dtype.name} and {b.dtype.name}")
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):  # there is no op of that order
        a, b, kind = b, a, {"a-b": "b-a", "b-a": "a-b"}.get(kind, kind)
    kinds = ["Sparse" if isinstance(s, SparseTensor) else "Dense" for s in (a, b)]
    attrs = {"set_operation": kind, "validate_indices": validate_indices}
    return SparseTensor(*apply_op(f"{kinds[0]}To{kinds[1]}SetOperation", [*_parts(a), *_parts(b)], attrs))


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """How many different values each row of the SparseTensor `a` [..., longest] has. Raises TypeError where it is not
    sparse."""
    a = SparseTensor.from_value(a)
    return apply_op("SetSize", _parts(_as_set(a)), {"validate_indices": validate_indices})


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """The values that are in both rows, each once and in order: a SparseTensor [..., longest]. a and b: tensors or
    SparseTensors of integers or strings, alike in all sizes but the last."""
    return _operation(a, b, "intersection", validate_indices)


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """As set_intersection: the values of a that are not in b, or with aminusb=False those of b that are not in a."""
    return _operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """As set_intersection: the values that are in either row."""
    return _operation(a, b, "union", validate_indices)
