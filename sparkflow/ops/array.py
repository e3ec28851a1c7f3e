"""Shapes and layouts: filling, reshaping, transposing, padding; placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, constant, convert_to_tensor, type_of_tensors
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.ops import rules
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError

# ---------------------------------------------------------------------- passing on

op("Identity", "input: T -> output: T", rules.same)
op("IdentityN", "input: [T] -> output: [T]", lambda op: [t._shape for t in op.inputs])
op("StopGradient", "input: T -> output: T", rules.same)
op("PreventGradient", "input: T -> output: T", rules.same, message="")
op("Placeholder", "-> output: dtype", lambda op: [op.attrs["shape"].dims], shape=Shape(None))
op("PlaceholderV2", "-> output: dtype", lambda op: [op.attrs["shape"].dims])
op("PlaceholderWithDefault", "input: dtype -> output: dtype", lambda op: [_default_fits(op)])


def _default_fits(op: Operation) -> Dims:
    shapes.merge(op.inputs[0]._shape, op.attrs["shape"].dims)
    return op.attrs["shape"].dims


def identity(input: Any, name: str | None = None) -> Any:
    """The same value under another name; of a SparseTensor or IndexedSlices, one of the same parts."""
    if isinstance(input, SparseTensor):
        return SparseTensor(*(identity(part, name) for part in (input.indices, input.values, input.dense_shape)))
    if isinstance(input, IndexedSlices):
        values, indices = identity(input.values, name), identity(input.indices, name)
        return IndexedSlices(values, indices, None if input.dense_shape is None else identity(input.dense_shape, name))
    return apply_op("Identity", [input], name=name)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """The same values, none passed on before all of them are there."""
    return apply_op("IdentityN", [list(input)], name=name)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, taken as a constant by gradients()."""
    return apply_op("StopGradient", [input], name=name)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that every run must feed. shape: None for any, None inside it for any size."""
    attrs = {"dtype": dtypes.as_dtype(dtype).base_dtype, "shape": Shape(shapes.as_dims(shape))}
    return apply_op("Placeholder", attrs=attrs, name=name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """As placeholder, with the value of `input` where a run does not feed it."""
    return apply_op("PlaceholderWithDefault", [input], {"shape": Shape(shapes.as_dims(shape))}, name)


# ---------------------------------------------------------------------- what a shape is

op("Shape", "input: T -> output: out_type", lambda op: [(rules.rank_of(op.inputs[0]),)], out_type=dtypes.int32)
op(
    "ShapeN",
    "input: N * T -> output: N * out_type",
    lambda op: [(rules.rank_of(t),) for t in op.inputs],
    out_type=dtypes.int32,
)
op("Size", "input: T -> output: out_type", rules.scalar, out_type=dtypes.int32)
op("Rank", "input: T -> output: int32", rules.scalar)


def _sizes_of_sparse(input: Any, want: dtypes.DType) -> Tensor | None:
    """What a sparse tensor says of itself; None of another one."""
    if not isinstance(input, (SparseTensor, SparseTensorValue)):
        return None
    sizes = convert_to_tensor(input.dense_shape, dtypes.int64)
    return sizes if want == dtypes.int64 else apply_op("Cast", [sizes], {"DstT": want})


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The sizes of a tensor, which may be sparse; a constant where they are known statically."""
    want = dtypes.as_dtype(out_type)
    if (sizes := _sizes_of_sparse(input, want)) is not None:
        return sizes
    input = convert_to_tensor(input)
    if shapes.fully_known(input._shape):
        return constant(list(input._shape), want, name=name or "Shape")
    return apply_op("Shape", [input], {"out_type": want}, name)


def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The sizes of several tensors."""
    return apply_op("ShapeN", [list(input)], {"out_type": dtypes.as_dtype(out_type)}, name)


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """The number of elements, those of a sparse tensor that are not there too; a constant where it is known
    statically."""
    want = dtypes.as_dtype(out_type)
    if (sizes := _sizes_of_sparse(input, want)) is not None:
        return apply_op("Prod", [sizes, 0], name=name)
    input = convert_to_tensor(input)
    if shapes.fully_known(input._shape):
        return constant(shapes.product(input._shape), want, name=name or "Size")
    return apply_op("Size", [input], {"out_type": want}, name)


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes; a constant where it is known statically."""
    if (sizes := _sizes_of_sparse(input, dtypes.int64)) is not None:
        return size(sizes, name)
    input = convert_to_tensor(input)
    if input._shape is not None:
        return constant(len(input._shape), dtypes.int32, name=name or "Rank")
    return apply_op("Rank", [input], name=name)


# ---------------------------------------------------------------------- filling

op(
    "Fill",
    "dims: index_type, value: T -> output: T",
    lambda op: [_filled_shape(op)],
    index_type=dtypes.int32,
)
op("ZerosLike", "x: T -> y: T", rules.same)
op("OnesLike", "x: T -> y: T", rules.same)


def _filled_shape(op: Operation) -> Dims:
    rules.require_rank(op, "dims", op.inputs[0], 1)
    rules.require_rank(op, "value", op.inputs[1], 0)
    return constant_value_as_shape(op.inputs[0])


_SMALL = 1000  # a constant of fewer elements than this is stored whole, as in TensorFlow


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` with `value`, a scalar, everywhere."""
    return apply_op("Fill", [dims, value], name=name)


def _filled(value: Any, shape: Any, dtype: Any, name: str) -> Tensor:
    want = dtypes.as_dtype(dtype).base_dtype
    value = (b"" if not value else b"1") if want is dtypes.string else want.np.type(value)
    if not isinstance(shape, Tensor):
        try:
            dims = shapes.as_dims(shape)
        except TypeError:  # tensors among the sizes
            dims = None
        if shapes.fully_known(dims) and shapes.product(dims) < _SMALL:
            return constant(value, want, dims, name)
    with get_default_graph().name_scope(name) as scope:
        dims_tensor = convert_to_tensor(shape, type_of_tensors(shape, dtypes.int32), "shape_as_tensor")
        if not dims_tensor._shape:  # a scalar, or of a rank not yet known: the size of a vector
            dims_tensor = reshape(dims_tensor, [-1])
        return fill(dims_tensor, constant(value, want), scope)


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Zeros (empty strings, False) of that shape, which may be a tensor."""
    return _filled(0, shape, dtype, name or "zeros")


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Ones (True) of that shape, which may be a tensor."""
    return _filled(1, shape, dtype, name or "ones")


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Zeros of a tensor's shape, and of its type unless another is given."""
    return _like("ZerosLike", 0, tensor, dtype, name or "zeros_like", optimize)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Ones of a tensor's shape, and of its type unless another is given."""
    return _like("OnesLike", 1, tensor, dtype, name or "ones_like", optimize)


def _like(op_type: str, value: int, tensor: Any, dtype: Any, name: str, optimize: bool) -> Tensor:
    tensor = convert_to_tensor(tensor, name="tensor")
    want = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if optimize and shapes.fully_known(tensor._shape) and want is not dtypes.variant:
        return _filled(value, tensor._shape, want, name)
    if want is tensor.dtype.base_dtype:
        return apply_op(op_type, [tensor], name=name)
    return _filled(value, shape(tensor), want, name)


# ---------------------------------------------------------------------- reshaping


def _reshape_rule(op: Operation) -> list[Dims]:
    old, new = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    if old is None or new is None or None in old:
        return [_with_carried(old, new)]
    if 0 in new and 0 in old:  # sizes of 0 on both sides do not count
        return [new]
    count = shapes.product(old)
    known = shapes.product(d for d in new if d is not None)
    open_ = [i for i, d in enumerate(new) if d is None]
    fits = count == known if not open_ else known != 0 or count == 0
    if fits and open_ and known:
        fits = count % known == 0
    if not fits:
        raise InvalidArgumentError(
            f"Cannot reshape a tensor with {count} elements, of shape {shapes.show(old)}, to shape {shapes.show(new)} "
            f"({known} elements{' times a whole number' if open_ else ''})"
        )
    if len(open_) == 1 and known:
        new = (*new[: open_[0]], count // known, *new[open_[0] + 1 :])
    return [new]


def _with_carried(old: Dims, new: Dims) -> Dims:
    """new, checked as far as can be: with one unknown size in old, the others must divide the count of new."""
    if old is None or new is None or old.count(None) != 1 or new.count(None) != 0:
        return new
    known, count = shapes.product(d for d in old if d is not None), shapes.product(new)
    if known and count % known:
        raise InvalidArgumentError(
            f"Reshape: {shapes.show(old)} does not fit the {count} elements of {shapes.show(new)}"
        )
    return new


def _expand_rule(op: Operation) -> list[Dims]:
    dims = op.inputs[0]._shape
    if dims is None:
        return [None]
    axis = rules.constant_axis(op, op.inputs[1], len(dims) + 1)
    return [(None,) * (len(dims) + 1) if axis is None else (*dims[:axis], 1, *dims[axis:])]


def _squeeze_rule(op: Operation) -> list[Dims]:
    dims, axes = op.inputs[0]._shape, op.attrs["squeeze_dims"]
    if dims is None:
        return [None]
    if not axes:
        return [None if None in dims else tuple(d for d in dims if d != 1)]
    gone = {rules.axis_in(op, a, len(dims)) for a in axes}
    for a in gone:
        if dims[a] not in (1, None):
            raise InvalidArgumentError(f"Squeeze: axis {a} of {shapes.show(dims)} has size {dims[a]}, not 1")
    return [tuple(d for i, d in enumerate(dims) if i not in gone)]


op("Reshape", "tensor: T, shape: Tshape -> output: T", _reshape_rule, Tshape=dtypes.int32)
op("ExpandDims", "input: T, dim: Tdim -> output: T", _expand_rule, Tdim=dtypes.int32)
op("Squeeze", "input: T -> output: T", _squeeze_rule, squeeze_dims=[])


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. Raises InvalidArgumentError where the counts differ."""
    return apply_op("Reshape", [tensor, shape], name=name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A new axis of size 1 before position `axis`; -1 is after the last."""
    if (axis is None) == (dim is None):
        raise ValueError("expand_dims takes one of axis and (its old name) dim")
    return apply_op("ExpandDims", [input, dim if axis is None else axis], name=name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without the axes of size 1, or without those of them that `axis` lists."""
    axes = squeeze_dims if axis is None else axis
    axes = [] if axes is None else [axes] if isinstance(axes, int) else [int(a) for a in axes]
    return apply_op("Squeeze", [input], {"squeeze_dims": axes}, name)


# ---------------------------------------------------------------------- layout


def _transpose_rule(op: Operation) -> list[Dims]:
    dims, perm = op.inputs[0]._shape, constant_value(op.inputs[1])
    if perm is None:
        return [None if dims is None else (None,) * len(dims)]
    axes = [int(p) for p in perm.ravel()]
    if dims is None:
        return [(None,) * len(axes)]
    if sorted(a % len(dims) for a in axes) != list(range(len(dims))):
        raise InvalidArgumentError(f"Transpose: perm {axes} is no permutation of the axes of {shapes.show(dims)}")
    return [tuple(dims[a] for a in axes)]


def _tile_rule(op: Operation) -> list[Dims]:
    dims, times = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    if dims is None or times is None:
        return [None if dims is times else (None,) * len(dims or times or ())]
    if len(dims) != len(times):
        raise InvalidArgumentError(
            f"Tile: multiples {shapes.show(times)} must have an entry an axis of {shapes.show(dims)}"
        )
    return [tuple(0 if 0 in (d, t) else None if d is None or t is None else d * t for d, t in zip(dims, times))]


def _pad_rule(op: Operation) -> list[Dims]:
    rows = rules.require_rank(op, "paddings", op.inputs[1], 2)
    dims, paddings = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None:
        return [None if rows is None or rows[0] is None else (None,) * rows[0]]
    if not shapes.compatible(rows, (len(dims), 2)):
        raise InvalidArgumentError(
            f"{op.type}: paddings must have shape ({len(dims)}, 2) for {shapes.show(dims)}, got {shapes.show(rows)}"
        )
    if paddings is None:
        return [(None,) * len(dims)]
    if (paddings < 0).any():
        raise InvalidArgumentError(f"{op.type}: Paddings must be non-negative, got {paddings.tolist()}")
    return [tuple(None if d is None else d + int(a) + int(b) for d, (a, b) in zip(dims, paddings))]


def _unpad_rule(op: Operation) -> list[Dims]:
    dims, paddings = op.inputs[0]._shape, constant_value(op.inputs[1])
    if dims is None or paddings is None:
        return [None if dims is None else (None,) * len(dims)]
    return [tuple(None if d is None else d - int(a) - int(b) for d, (a, b) in zip(dims, paddings))]


def _broadcast_to_rule(op: Operation) -> list[Dims]:
    """A size that is not known yet is the input's own, unless that is 1."""
    old, new = op.inputs[0]._shape, constant_value_as_shape(op.inputs[1])
    shapes.broadcast(old, new, "BroadcastTo")
    if old is None or new is None or len(old) > len(new):
        return [new]
    padded = (1,) * (len(new) - len(old)) + old
    return [tuple(mine if theirs is None and mine != 1 else theirs for mine, theirs in zip(padded, new))]


op("Transpose", "x: T, perm: Tperm -> y: T", _transpose_rule, Tperm=dtypes.int32)
op("ConjugateTranspose", "x: T, perm: Tperm -> y: T", _transpose_rule, Tperm=dtypes.int32)
op("Tile", "input: T, multiples: Tmultiples -> output: T", _tile_rule, Tmultiples=dtypes.int32)
op("Pad", "input: T, paddings: Tpaddings -> output: T", _pad_rule, Tpaddings=dtypes.int32)
op("PadV2", "input: T, paddings: Tpaddings, constant_values: T -> output: T", _pad_rule, Tpaddings=dtypes.int32)
op("MirrorPad", "input: T, paddings: Tpaddings -> output: T", _pad_rule, Tpaddings=dtypes.int32)
op("MirrorPadGrad", "input: T, paddings: Tpaddings -> output: T", _unpad_rule, Tpaddings=dtypes.int32)
op("ReverseV2", "tensor: T, axis: Tidx -> output: T", rules.same, Tidx=dtypes.int32)
op("BroadcastTo", "input: T, shape: Tidx -> output: T", _broadcast_to_rule, Tidx=dtypes.int32)
op("InvertPermutation", "x: T -> y: T", lambda op: [rules.require_rank(op, "x", op.inputs[0], 1)], T=dtypes.int32)


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Axes in the order of `perm`, reversed when None; conjugate also conjugates complex numbers."""
    with get_default_graph().name_scope(name) as scope:
        a = convert_to_tensor(a, name="a")
        if perm is None:
            perm = _reversed_axes(a)
        return apply_op(
            "ConjugateTranspose" if conjugate and a.dtype.is_complex else "Transpose", [a, perm], name=scope
        )


def _reversed_axes(a: Tensor) -> Any:
    if a._shape is not None:
        return list(reversed(range(len(a._shape))))
    count = apply_op("Rank", [a])
    return apply_op("Range", [apply_op("Sub", [count, 1]), -1, -1])


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """The tensor repeated `multiples[i]` times along axis i."""
    return apply_op("Tile", [input, multiples], name=name)


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """paddings [rank, 2]: how many elements to put before and after along each axis.

    mode: CONSTANT puts constant_values there, REFLECT mirrors at the edge element, SYMMETRIC includes it.
    """
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and constant_values == 0:
            return apply_op("Pad", [tensor, paddings], name=name)
        return apply_op("PadV2", [tensor, paddings, constant_values], name=name)
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"pad: mode must be CONSTANT, REFLECT or SYMMETRIC, got {mode!r}")
    return apply_op("MirrorPad", [tensor, paddings], {"mode": mode}, name)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """The elements in the opposite order along the axes of the list `axis`."""
    return apply_op("ReverseV2", [tensor, axis], name=name)


reverse_v2 = reverse


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """The tensor repeated to `shape` by numpy's broadcasting rule."""
    return apply_op("BroadcastTo", [input, shape], name=name)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """y with y[x[i]] = i."""
    return apply_op("InvertPermutation", [x], name=name)
