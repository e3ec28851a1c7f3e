"""Tensors put together and taken apart: concat, split, stack, unstack, dynamic partition and stitch."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor, holds_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dimension, Dims
from sparkflow.ops import rules
from sparkflow.ops.elementwise import of_ragged_too
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError


def joined(op: Operation, parts: Sequence[Tensor], along: Tensor) -> list[Dims]:
    """Equal sizes but for the axis, along which they add up."""
    values = [t._shape for t in parts]
    ranks = {len(d) for d in values if d is not None}
    if not ranks:
        return [None]
    rank = ranks.pop()
    if ranks:
        raise InvalidArgumentError(f"{op.type}: ranks differ, got shapes {', '.join(map(shapes.show, values))}")
    axis = rules.constant_axis(op, along, rank)
    if axis is None:
        return [(None,) * rank]
    merged: Dims = (None,) * rank
    total: int | None = 0
    for dims in values:
        one = (None,) * rank if dims is None else dims
        total = None if total is None or one[axis] is None else total + one[axis]  # type: ignore[operator]
        try:
            merged = shapes.merge(merged, (*one[:axis], None, *one[axis + 1 :]))
        except InvalidArgumentError:
            listed = ", ".join(map(shapes.show, values))
            raise InvalidArgumentError(
                f"{op.type}: sizes must agree but for axis {axis}, got shapes {listed}"
            ) from None
    return [(*merged[:axis], total, *merged[axis + 1 :])]  # type: ignore[index]


def _split_rule(op: Operation) -> list[Dims]:
    dims, count = op.inputs[1]._shape, op.attrs["num_split"]
    if dims is None:
        return [None] * count
    axis = rules.constant_axis(op, op.inputs[0], len(dims))
    if axis is None:
        return [(None,) * len(dims)] * count
    whole = dims[axis]
    if whole is not None and whole % count:
        raise InvalidArgumentError(
            f"Split: axis {axis} of {shapes.show(dims)} has size {whole}, no multiple of {count}"
        )
    return [(*dims[:axis], None if whole is None else whole // count, *dims[axis + 1 :])] * count


def _split_v_rule(op: Operation) -> list[Dims]:
    dims, count = op.inputs[0]._shape, op.attrs["num_split"]
    sizes, axis_value = constant_value(op.inputs[1]), constant_value(op.inputs[2])
    if dims is None:
        return [None] * count
    if axis_value is None:
        return [(None,) * len(dims)] * count
    axis = rules.axis_in(op, int(axis_value), len(dims))
    parts = [None] * count if sizes is None else _sizes(op, dims[axis], [int(s) for s in sizes])
    return [(*dims[:axis], part, *dims[axis + 1 :]) for part in parts]


def _sizes(op: Operation, whole: int | None, sizes: list[int]) -> list[int | None]:
    """The sizes with -1 filled in."""
    known = sum(s for s in sizes if s >= 0)
    rest = None if whole is None else whole - known
    if rest is not None and (rest < 0 or (rest > 0 and -1 not in sizes)):
        raise InvalidArgumentError(f"SplitV: sizes {sizes} must add up to {whole} [op {op.name!r}]")
    return [rest if s < 0 else s for s in sizes]


def _unpack_rule(op: Operation) -> list[Dims]:
    dims, count = op.inputs[0]._shape, op.attrs["num"]
    if dims is None:
        return [None] * count
    axis = rules.axis_in(op, op.attrs["axis"], len(dims))
    if dims[axis] not in (None, count):
        raise InvalidArgumentError(f"Unpack: axis {axis} of {shapes.show(dims)} has size {dims[axis]}, not {count}")
    return [dims[:axis] + dims[axis + 1 :]] * count


op(
    "ConcatV2", "values: N * T, axis: Tidx -> output: T", lambda op: joined(op, op.inputs[:-1], op.inputs[-1]),
    Tidx=dtypes.int32,
)  # fmt: skip
op("Split", "split_dim: int32, value: T -> output: num_split * T", _split_rule)
op("SplitV", "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T", _split_v_rule, Tlen=dtypes.int64)
op("Unpack", "value: T -> output: num * T", _unpack_rule, axis=0)
op(
    "ConcatOffset",
    "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type",
    lambda op: [op.inputs[1]._shape] * (len(op.inputs) - 1),
    shape_type=dtypes.int32,
)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors one after the other along an existing axis. Raises InvalidArgumentError where other sizes differ."""
    if not isinstance(values, (list, tuple)):
        values = [values]
    for value in values:
        if hasattr(value, "_concatenated"):  # a RaggedTensor knows how
            return value._concatenated(values, axis, name)
    if not values:
        raise ValueError("concat: values is empty; give at least one tensor")
    if len(values) == 1:
        with get_default_graph().name_scope(name):
            if convert_to_tensor(axis, dtypes.int32, name="concat_dim").shape.ndims not in (0, None):
                raise ValueError(f"concat: axis must be a scalar, got {axis!r}; the order is concat(values, axis)")
            return apply_op("Identity", [values[0]], name=name)
    return apply_op("ConcatV2", [list(values), axis], name=name)


@of_ragged_too
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Parts of a tensor along an axis: so many equal ones, or of the sizes listed (one of them may be -1)."""
    if isinstance(num_or_size_splits, (Integral, Dimension)):
        num_or_size_splits = int(num_or_size_splits)
        if num_or_size_splits < 1:
            raise ValueError(f"split: num_or_size_splits must be at least 1, got {num_or_size_splits}")
        return apply_op("Split", [axis, value], {"num_split": num_or_size_splits}, name)
    sizes = convert_to_tensor(num_or_size_splits, name="size_splits")
    count = int(num) if num is not None else (sizes._shape or (None,))[0]
    if count is None:
        raise ValueError(f"split: the number of sizes in {sizes} is not known statically; give num")
    return apply_op("SplitV", [value, sizes, axis], {"num_split": count}, name)


@of_ragged_too
def stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape side by side along a new axis. Numbers alone are of one type, as in a constant. A tensor is
    what its rows along axis 0 make."""
    if isinstance(values, Tensor) and axis == 0:
        return values
    values = list(values)
    if not any(map(holds_tensor, values)) and (axis == 0 or not values):
        try:
            return convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # of several types or lengths: the node says which
    return apply_op("Pack", [values], {"axis": axis}, name)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """The slices along an axis, without that axis. num: their number, where the shape does not tell it."""
    value = convert_to_tensor(value)
    if num is None and value._shape is not None and -len(value._shape) <= axis < len(value._shape):
        num = value._shape[axis]
    if num is None:
        raise ValueError(f"unstack: the size of axis {axis} of {value} is not known statically; give num")
    return apply_op("Unpack", [value], {"num": int(num), "axis": axis}, name)


# ---------------------------------------------------------------------- dynamic


def _partition_rule(op: Operation) -> list[Dims]:
    data, parts = op.inputs[0]._shape, op.inputs[1]._shape
    if data is None or parts is None:
        return [None] * op.attrs["num_partitions"]
    if not shapes.compatible(data[: len(parts)], parts):
        raise InvalidArgumentError(
            f"DynamicPartition: data {shapes.show(data)} must begin with the shape of partitions {shapes.show(parts)}"
        )
    return [(None, *data[len(parts) :])] * op.attrs["num_partitions"]


def _stitch_rule(op: Operation) -> list[Dims]:
    n = op.attrs["N"]
    rest: Dims = None
    for indices, data in zip((t._shape for t in op.inputs[:n]), (t._shape for t in op.inputs[n:])):
        if indices is not None and data is not None:
            rest = shapes.merge(rest, data[len(indices) :])
    known = [constant_value(t) for t in op.inputs[:n]]
    if rest is None:
        return [None]
    ends = [int(k.max()) + 1 for k in known if k is not None and k.size]
    return [(None if any(k is None for k in known) else max(ends, default=0), *rest)]


op("DynamicPartition", "data: T, partitions: int32 -> outputs: num_partitions * T", _partition_rule)
for _op_type in ("DynamicStitch", "ParallelDynamicStitch"):
    op(_op_type, "indices: N * int32, data: N * T -> merged: T", _stitch_rule)


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Rows of data sorted into num_partitions tensors by their number in partitions; order is kept within each."""
    return apply_op("DynamicPartition", [data, partitions], {"num_partitions": num_partitions}, name)


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """merged with merged[indices[m][i, ...], ...] = data[m][i, ..., ...]; the last of equal indices holds."""
    return apply_op("DynamicStitch", [list(indices), list(data)], name=name)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Coordinates of a grid from one vector an axis; indexing "xy" swaps the first two axes of the result."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    with get_default_graph().name_scope(name):
        vectors = [apply_op("Reshape", [a, [-1]]) for a in args]
        sizes = [apply_op("Size", [v]) for v in vectors]
        at = list(range(len(vectors)))
        if indexing == "xy" and len(at) > 1:
            at[0], at[1] = 1, 0
        whole = apply_op("Pack", [[sizes[i] for i in at]])
        rows = [
            apply_op("Reshape", [v, [-1 if j == at.index(i) else 1 for j in range(len(at))]])
            for i, v in enumerate(vectors)
        ]
        return [apply_op("BroadcastTo", [r, whole]) for r in rows]
