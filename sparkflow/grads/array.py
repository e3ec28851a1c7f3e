"""Gradients of ops that move values about: each puts the gradients back where the values came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.shapes import fully_known
from sparkflow.grads.broadcast import summed_to
from sparkflow.grads.registry import gradient, not_differentiable
from sparkflow.ops import array, array_select, math
from sparkflow.ops.array_join import concat, dynamic_partition, dynamic_stitch, stack, unstack
from sparkflow.ops.array_slice import gather, gather_nd, reverse_sequence, scatter_nd, slice_
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow_runtime.wire import dtypes

# ---------------------------------------------------------------------- passing on

gradient("Identity", "PlaceholderWithDefault", "EnsureShape", sparse=True)(lambda op, dy: dy)
gradient("IdentityN", sparse=True, partial=True)(lambda op, *dys: dys)


@gradient("PreventGradient")
def _prevent_gradient(op: Operation, dy: Tensor) -> Any:
    raise LookupError(f"Gradient explicitly disabled at {op.name!r}: {op.attr('message')}")


# ---------------------------------------------------------------------- layout


def _back_to_input_shape(op: Operation, dy: Tensor) -> Tensor:
    return array.reshape(dy, array.shape(op.inputs[0]))


gradient("Reshape", "ExpandDims")(lambda op, dy: (lambda: _back_to_input_shape(op, dy), None))
gradient("Squeeze")(_back_to_input_shape)
gradient("Transpose")(lambda op, dy: (lambda: array.transpose(dy, array.invert_permutation(op.inputs[1])), None))
gradient("ConjugateTranspose")(
    lambda op, dy: (lambda: array.transpose(dy, array.invert_permutation(op.inputs[1]), conjugate=True), None)
)
gradient("ReverseV2")(lambda op, dy: (lambda: array.reverse(dy, op.inputs[1]), None))
gradient("ReverseSequence")(
    lambda op, dy: (
        lambda: reverse_sequence(dy, op.inputs[1], op.attr("seq_dim"), op.attr("batch_dim")),
        None,
    )
)
gradient("Fill")(lambda op, dy: (None, lambda: reduce_sum(dy)))


@gradient("Tile")
def _tile(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """Sum over the copies: axis i of dy is cut into (multiples[i], size[i])."""
    x, times = op.inputs
    told = constant_value(times)

    def grad() -> Tensor:
        if told is not None and x._shape is not None and fully_known(x._shape):
            known = [n for pair in zip(told.tolist(), x._shape) for n in pair]
            return array.reshape(reduce_sum(array.reshape(dy, known), [*range(0, len(known), 2)]), x._shape)
        sizes = math.cast(array.shape(x), times.dtype)
        cut = array.reshape(array.transpose(stack([times, sizes])), [-1])
        copies = math.range(0, array.size(cut), 2)
        return array.reshape(reduce_sum(array.reshape(dy, cut), copies), sizes)

    return grad, None


def _pad_front(op: Operation) -> Tensor:
    """How much was put before, along each axis."""
    paddings = op.inputs[1]
    first = slice_(paddings, [0, 0], [-1, 1])
    return array.reshape(first, [-1])


def _unpadded(op: Operation, dy: Tensor) -> Tensor:
    front = _pad_front(op)
    return slice_(dy, front, math.cast(array.shape(op.inputs[0]), front.dtype))


gradient("Pad")(lambda op, dy: (lambda: _unpadded(op, dy), None))


@gradient("PadV2")
def _pad_v2(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    return lambda: _unpadded(op, dy), None, lambda: reduce_sum(dy) - reduce_sum(_unpadded(op, dy))


def _folded(op_type: str) -> None:
    """Mirrored borders are folded back; folding passes its gradient to both, as mirroring does."""
    back = {"MirrorPad": "MirrorPadGrad", "MirrorPadGrad": "MirrorPad"}[op_type]
    gradient(op_type)(lambda op, dy: (lambda: apply_op(back, [dy, op.inputs[1]], {"mode": op.attr("mode")}), None))


_folded("MirrorPad")
_folded("MirrorPadGrad")
gradient("BroadcastTo")(lambda op, dy: (lambda: summed_to(dy, op.inputs[0]), None))

# ---------------------------------------------------------------------- joining and splitting


@gradient("ConcatV2", sparse=True)
def _concat(op: Operation, dy: Tensor | IndexedSlices) -> list[Any]:
    """Each value gets its part of dy: Split where all are alike, Slice otherwise; of rows those that are its own."""
    values, axis = op.inputs[:-1], op.inputs[-1]
    known, first = _static_axis(axis), values[0]._shape
    if known is not None and first is not None:
        known %= len(first)
    told = known is not None and all(v._shape is not None and v._shape[known] is not None for v in values)
    if isinstance(dy, IndexedSlices):
        if known == 0:
            return [*_own_rows(values, dy), None]
        if told:  # tables side by side
            parts = _static_parts(values, known or 0, dy.values)
            return [*(partial(_slices_of, part, dy, value) for part, value in zip(parts, values)), None]
        dy = convert_to_tensor(dy)
    if fully_known(first) and all(v._shape == first for v in values):
        return [*apply_op("Split", [axis, dy], {"num_split": len(values)}), None]
    if told:
        return [*_static_parts(values, known or 0, dy), None]
    sizes = apply_op("ShapeN", [values], {"out_type": dtypes.int32})
    at = math.floormod(axis, array.rank(values[0]))
    offsets = apply_op("ConcatOffset", [at, sizes])
    return [*((lambda o=o, s=s: slice_(dy, o, s)) for o, s in zip(offsets, sizes)), None]


def _static_parts(values: Sequence[Tensor], axis: int, dy: Tensor) -> list[Any]:
    """The parts, with constant bounds: the values themselves are not needed, which counts in loops."""
    parts, start = [], 0
    for value in values:
        dims = value._shape or ()
        begin, size = [0] * len(dims), [-1] * len(dims)
        begin[axis], size[axis] = start, dims[axis] or 0
        parts.append(lambda begin=begin, size=size: slice_(dy, begin, size))
        start += size[axis]
    return parts


def _slices_of(part: Callable[[], Tensor], dy: IndexedSlices, value: Tensor) -> IndexedSlices:
    return IndexedSlices(part(), dy.indices, array.shape(value))


def _own_rows(values: Sequence[Tensor], dy: IndexedSlices) -> list[Any]:
    """Of a look-up in tables one after the other: each has the rows that were found in it."""
    parts, start = [], convert_to_tensor(0, dy.indices.dtype)
    for value in values:
        whole = array.shape(value)
        end = start + math.cast(whole[0], dy.indices.dtype)

        def grad(start: Tensor = start, end: Tensor = end, whole: Tensor = whole) -> IndexedSlices:
            here = array.reshape(array_select.where(math.logical_and(dy.indices >= start, dy.indices < end)), [-1])
            return IndexedSlices(gather(dy.values, here), gather(dy.indices, here) - start, whole)

        parts.append(grad)
        start = end
    return parts


gradient("Pack")(lambda op, dy: unstack(dy, len(op.inputs), op.attr("axis")))
gradient("Unpack")(lambda op, *dys: stack(dys, op.attr("axis")))
gradient("Split")(lambda op, *dys: (None, lambda: concat(list(dys), op.inputs[0])))
gradient("SplitV")(lambda op, *dys: (lambda: concat(list(dys), op.inputs[2]), None, None))


@gradient("DynamicPartition")
def _dynamic_partition(op: Operation, *dys: Tensor) -> tuple[Any, Any]:
    data, partitions = op.inputs

    def grad() -> Tensor:
        sizes = array.shape(partitions)
        positions = array.reshape(math.range(0, array.size(partitions), 1), sizes)
        places = dynamic_partition(positions, partitions, len(dys))
        return array.reshape(dynamic_stitch(places, dys), array.shape(data))

    return grad, None


@gradient("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(op: Operation, dy: Tensor) -> list[Any]:
    places = op.inputs[: op.attr("N")]
    return [None] * len(places) + [(lambda i=i: gather(dy, i)) for i in places]


# ---------------------------------------------------------------------- parts


def _holding(places: Tensor, x: Tensor) -> dtypes.DType:
    """The type of places in x, or a wider one that holds the sizes of x too."""
    wide = array.type_of_sizes(x)
    return wide if wide is dtypes.int64 else places.dtype.base_dtype


@gradient("Slice")
def _slice(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """dy with zeros around it."""
    x, begin, _ = op.inputs

    def grad() -> Tensor:
        want = _holding(begin, x)
        before = math.cast(begin, want)
        after = array.shape(x, out_type=want) - array.shape(op.outputs[0], out_type=want) - before
        return array.pad(dy, stack([before, after], axis=1))

    return grad, None, None


@gradient("StridedSlice")
def _strided_slice(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    x, begin, end, strides = op.inputs
    masks = {k: v for k, v in op.attrs.items() if k.endswith("_mask")}

    def grad() -> Tensor:
        want = _holding(begin, x)
        bounds = [math.cast(t, want) for t in (begin, end, strides)]
        return apply_op("StridedSliceGrad", [array.shape(x, out_type=want), *bounds, dy], masks)

    return grad, None, None, None


@gradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, dy: Tensor) -> tuple[Any, ...]:
    masks = {k: v for k, v in op.attrs.items() if k.endswith("_mask")}
    return None, None, None, None, lambda: apply_op("StridedSlice", [dy, *op.inputs[1:4]], masks)


def _rows(op: Operation, dy: Tensor) -> IndexedSlices:
    params, indices = op.inputs[:2]
    with params.graph.colocate_with(params):  # beside the table, whose size nobody else needs to know
        whole = array.shape(params)
    if params._shape is not None and fully_known(params._shape[1:]) and 0 not in params._shape[1:]:
        flat: Any = [-1, *params._shape[1:]]
    else:  # how many rows without elements there are, -1 could not tell
        flat = concat([array.reshape(array.size(indices), [1]), whole[1:]], 0)
    return IndexedSlices(array.reshape(dy, flat), array.reshape(indices, [-1]), whole)


@gradient("Gather")
def _gather_first(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    return lambda: _rows(op, dy), None


@gradient("GatherV2")
def _gather(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    """Along the first axis the rows themselves, as IndexedSlices; along another a sum into zeros."""
    if not op.attr("batch_dims") and _static_axis(op.inputs[2]) == 0:
        return lambda: _rows(op, dy), None, None
    return lambda: _summed_along(op, dy), None, None


def _summed_along(op: Operation, dy: Tensor) -> Tensor:
    """With the batch axes and the gathered one in front: add rows, and move it back."""
    params, indices, axis = op.inputs
    sizes, count = array.shape(params), array.rank(params)
    at = math.floormod(math.cast(axis, dtypes.int32), count)
    batch = op.attr("batch_dims") if op.attr("batch_dims") >= 0 else array.rank(indices) + op.attr("batch_dims")
    end = at + array.rank(indices) - batch  # of the axes that indices made
    batch_axes = math.range(0, batch, 1)
    before, after = math.range(batch, at, 1), math.range(end, end + count - at - 1, 1)
    moved = array.transpose(dy, concat([batch_axes, math.range(at, end, 1), before, after], 0))
    length, batch_sizes = gather(sizes, at), slice_(sizes, [0], [batch])
    rows = apply_op("Prod", [batch_sizes, 0])
    offsets = array.reshape(math.range(0, rows, 1) * length, concat([batch_sizes, array.fill(stack([end - at]), 1)], 0))
    ids = indices + math.cast(offsets, indices.dtype) if op.attr("batch_dims") else indices
    summed = apply_op("UnsortedSegmentSum", [moved, ids, rows * length])
    rest = gather(sizes, concat([before, math.range(at + 1, count, 1)], 0))
    summed = array.reshape(summed, concat([batch_sizes, stack([length]), rest], 0))
    back = [batch_axes, math.range(batch + 1, at + 1, 1), stack([batch]), math.range(at + 1, count, 1)]
    return array.transpose(summed, concat(back, 0))


def _static_axis(axis: Tensor) -> int | None:
    value = constant_value(axis)
    return None if value is None else int(value)


@gradient("GatherNd")
def _gather_nd(op: Operation, dy: Tensor) -> tuple[Any, Any]:
    """Of one index to a row the rows themselves, as a look-up's: an optimizer leaves the others alone."""
    params, indices = op.inputs
    if indices._shape is not None and len(indices._shape) == 2 and indices._shape[1] == 1:
        return lambda: _rows(op, dy), None
    return lambda: scatter_nd(indices, dy, array.shape(params, out_type=indices.dtype)), None


gradient("ScatterNd")(lambda op, dy: (None, lambda: gather_nd(dy, op.inputs[0]), None))


@gradient("Select", "SelectV2")
def _select(op: Operation, dy: Tensor) -> tuple[Any, Any, Any]:
    condition = op.inputs[0]
    zeros = array.zeros_like(dy)
    if op.type == "Select":
        return None, lambda: array_select.where(condition, dy, zeros), lambda: array_select.where(condition, zeros, dy)
    pick = array_select.where_v2
    return (
        None,
        lambda: summed_to(pick(condition, dy, zeros), op.inputs[1]),
        lambda: summed_to(pick(condition, zeros, dy), op.inputs[2]),
    )


@gradient("OneHot")
def _one_hot(op: Operation, dy: Tensor) -> tuple[Any, Any, Any, Any]:
    """on_value gets dy where the index was, off_value the rest."""

    def on() -> Tensor:
        one, nothing = (convert_to_tensor(v, dy.dtype.base_dtype) for v in (1, 0))
        return reduce_sum(
            dy * apply_op("OneHot", [op.inputs[0], op.inputs[1], one, nothing], {"axis": op.attr("axis")})
        )

    return None, None, on, lambda: reduce_sum(dy) - on()


not_differentiable(
    *(
        "Const",
        "Placeholder",
        "PlaceholderV2",
        "StopGradient",
        "Shape",
        "ShapeN",
        "Size",
        "Rank",
        "ZerosLike",
        "OnesLike",
        "Where",
    ),
    *("Unique", "UniqueWithCounts", "InvertPermutation", "ConcatOffset", "ListDiff"),
)
