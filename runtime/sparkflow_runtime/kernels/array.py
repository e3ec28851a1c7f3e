"""Kernels on shapes and layouts, most of them views."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.own_parts import owned
from sparkflow_runtime.kernels.places import check_holds
from sparkflow_runtime.kernels.registry import Function, Node, bound, kernel, knowing
from sparkflow_runtime.kernels.row_loops import columns_ready, join_columns
from sparkflow_runtime.wire.dtypes import DType, resource
from sparkflow_runtime.wire.errors import InvalidArgumentError

kernel("Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault", aliases=True)(lambda xp, x: x)
kernel("IdentityN", multi=True, aliases=True)(lambda xp, *values: values)


# ---------------------------------------------------------------------- shapes and filling


def _sizes(op: str, xp: Any, sizes: Any, out_type: DType) -> Any:
    try:
        return xp.asarray(sizes, out_type.np)
    except OverflowError:
        check_holds(op, max(sizes) if isinstance(sizes, tuple) else sizes, out_type.np, "out_type")
        raise


kernel("Shape")(lambda xp, x, *, out_type: _sizes("Shape", xp, x.shape, out_type))
kernel("ShapeN", multi=True)(lambda xp, *values, out_type: [_sizes("ShapeN", xp, x.shape, out_type) for x in values])
kernel("Size")(lambda xp, x, *, out_type: _sizes("Size", xp, x.size, out_type))
kernel("Rank")(lambda xp, x: xp.asarray(x.ndim, xp.int32))


@kernel("Fill")
def _fill(xp: Any, dims: Any, value: Any) -> Any:
    shape = ints(dims)
    if dims.ndim != 1 or any(d < 0 for d in shape):
        raise InvalidArgumentError(f"Fill: dims must be a vector of sizes of at least 0, got {host(dims).tolist()}")
    if getattr(value, "shape", ()) != ():
        raise InvalidArgumentError(f"Fill: value must be a scalar, got shape {value.shape}")
    if not hasattr(value, "dtype") or value.dtype.kind == "O":
        return xp.full(shape, value, object)
    out = xp.empty(shape, value.dtype)
    out[...] = value
    return out


def _constant_like(value: int, text: bytes) -> Function:
    def run(xp: Any, x: Any) -> Any:
        return xp.full(x.shape, text if x.dtype.kind == "O" else value, x.dtype)

    return run


_zeros_like = _constant_like(0, b"")  # lists and optionals know what theirs are
kernel("ZerosLike")(lambda xp, x: x.zeros() if hasattr(x, "zeros") else _zeros_like(xp, x))
kernel("OnesLike")(_constant_like(1, b"1"))

# ---------------------------------------------------------------------- reshaping


@kernel("Reshape", aliases=True)
def _reshape(xp: Any, x: Any, shape: Any) -> Any:
    wanted = ints(shape)
    try:
        out = x.reshape(wanted)
    except ValueError:
        out = _reshaped_nothing(x, wanted)
    if shape.ndim != 1 or (out.shape != wanted and -1 not in wanted):  # numpy takes any negative size for -1
        raise InvalidArgumentError(f"Reshape: shape must be a vector of sizes, or -1, got {host(shape).tolist()}")
    return out


def _reshaped_nothing(x: Any, wanted: tuple[int, ...]) -> Any:
    """An empty array in a shape with -1 and 0, which numpy refuses."""
    if x.size or wanted.count(-1) != 1 or min(wanted) < -1:
        raise InvalidArgumentError(f"Reshape: {x.size} values of shape {x.shape} do not fit the shape {wanted}")
    return x.reshape(_sizes_of_nothing(x.shape, wanted))


def _sizes_of_nothing(old: tuple[int, ...], wanted: tuple[int, ...]) -> list[int]:
    """The size -1 of an empty array: what the other sizes leave; those that are 0 on both sides do not count."""
    skip = 0 in wanted
    count = math.prod(d for d in old if d or not skip)
    known = math.prod(d for d in wanted if d != -1 and (d or not skip))
    return [count // known if d == -1 else d for d in wanted]


kernel("ExpandDims", aliases=True)(lambda xp, x, dim: xp.expand_dims(x, one_int(dim)))


@knowing((1,), "ExpandDims")
def _known_expand_dims(node: Node, dim: Any) -> Function:
    at = one_int(dim)
    whole = (slice(None),) * (at if at >= 0 else -1 - at)
    key = (*whole, None) if at >= 0 else (..., None, *whole)

    def run(x: Any, _: Any) -> Any:
        fits = isinstance(x, np.ndarray) and x.ndim >= len(whole)
        return x[key] if fits else node.xp.expand_dims(x, at)  # which says what does not

    return run


@kernel("Squeeze", aliases=True)
def _squeeze(xp: Any, x: Any, *, squeeze_dims: Any = ()) -> Any:
    axes = tuple(squeeze_dims) or None
    if axes is not None and any(x.shape[a] != 1 for a in axes):
        raise InvalidArgumentError(f"Squeeze: axes {axes} of shape {x.shape} must all have size 1")
    return xp.squeeze(x, axes)


# ---------------------------------------------------------------------- layout

kernel("Transpose", aliases=True)(lambda xp, x, perm: xp.transpose(x, ints(perm)))


@knowing((1,), "Transpose")
def _known_transpose(node: Node, perm: Any) -> Function:
    axes = ints(perm)
    return lambda x, _: node.xp.transpose(x, axes)


@kernel("ConjugateTranspose")
def _conjugate_transpose(xp: Any, x: Any, perm: Any) -> Any:
    moved = xp.transpose(x, ints(perm))
    return xp.conj(moved) if x.dtype.kind == "c" else xp.ascontiguousarray(moved)


@kernel("Tile")
def _tile(xp: Any, x: Any, times: Any) -> Any:
    multiples = ints(times)
    if len(multiples) != x.ndim or (multiples and min(multiples) < 0):
        raise InvalidArgumentError(f"Tile: multiples {multiples} must be at least 0, one an axis of {x.shape}")
    return xp.tile(x, multiples)


kernel("ReverseV2", aliases=True)(lambda xp, x, axis: xp.flip(x, ints(axis)))


@kernel("BroadcastTo", aliases=True)
def _broadcast_to(xp: Any, x: Any, shape: Any) -> Any:
    try:
        if xp is not np and min(ints(shape), default=0) < 0:  # of which cupy makes an array all the same
            raise ValueError
        return xp.broadcast_to(x, ints(shape))
    except ValueError:
        raise InvalidArgumentError(f"BroadcastTo: shape {x.shape} does not broadcast to {ints(shape)}") from None


def _widths(x: Any, paddings: Any) -> list[tuple[int, int]]:
    pairs = host(paddings)
    if pairs.shape != (x.ndim, 2) or (pairs < 0).any():
        raise InvalidArgumentError(f"Pad: paddings must be ({x.ndim}, 2) sizes of at least 0, got {pairs.tolist()}")
    return [tuple(p) for p in pairs.tolist()]


kernel("Pad", aliases=True)(
    lambda xp, x, paddings: _padded(xp, x, paddings, x.dtype.type(0) if x.dtype.kind != "O" else b"")
)
kernel("PadV2", aliases=True)(lambda xp, x, paddings, value: _padded(xp, x, paddings, value))


def _padded(xp: Any, x: Any, paddings: Any, value: Any) -> Any:
    widths = _widths(x, paddings)
    if not widths:  # assigned to an element, a string's array would become the element
        return x
    out = xp.full([a + n + b for n, (a, b) in zip(x.shape, widths)], value, x.dtype)
    out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths))] = x
    return out


@kernel("MirrorPad")
def _mirror_pad(xp: Any, x: Any, paddings: Any, *, mode: str) -> Any:
    return xp.pad(x, _mirror_widths(x.shape, _widths(x, paddings), mode), mode=mode.lower())


def _mirror_widths(sizes: tuple[int, ...], widths: list[tuple[int, int]], mode: str) -> list[tuple[int, int]]:
    for size, pair in zip(sizes, widths):
        if max(pair) > size - (mode == "REFLECT"):
            raise InvalidArgumentError(
                f"MirrorPad: paddings {widths} reach past the sizes {sizes}; {mode} takes at most "
                f"{'one less than the size' if mode == 'REFLECT' else 'the size'}"
            )
    return widths


@kernel("MirrorPadGrad")
def _mirror_pad_grad(xp: Any, dy: Any, paddings: Any, *, mode: str) -> Any:
    """The borders folded back onto what they mirror, axis after axis."""
    widths = _widths(dy, paddings)
    sizes = tuple(n - a - b for n, (a, b) in zip(dy.shape, widths))
    _mirror_widths(sizes, widths, mode)
    edge = mode == "REFLECT"
    for axis, (a, b) in enumerate(widths):
        dy = xp.moveaxis(dy, axis, 0)
        inner = dy[a : len(dy) - b].copy()
        inner[edge : edge + a] += dy[:a][::-1]
        inner[len(inner) - edge - b : len(inner) - edge] += dy[len(dy) - b :][::-1]
        dy = xp.moveaxis(inner, 0, axis)
    return dy


@kernel("InvertPermutation")
def _invert_permutation(xp: Any, x: Any) -> Any:
    out = xp.full(x.size, -1, x.dtype)
    inside = x.ndim == 1 and (not x.size or (int(x.min()) >= 0 and int(x.max()) < x.size))
    if inside:
        out[x] = xp.arange(x.size, dtype=x.dtype)
    if not inside or bool((out < 0).any()):  # one is there twice, and another not
        raise InvalidArgumentError(f"InvertPermutation: {host(x).tolist()} is no permutation of 0 ... {x.size - 1}")
    return out


# ---------------------------------------------------------------------- joining and splitting


_MANY = 8  # columns that a loop of ours joins faster


@kernel("ConcatV2", aliases=True)
def _concat(xp: Any, *inputs: Any) -> Any:
    return _joined(xp, inputs[:-1], one_int(inputs[-1]))


@knowing((-1,), "ConcatV2")
def _known_concat(node: Node, axis: Any) -> Function:
    at, xp = one_int(axis), node.xp
    return lambda *inputs: _joined(xp, inputs[:-1], at)


def _joined(xp: Any, values: tuple[Any, ...], axis: int) -> Any:
    if len(values) == 1:
        return values[0]
    if len(values) >= _MANY and xp is np and axis in (1, -1) and columns_ready(values):
        return join_columns(values)
    try:
        return xp.concatenate(values, axis)
    except (ValueError, TypeError):  # cupy's of scalars is a TypeError
        shapes = ", ".join(str(v.shape) for v in values)
        raise InvalidArgumentError(f"ConcatV2: sizes must agree but for axis {axis}, got shapes {shapes}") from None


@bound("Pack", stateful=False)
def _pack(node: Node) -> Function:
    if node.attr("T") is resource:
        return _handles
    return functools.partial(_stacked, node.xp, axis=node.attr("axis", 0))


def _handles(*values: Any) -> Any:
    """Of a queue or table each, to choose one from."""
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _stacked(xp: Any, *values: Any, axis: int) -> Any:
    if xp is np and axis in (0, -1) and all(not v.ndim and v.dtype.kind in "iuf" for v in values):
        return np.array(values, values[0].dtype)  # numbers, as shapes are made of
    try:
        return xp.stack(values, axis)
    except ValueError:
        raise InvalidArgumentError(
            f"Pack: shapes must be equal, got {', '.join(str(v.shape) for v in values)}"
        ) from None


@kernel("Unpack", multi=True, aliases=True)
def _unpack(xp: Any, x: Any, *, num: int, axis: int = 0, own_parts: bool = False) -> Any:
    if x.shape[axis] != num:
        raise InvalidArgumentError(f"Unpack: axis {axis} of shape {x.shape} must have size {num}")
    if x.ndim < 2:
        return [x[i : i + 1].reshape(()) for i in range(num)]
    before = (slice(None),) * (axis % x.ndim)
    parts = [x[(*before, i)] for i in range(num)]
    return owned(parts) if own_parts else parts


@kernel("Split", multi=True, aliases=True)
def _split(xp: Any, axis: Any, x: Any, *, num_split: int, own_parts: bool = False) -> Any:
    along = one_int(axis)
    size, rest = divmod(x.shape[along], num_split)
    if rest:
        raise InvalidArgumentError(f"Split: axis {along} of {x.shape} is no multiple of {num_split}")
    before = (slice(None),) * (along % x.ndim)
    parts = [x[(*before, slice(i * size, (i + 1) * size))] for i in range(num_split)]
    return owned(parts) if own_parts else parts


@kernel("SplitV", multi=True, aliases=True)
def _split_v(xp: Any, x: Any, size_splits: Any, axis: Any, *, own_parts: bool = False) -> Any:
    sizes, whole = np.array(ints(size_splits)), x.shape[one_int(axis)]
    sizes[sizes == -1] = whole - sizes[sizes >= 0].sum()
    if sizes.sum() != whole or (sizes < 0).any():
        raise InvalidArgumentError(f"SplitV: sizes {ints(size_splits)} do not add up to {whole}")
    parts = xp.split(x, np.cumsum(sizes)[:-1].tolist(), one_int(axis))
    return owned(parts) if own_parts else parts


@kernel("ConcatOffset", multi=True)
def _concat_offset(xp: Any, axis: Any, *shapes: Any) -> Any:
    """Where each value of a concat begins in the result."""
    at, rank, offsets = one_int(axis), len(shapes[0]), []
    others = [s.tolist()[: at % rank] + s.tolist()[at % rank + 1 :] for s in map(host, shapes)] if rank else []
    if not -rank <= at < rank or any(len(s) != rank for s in shapes) or any(o != others[0] for o in others):
        raise InvalidArgumentError(
            f"ConcatOffset: shapes must be alike but for axis {at}, got {[host(s).tolist() for s in shapes]}"
        )
    at %= rank
    begin = np.zeros(len(shapes[0]), shapes[0].dtype)
    for shape in shapes:
        offsets.append(xp.asarray(begin))
        begin = begin.copy()
        begin[at] += host(shape)[at]
    return offsets
