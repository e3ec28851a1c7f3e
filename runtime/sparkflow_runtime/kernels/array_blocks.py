"""Kernels that move blocks of space into batch or depth and back, and that roll axes around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError


def _pairs(op: str, what: str, given: Any, count: int) -> list[tuple[int, int]]:
    pairs = host(given)
    if pairs.shape != (count, 2) or (pairs < 0).any():
        raise InvalidArgumentError(f"{op}: {what} must be {count} pairs of sizes of at least 0, got {pairs.tolist()}")
    return [tuple(p) for p in pairs.tolist()]


def _block(op: str, x: Any, given: Any) -> tuple[int, ...]:
    block = ints(given)
    if not block or min(block) < 1 or len(block) >= x.ndim or host(given).ndim != 1:
        raise InvalidArgumentError(
            f"{op}: block_shape must be sizes above 0 of some axes of {list(x.shape)}, got {block}"
        )
    return block


def _space_to_batch(xp: Any, op: str, x: Any, block: tuple[int, ...], paddings: Any) -> Any:
    """[batch, space..., rest] -> [block * batch, space / block..., rest]: the block's cells are the outermost axis."""
    n = len(block)
    pairs = _pairs(op, "paddings", paddings, n)
    padded = xp.pad(x, [(0, 0), *pairs, *[(0, 0)] * (x.ndim - 1 - n)])
    space = padded.shape[1 : n + 1]
    if any(size % b for size, b in zip(space, block)):
        raise InvalidArgumentError(f"{op}: padded shape {list(space)} is not divisible by block_shape {list(block)}")
    small = [size // b for size, b in zip(space, block)]
    cut = padded.reshape(x.shape[0], *(v for pair in zip(small, block) for v in pair), *x.shape[n + 1 :])
    order = [*range(2, 2 * n + 2, 2), 0, *range(1, 2 * n + 1, 2), *range(2 * n + 1, cut.ndim)]
    return cut.transpose(order).reshape(x.shape[0] * math.prod(block), *small, *x.shape[n + 1 :])


def _batch_to_space(xp: Any, op: str, x: Any, block: tuple[int, ...], crops: Any) -> Any:
    n = len(block)
    batch, rest = divmod(x.shape[0], math.prod(block))
    if rest:
        raise InvalidArgumentError(f"{op}: batch {x.shape[0]} is not divisible by block_shape {list(block)}")
    cut = x.reshape(*block, batch, *x.shape[1:])
    order = [n, *(a for i in range(n) for a in (n + 1 + i, i)), *range(2 * n + 1, cut.ndim)]
    large = [size * b for size, b in zip(x.shape[1:], block)]
    whole = cut.transpose(order).reshape(batch, *large, *x.shape[n + 1 :])
    pairs = _pairs(op, "crops", crops, n)
    if any(a + b > size for (a, b), size in zip(pairs, large)):
        raise InvalidArgumentError(f"{op}: crops {pairs} take more than there is of {large}")
    return xp.ascontiguousarray(whole[(slice(None), *(slice(a, s - b) for (a, b), s in zip(pairs, large)))])


@kernel("SpaceToBatchND")
def _space_to_batch_nd(xp: Any, x: Any, block_shape: Any, paddings: Any) -> Any:
    return _space_to_batch(xp, "SpaceToBatchND", x, _block("SpaceToBatchND", x, block_shape), paddings)


@kernel("BatchToSpaceND")
def _batch_to_space_nd(xp: Any, x: Any, block_shape: Any, crops: Any) -> Any:
    return _batch_to_space(xp, "BatchToSpaceND", x, _block("BatchToSpaceND", x, block_shape), crops)


def _check_image(op: str, x: Any, block_size: int) -> None:
    if x.ndim != 4 or block_size < 2:
        raise InvalidArgumentError(
            f"{op}: rank 4 and a block_size above 1 are needed, got {list(x.shape)}, {block_size}"
        )


@kernel("SpaceToBatch")
def _image_to_batch(xp: Any, x: Any, paddings: Any, *, block_size: int) -> Any:
    _check_image("SpaceToBatch", x, block_size)
    return _space_to_batch(xp, "SpaceToBatch", x, (block_size, block_size), paddings)


@kernel("BatchToSpace")
def _batch_to_image(xp: Any, x: Any, crops: Any, *, block_size: int) -> Any:
    _check_image("BatchToSpace", x, block_size)
    return _batch_to_space(xp, "BatchToSpace", x, (block_size, block_size), crops)


# ---------------------------------------------------------------------- depth


def _last_channels(op: str, x: Any, data_format: str) -> Any:
    if data_format not in ("NHWC", "NCHW"):
        raise UnimplementedError(f"{op}: data_format must be NHWC or NCHW, got {data_format!r}")
    return x if data_format == "NHWC" else x.transpose(0, 2, 3, 1)


def _as_given(xp: Any, y: Any, data_format: str) -> Any:
    return xp.ascontiguousarray(y if data_format == "NHWC" else y.transpose(0, 3, 1, 2))


@kernel("SpaceToDepth")
def _space_to_depth(xp: Any, x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    _check_image("SpaceToDepth", x, block_size)
    x = _last_channels("SpaceToDepth", x, data_format)
    n, h, w, c = x.shape
    if h % block_size or w % block_size:
        raise InvalidArgumentError(f"SpaceToDepth: height {h} and width {w} must be divisible by {block_size}")
    cut = x.reshape(n, h // block_size, block_size, w // block_size, block_size, c)
    out = cut.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // block_size, w // block_size, block_size**2 * c)
    return _as_given(xp, out, data_format)


@kernel("DepthToSpace")
def _depth_to_space(xp: Any, x: Any, *, block_size: int, data_format: str = "NHWC") -> Any:
    _check_image("DepthToSpace", x, block_size)
    x = _last_channels("DepthToSpace", x, data_format)
    n, h, w, c = x.shape
    if c % block_size**2:
        raise InvalidArgumentError(f"DepthToSpace: depth {c} must be divisible by {block_size} * {block_size}")
    cut = x.reshape(n, h, w, block_size, block_size, c // block_size**2)
    out = cut.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * block_size, w * block_size, c // block_size**2)
    return _as_given(xp, out, data_format)


# ---------------------------------------------------------------------- rolling


@kernel("Roll")
def _roll(xp: Any, x: Any, shift: Any, axis: Any) -> Any:
    shifts, axes = ints(shift), ints(axis)
    if not x.ndim or max(np.ndim(shift), np.ndim(axis)) > 1 or np.shape(shift) != np.shape(axis):
        raise InvalidArgumentError(
            f"Roll: input must have axes, and shift and axis must be scalars or vectors of one size, got input "
            f"{list(x.shape)}, shift {list(np.shape(shift))}, axis {list(np.shape(axis))}"
        )
    if any(not -x.ndim <= a < x.ndim for a in axes):
        raise InvalidArgumentError(f"Roll: axis {list(axes)} is out of range for shape {list(x.shape)}")
    return xp.roll(x, shifts, axes)
