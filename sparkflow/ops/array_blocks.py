"""Blocks of space moved into batch or depth and back, axes rolled around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.ops import array, array_join, math, rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- static shapes


def _known_pairs(op: Operation, index: int, count: int | None) -> list[tuple[int, int]] | None:
    rows, columns = rules.require_matrix(op, op.spec.inputs[index].name, op.inputs[index])
    if columns not in (None, 2) or (count is not None and rows not in (None, count)):
        raise InvalidArgumentError(
            f"{op.type}: {op.spec.inputs[index].name} must have shape [{count}, 2], got {[rows, columns]}"
        )
    value = constant_value(op.inputs[index])
    if value is not None and (value < 0).any():
        raise InvalidArgumentError(
            f"{op.type}: {op.spec.inputs[index].name} must not be negative, got {value.tolist()}"
        )
    return None if value is None else [tuple(p) for p in value.tolist()]


def _divided(op: Operation, what: str, size: int | None, by: int) -> int | None:
    if size is not None and size % by:
        raise InvalidArgumentError(f"{op.type}: {what} {size} is not divisible by {by}")
    return None if size is None else size // by


def _moved(
    op: Operation, dims: Dims, block: list[int] | None, count: int | None,
    batch: Callable[[int | None, int], int | None], space: Callable[[int, int, int], int | None],
) -> Dims:  # fmt: skip
    """[batch, space..., rest] becomes [batch(size, cells of a block), space(axis, size, the block's)..., rest]."""
    if dims is None or count is None:
        return dims and (None,) * len(dims)
    if len(dims) <= count:
        raise InvalidArgumentError(f"{op.type}: input must be of rank {count + 1} at least, got {shapes.show(dims)}")
    if block is None:
        return (None,) * (count + 1) + dims[count + 1 :]
    sizes = [None if size is None else space(i, size, b) for i, (size, b) in enumerate(zip(dims[1:], block))]
    return (batch(dims[0], shapes.product(block)), *sizes, *dims[count + 1 :])


def _to_batch(op: Operation, dims: Dims, block: list[int] | None, pairs: Any, count: int | None) -> Dims:
    def batch(size: int | None, cells: int) -> int | None:
        return None if size is None else size * cells

    def space(axis: int, size: int, b: int) -> int | None:
        return _divided(op, "padded size", None if pairs is None else size + sum(pairs[axis]), b)

    return _moved(op, dims, block, count, batch, space)


def _to_space(op: Operation, dims: Dims, block: list[int] | None, pairs: Any, count: int | None) -> Dims:
    def space(axis: int, size: int, b: int) -> int | None:
        left = None if pairs is None else size * b - sum(pairs[axis])
        if left is not None and left < 0:
            raise InvalidArgumentError(f"{op.type}: crops {pairs[axis]} take more than there is of {size} * {b}")
        return left

    return _moved(op, dims, block, count, lambda size, cells: _divided(op, "batch", size, cells), space)


def _block_of(op: Operation) -> tuple[list[int] | None, int | None]:
    rules.require_rank(op, "block_shape", op.inputs[1], 1)
    value = constant_value(op.inputs[1])
    if value is None:
        return None, (op.inputs[1]._shape or (None,))[0]
    if value.size and value.min() < 1:
        raise InvalidArgumentError(f"{op.type}: block_shape must be above 0, got {value.tolist()}")
    return value.tolist(), value.size


def _nd(op: Operation) -> list[Dims]:
    block, count = _block_of(op)
    pairs = _known_pairs(op, 2, count)
    move = _to_batch if op.type == "SpaceToBatchND" else _to_space
    return [move(op, op.inputs[0]._shape, block, pairs, count)]


def _square(op: Operation) -> list[Dims]:
    dims = rules.require_rank(op, "input", op.inputs[0], 4)
    pairs = _known_pairs(op, 1, 2)
    move = _to_batch if op.type == "SpaceToBatch" else _to_space
    return [move(op, dims, [op.attrs["block_size"]] * 2, pairs, 2)]


def _depth(op: Operation) -> list[Dims]:
    dims, size = rules.require_rank(op, "input", op.inputs[0], 4) or (None,) * 4, op.attrs["block_size"]
    if size < 2:
        raise InvalidArgumentError(f"{op.type}: block_size must be above 1, got {size}")
    first = op.attrs["data_format"].startswith("NC")
    n, h, w, c = (dims[0], *dims[2:], dims[1]) if first else dims
    if op.type == "SpaceToDepth":
        h, w = _divided(op, "height", h, size), _divided(op, "width", w, size)
        c = None if c is None else c * size * size
    else:
        h, w = (None if d is None else d * size for d in (h, w))
        c = _divided(op, "depth", c, size * size)
    return [(n, c, h, w) if first else (n, h, w, c)]


def _rolled(op: Operation) -> list[Dims]:
    rules.require_rank(op, "input", op.inputs[0], 1, at_least=True)
    return rules.same(op)


_INTS: dict[str, Any] = {"Tblock_shape": dtypes.int32}
op(
    "SpaceToBatchND", "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T", _nd,
    Tpaddings=dtypes.int32, **_INTS,
)  # fmt: skip
op(
    "BatchToSpaceND", "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T", _nd,
    Tcrops=dtypes.int32, **_INTS,
)  # fmt: skip
op("SpaceToBatch", "input: T, paddings: Tpaddings -> output: T", _square, Tpaddings=dtypes.int32)
op("BatchToSpace", "input: T, crops: Tidx -> output: T", _square, Tidx=dtypes.int32)
op("SpaceToDepth", "input: T -> output: T", _depth, data_format="NHWC")
op("DepthToSpace", "input: T -> output: T", _depth, data_format="NHWC")
op("Roll", "input: T, shift: Tshift, axis: Taxis -> output: T", _rolled)

# ---------------------------------------------------------------------- builders


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """[batch, space..., rest] -> [batch * blocks, padded space / block_shape..., rest].

    Cell (i, j) of each block goes into the (i, j)-th part of the batch. paddings: [axes, 2], zeros before and after.
    """
    return apply_op("SpaceToBatchND", [input, block_shape, paddings], name=name)


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Undoes space_to_batch_nd; crops: [axes, 2], what is cut off before and after."""
    return apply_op("BatchToSpaceND", [input, block_shape, crops], name=name)


def space_to_batch(
    input: Any, paddings: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """space_to_batch_nd of square blocks of an image batch [batch, height, width, depth], or of block_shape."""
    if block_shape is not None:
        return space_to_batch_nd(input, block_shape, paddings, name)
    return _image(space_to_batch_nd(input, [block_size, block_size], paddings, name))


def batch_to_space(
    input: Any, crops: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """batch_to_space_nd of square blocks, or of block_shape, which may be the size of square ones too."""
    if isinstance(block_shape, int):
        block_size = block_shape
    elif block_shape is not None:
        return batch_to_space_nd(input, block_shape, crops, name)
    return _image(batch_to_space_nd(input, [block_size, block_size], crops, name))


def _image(tensor: Tensor) -> Tensor:
    tensor.set_shape((None,) * 4)
    return tensor


def space_to_depth(
    input: Any = None, block_size: int | None = None, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """[batch, height, width, depth] -> [batch, height / b, width / b, b * b * depth]: the cells of blocks."""
    return apply_op("SpaceToDepth", [input], {"block_size": block_size, "data_format": data_format}, name)


def depth_to_space(
    input: Any = None, block_size: int | None = None, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Undoes space_to_depth."""
    return apply_op("DepthToSpace", [input], {"block_size": block_size, "data_format": data_format}, name)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """The elements moved `shift` places along `axis` (scalars or vectors), around the end and in at the beginning."""
    return apply_op("Roll", [input, shift, axis], name=name)


def _paddings(sizes: np.ndarray, block: np.ndarray, base: np.ndarray) -> tuple[Tensor, Tensor]:
    extra = -(sizes + base.sum(1)) % block
    paddings, crops = np.stack([base[:, 0], base[:, 1] + extra], 1), np.stack([np.zeros_like(extra), extra], 1)
    return convert_to_tensor(paddings, dtypes.int32), convert_to_tensor(crops, dtypes.int32)


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(paddings, crops) [axes, 2] that make the sizes multiples of block_shape, and undo it; constants of constants."""
    with get_default_graph().name_scope(name or "required_space_to_batch_paddings"):
        sizes, block = (convert_to_tensor(t, dtypes.int32) for t in (input_shape, block_shape))
        count = (block._shape or (None,))[0]
        if base_paddings is None:
            base = array.zeros([count, 2], dtypes.int32)
        else:
            base = convert_to_tensor(base_paddings, dtypes.int32)
        known = [constant_value(t) for t in (sizes, block, base)]
        if all(value is not None for value in known):
            return _paddings(*known)  # type: ignore[arg-type]
        before, after = base[:, 0], base[:, 1]
        whole = math.add_n([sizes, before, after])
        extra = math.floormod(math.subtract(block, math.floormod(whole, block)), block)
        paddings = array_join.stack([before, math.add(after, extra)], axis=1)
        crops = array_join.stack([array.zeros_like(extra), extra], axis=1)
        return paddings, crops
