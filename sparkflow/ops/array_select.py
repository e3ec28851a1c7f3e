"""Choices among elements: where, one_hot, unique."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import rules
from sparkflow.ops.elementwise import of_ragged_too
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _select_rule(op: Operation) -> list[Dims]:
    cond, t, e = (x._shape for x in op.inputs)
    dims = shapes.merge(t, e)
    if cond is None or dims is None or cond == ():
        return [dims]
    whole_rows = len(cond) == 1 and shapes.compatible(cond, dims[:1])
    if not whole_rows and not shapes.compatible(cond, dims):
        raise InvalidArgumentError(
            f"Select: condition {shapes.show(cond)} must be a scalar, a vector over the rows, "
            f"or of x's shape {shapes.show(dims)}"
        )
    return [dims]


def _one_hot_rule(op: Operation) -> list[Dims]:
    dims, depth = op.inputs[0]._shape, constant_value(op.inputs[1])
    if op.attrs["axis"] < -1:
        raise InvalidArgumentError(f"OneHot: axis must be at least -1, got {op.attrs['axis']}")
    if dims is None:
        return [None]
    axis = op.attrs["axis"]
    if not -1 <= axis <= len(dims) or (depth is not None and depth < 0):
        raise InvalidArgumentError(
            f"OneHot: axis must be in [-1, {len(dims)}] and depth at least 0, got {axis} and {depth}"
        )
    axis %= len(dims) + 1
    return [(*dims[:axis], None if depth is None else int(depth), *dims[axis:])]


def _unique_rule(op: Operation) -> list[Dims]:
    rules.require_rank(op, "x", op.inputs[0], 1)
    return [(None,), op.inputs[0]._shape, (None,)][: len(op.outputs)]


op("Select", "condition: bool, t: T, e: T -> output: T", _select_rule)
op("SelectV2", "condition: bool, t: T, e: T -> output: T", lambda op: [_broadcast_three(op)])
op("Where", "input: T -> index: int64", lambda op: [(None, rules.rank_of(op.inputs[0]))], T=dtypes.bool_)
op(
    "OneHot",
    "indices: TI, depth: int32, on_value: T, off_value: T -> output: T",
    _one_hot_rule,
    axis=-1,
    TI=dtypes.int64,
)
op("Unique", "x: T -> y: T, idx: out_idx", _unique_rule, out_idx=dtypes.int32)
op("UniqueWithCounts", "x: T -> y: T, idx: out_idx, count: out_idx", _unique_rule, out_idx=dtypes.int32)
op("ListDiff", "x: T, y: T -> out: T, idx: out_idx", lambda op: [(None,), (None,)], out_idx=dtypes.int32)


def _broadcast_three(op: Operation) -> Dims:
    cond, t, e = (x._shape for x in op.inputs)
    return shapes.broadcast(cond, shapes.broadcast(t, e, "SelectV2"), "SelectV2")


@of_ragged_too
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where condition is true, y elsewhere; without x and y, the positions [n, rank] (int64) of what is true, or
    of the numbers that are not 0.

    condition is a scalar, of x's shape, or a vector that chooses whole rows; x and y have one shape.
    """
    if (x is None) != (y is None):
        raise ValueError("where takes both x and y, or neither")
    if x is None:
        return apply_op("Where", [convert_to_tensor(condition, preferred_dtype=dtypes.bool_)], name=name)
    return apply_op("Select", [condition, x, y], name=name)


@of_ragged_too
def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """As where, with condition, x and y broadcast to one shape."""
    if (x is None) != (y is None):
        raise ValueError("where takes both x and y, or neither")
    if x is None:
        return apply_op("Where", [convert_to_tensor(condition, preferred_dtype=dtypes.bool_)], name=name)
    return apply_op("SelectV2", [condition, x, y], name=name)


@of_ragged_too
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """on_value at each index along a new axis of size depth, off_value elsewhere; an index outside it has no on_value.

    The type is dtype, or that of the values, or float32.
    """
    with get_default_graph().name_scope(name or "one_hot") as scope:
        want = None if dtype is None else dtypes.as_dtype(dtype)
        for value in (on_value, off_value):
            if want is None and value is not None:
                want = convert_to_tensor(value).dtype.base_dtype
        want = want or dtypes.float32
        on = convert_to_tensor(1 if on_value is None else on_value, want, "on_value")
        off = convert_to_tensor(0 if off_value is None else off_value, want, "off_value")
        attrs = {"axis": -1 if axis is None else axis}
        return apply_op("OneHot", [convert_to_tensor(indices, name="indices"), depth, on, off], attrs, scope)


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(y, idx): the values of a vector in order of first appearance, and where each element of x is in y."""
    return apply_op("Unique", [x], {"out_idx": dtypes.as_dtype(out_idx)}, name)


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """As unique, and how often each value occurs."""
    return apply_op("UniqueWithCounts", [x], {"out_idx": dtypes.as_dtype(out_idx)}, name)


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(out, idx): the values of vector x that are not in y, in x's order, and where they are in x."""
    return apply_op("ListDiff", [x, y], {"out_idx": dtypes.as_dtype(index_dtype)}, name or "ListDiff")
