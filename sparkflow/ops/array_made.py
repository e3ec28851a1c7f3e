"""Arrays made of other ops: masks, counts, orders."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import array, array_slice, math, math_reduce, nn, rules
from sparkflow_runtime.wire import dtypes


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """[..., maxlen]: true at the first lengths[...] places. maxlen: the largest length, when None."""
    with get_default_graph().name_scope(name or "SequenceMask"):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = math.maximum(math_reduce.reduce_max(lengths), array.zeros_like(math_reduce.reduce_max(lengths)))
        maxlen = convert_to_tensor(maxlen)
        want = dtypes.int64 if _wide(lengths) or _wide(maxlen) else dtypes.int32  # which hold both: nothing is cut
        places = math.range(0, math.cast(maxlen, want), 1, dtype=want)
        return math.cast(math.less(places, array.expand_dims(math.cast(lengths, want), -1)), dtype)


def _wide(x: Tensor) -> bool:
    return x.dtype.base_dtype.max > dtypes.int32.max


def count_nonzero(
    input_tensor: Any = None, axis: Any = None, keepdims: bool | None = None, dtype: Any = dtypes.int64,
    name: str | None = None, reduction_indices: Any = None, keep_dims: bool | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """How many values over `axis` are not 0."""
    with get_default_graph().name_scope(name or "count_nonzero"):
        x = convert_to_tensor(input_tensor if input is None else input)
        there = math.cast(math.not_equal(x, array.zeros_like(x)), dtypes.int64)
        total = math_reduce.reduce_sum(there, axis, keepdims, None, reduction_indices, keep_dims)
        return math.cast(total, dtype)


def confusion_matrix(
    labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = dtypes.int32, name: str | None = None,
    weights: Any = None,
) -> Tensor:  # fmt: skip
    """[num_classes, num_classes]: how often label i (row) was predicted as j (column), or the sums of weights."""
    with get_default_graph().name_scope(name or "confusion_matrix"):
        found = [math.cast(convert_to_tensor(x), dtypes.int64) for x in (labels, predictions)]
        if num_classes is None:
            num_classes = math.add(math.maximum(*(math_reduce.reduce_max(x) for x in found)), 1)
        size = math.cast(convert_to_tensor(num_classes), dtypes.int64)
        at = apply_op("Pack", [found], {"axis": 1})
        each = (
            array.ones_like(found[1], dtype=dtype) if weights is None else math.cast(convert_to_tensor(weights), dtype)
        )
        return array_slice.scatter_nd(at, each, apply_op("Pack", [[size, size]]))


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """The positions (int32) that bring values into order along an axis."""
    return _sorted(values, axis, direction, name or "argsort")[1]


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The values in order along an axis."""
    return _sorted(values, axis, direction, name or "sort")[0]


def _sorted(values: Any, axis: int, direction: str, name: str) -> tuple[Tensor, Tensor]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Direction should be one of ASCENDING or DESCENDING, got {direction!r}")
    with get_default_graph().name_scope(name):
        values = convert_to_tensor(values)
        rank = rules.rank_of(values)
        if rank is None or not -rank <= axis < rank:
            raise ValueError(f"{name}: axis {axis} of shape {values.shape} is not known")
        order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
        moved = array.transpose(values, order)
        rising = direction == "ASCENDING"
        found, places = nn.top_k(math.negative(moved) if rising else moved, array.shape(moved)[-1])
        back = [order.index(i) for i in range(rank)]
        return array.transpose(math.negative(found) if rising else found, back), array.transpose(places, back)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The static shape that both broadcast to. Raises ValueError where they do not."""
    return TensorShape(shapes.broadcast(shapes.as_dims(shape_x), shapes.as_dims(shape_y), "broadcast_static_shape"))


def is_tensor(x: Any) -> bool:
    """Whether x is a Tensor, or stands for one: a variable, IndexedSlices, a SparseTensor."""
    return isinstance(x, Tensor) or hasattr(x, "get_shape") or hasattr(x, "dense_shape")
