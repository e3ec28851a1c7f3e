"""Shapes and layouts: filling, reshaping, transposing, padding; placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, constant, convert_to_tensor, type_of_tensors
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.python_values import beyond_int32
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.ops import array_rules, rules
from sparkflow.ops.elementwise import of_ragged_too
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


@of_ragged_too
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


@of_ragged_too
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


def type_of_sizes(*tensors: Tensor) -> dtypes.DType:
    """int32, or int64 where one of the tensors is known to have a size that int32 does not hold."""
    return dtypes.int64 if any(beyond_int32(t._shape) for t in tensors) else dtypes.int32


def shape(input: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The sizes of a tensor, which may be sparse; a constant where they are known statically.

    out_type: int32 unless a size that is known statically needs int64.
    """
    if (sizes := _sizes_of_sparse(input, dtypes.as_dtype(out_type or dtypes.int32))) is not None:
        return sizes
    input = convert_to_tensor(input)
    want = dtypes.as_dtype(out_type or type_of_sizes(input))
    if shapes.fully_known(input._shape):
        return constant(list(input._shape), want, name=name or "Shape")
    return apply_op("Shape", [input], {"out_type": want}, name)


def shape_n(input: Any, out_type: Any = None, name: str | None = None) -> list[Tensor]:
    """The sizes of several tensors; out_type as for shape."""
    tensors = [convert_to_tensor(t) for t in input]
    return apply_op("ShapeN", [tensors], {"out_type": dtypes.as_dtype(out_type or type_of_sizes(*tensors))}, name)


@of_ragged_too
def size(input: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The number of elements, those of a sparse tensor that are not there too; a constant where it is known
    statically. out_type: int32 unless a number that is known statically needs int64."""
    if (sizes := _sizes_of_sparse(input, dtypes.as_dtype(out_type or dtypes.int32))) is not None:
        return apply_op("Prod", [sizes, 0], name=name)
    input = convert_to_tensor(input)
    if shapes.fully_known(input._shape):
        count = shapes.product(input._shape)
        want = dtypes.int64 if beyond_int32(count) else dtypes.int32
        return constant(count, out_type or want, name=name or "Size")
    return apply_op("Size", [input], {"out_type": dtypes.as_dtype(out_type or dtypes.int32)}, name)


@of_ragged_too
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
    sizes = constant_value(op.inputs[0])
    if sizes is not None and (sizes < 0).any():
        raise InvalidArgumentError(f"Fill dimensions must be >= 0, got {sizes.tolist()}")
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


@of_ragged_too
def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Zeros of a tensor's shape, and of its type unless another is given."""
    return _like("ZerosLike", 0, tensor, dtype, name or "zeros_like", optimize)


@of_ragged_too
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


op("Reshape", "tensor: T, shape: Tshape -> output: T", array_rules.reshape, Tshape=dtypes.int32)
op("ExpandDims", "input: T, dim: Tdim -> output: T", array_rules.expand, Tdim=dtypes.int32)
op("Squeeze", "input: T -> output: T", array_rules.squeeze, squeeze_dims=[])


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. Raises InvalidArgumentError where the counts differ."""
    return apply_op("Reshape", [tensor, shape], name=name)


@of_ragged_too
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A new axis of size 1 before position `axis`; -1 is after the last."""
    if (axis is None) == (dim is None):
        raise ValueError("expand_dims takes one of axis and (its old name) dim")
    return apply_op("ExpandDims", [input, dim if axis is None else axis], name=name)


@of_ragged_too
def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without the axes of size 1, or without those of them that `axis` lists."""
    axes = squeeze_dims if axis is None else axis
    axes = [] if axes is None else [axes] if isinstance(axes, int) else axes
    if isinstance(axes, str) or any(isinstance(a, str) for a in axes):
        raise TypeError(f"Squeeze: Expected int for argument 'axis' not {axes!r}.")
    axes = [int(a) for a in axes]
    return apply_op("Squeeze", [input], {"squeeze_dims": axes}, name)


# ---------------------------------------------------------------------- layout


op("Transpose", "x: T, perm: Tperm -> y: T", array_rules.transpose, Tperm=dtypes.int32)
op("ConjugateTranspose", "x: T, perm: Tperm -> y: T", array_rules.transpose, Tperm=dtypes.int32)
op("Tile", "input: T, multiples: Tmultiples -> output: T", array_rules.tile, Tmultiples=dtypes.int32)
op("Pad", "input: T, paddings: Tpaddings -> output: T", array_rules.pad, Tpaddings=dtypes.int32)
op("PadV2", "input: T, paddings: Tpaddings, constant_values: T -> output: T", array_rules.pad, Tpaddings=dtypes.int32)
op("MirrorPad", "input: T, paddings: Tpaddings -> output: T", array_rules.pad, Tpaddings=dtypes.int32)
op("MirrorPadGrad", "input: T, paddings: Tpaddings -> output: T", array_rules.unpad, Tpaddings=dtypes.int32)
op("ReverseV2", "tensor: T, axis: Tidx -> output: T", rules.same, Tidx=dtypes.int32)
op("BroadcastTo", "input: T, shape: Tidx -> output: T", array_rules.broadcast_to, Tidx=dtypes.int32)
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


@of_ragged_too
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


@of_ragged_too
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
