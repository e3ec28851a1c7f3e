"""Ops of SparseTensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value, constant_value_as_shape
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.framework.registry import op
from sparkflow.framework.shapes import Dims, TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor, SparseTensorValue, rank_of
from sparkflow.ops import array, array_select, array_slice, checks, math, rules
from sparkflow_runtime.wire import dtypes

_OUT = "output_indices: int64, output_values: T, output_shape: int64"


def _some(op: Operation) -> list[Dims]:
    """A new SparseTensor of the rank of the first."""
    dims = op.inputs[0]._shape
    rank = None if dims is None else dims[1]
    found: list[Dims] = [(None, rank), (None,), (rank,)]
    return found[: len(op.outputs)]


def _joined_rule(op: Operation) -> list[Dims]:
    n = op.attrs["N"]
    counts = [(t._shape or (None,))[0] for t in op.inputs[:n]]
    total = None if None in counts else sum(c for c in counts if c is not None)
    rank = (op.inputs[0]._shape or (None, None))[1]
    return [(total, rank), (total,), (rank,)]


def _matmul_rule(op: Operation) -> list[Dims]:
    a, b = constant_value_as_shape(op.inputs[2]) or (None, None), op.inputs[3]._shape or (None, None)
    return [(a[1] if op.attrs["adjoint_a"] else a[0], b[0] if op.attrs["adjoint_b"] else b[1])]


def _values_rule(op: Operation) -> list[Dims]:
    return [op.inputs[1]._shape or (None,)]


def _reduced_rule(op: Operation) -> list[Dims]:
    dims, axes = constant_value_as_shape(op.inputs[2]), constant_value(op.inputs[3])
    if dims is None or axes is None:
        return [None]
    gone = {rules.axis_in(op, int(a), len(dims)) for a in axes.ravel()}
    return [tuple(1 if i in gone else d for i, d in enumerate(dims) if op.attrs["keep_dims"] or i not in gone)]


def _filled_rule(op: Operation) -> list[Dims]:
    rank = (op.inputs[0]._shape or (None, None))[1]
    rows = (constant_value_as_shape(op.inputs[2]) or (None,))[0]
    return [(None, rank), (None,), (rows,), (op.inputs[0]._shape or (None,))[:1]]


op(
    "SparseTensorDenseMatMul",
    "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
    _matmul_rule,
    Tindices=dtypes.int64,
    adjoint_a=False,
    adjoint_b=False,
)
op(
    "SparseToDense",
    "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T",
    lambda op: [constant_value_as_shape(op.inputs[1])],
    validate_indices=True,
)
op(
    "SparseReorder",
    "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, output_values: T",
    lambda op: [op.inputs[0]._shape or (None, None), op.inputs[1]._shape or (None,)],
)
op(
    "SparseAdd",
    "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64, thresh: Treal"
    " -> sum_indices: int64, sum_values: T, sum_shape: int64",
    _some,
)
op(
    "SparseAddGrad",
    "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> a_val_grad: T, b_val_grad: T",
    lambda op: [(op.inputs[1]._shape or (None,))[:1], (op.inputs[2]._shape or (None,))[:1]],
)
op(
    "SparseTensorDenseAdd",
    "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
    lambda op: [op.inputs[3]._shape],
)
for _kind in ("Sum", "Max"):
    _IN = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32"
    op(f"SparseReduce{_kind}", f"{_IN} -> output: T", _reduced_rule, keep_dims=False)
    op(f"SparseReduce{_kind}Sparse", f"{_IN} -> {_OUT}", lambda op: [(None, None), (None,), (None,)], keep_dims=False)
op(
    "SparseConcat",
    f"indices: N * int64, values: N * T, shapes: N * int64 -> {_OUT}",
    _joined_rule,
)
op("SparseSlice", f"indices: int64, values: T, shape: int64, start: int64, size: int64 -> {_OUT}", _some)
op(
    "SparseSliceGrad",
    "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64 -> val_grad: T",
    lambda op: [(op.inputs[1]._shape or (None,))[:1]],
)
op(
    "SparseSplit",
    "split_dim: int64, indices: int64, values: T, shape: int64 -> output_indices: num_split * int64, "
    "output_values: num_split * T, output_shape: num_split * int64",
    lambda op: (
        [(None, (op.inputs[1]._shape or (None, None))[1])] * op.attrs["num_split"]
        + [(None,)] * op.attrs["num_split"]
        + [op.inputs[3]._shape] * op.attrs["num_split"]
    ),
)
op(
    "SparseReshape",
    "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64",
    lambda op: [
        ((op.inputs[0]._shape or (None,))[0], (op.inputs[2]._shape or (None,))[0]),
        (op.inputs[2]._shape or (None,))[:1],
    ],
)
op("SparseSoftmax", "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T", _values_rule)
for _kind in ("Add", "Mul", "Div"):
    op(
        f"SparseDenseCwise{_kind}",
        "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T -> output: T",
        lambda op: [(op.inputs[0]._shape or (None,))[:1]],
    )
op(
    "SparseFillEmptyRows",
    "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, "
    "empty_row_indicator: bool, reverse_index_map: int64",
    _filled_rule,
)
op(
    "SparseFillEmptyRowsGrad",
    "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T",
    lambda op: [op.inputs[0]._shape or (None,), ()],
)
for _kind in ("Maximum", "Minimum"):
    op(
        f"SparseSparse{_kind}",
        "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64"
        " -> output_indices: int64, output_values: T",
        _some,
    )


def _sparse(value: Any) -> SparseTensor:
    return SparseTensor.from_value(value)


def _parts(value: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return value.indices, value.values, value.dense_shape


def is_sparse(value: Any) -> bool:
    return isinstance(value, (SparseTensor, SparseTensorValue))


# ---------------------------------------------------------------------- making and unmaking


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Fed with a SparseTensorValue or (indices, values, dense_shape).

    shape: sizes, None for those not known; what is fed must be of these, but that is not checked. Without a name the
    three placeholders are called as those of tf.placeholder are.
    """
    whole, indices, values = (name and f"{name}/{part}" for part in ("shape", "indices", "values"))
    sizes = None if shape is None or isinstance(shape, Tensor) else [*map(_size, TensorShape(shape))]
    rank = None if sizes is None else len(sizes)
    if sizes is not None:
        default = convert_to_tensor(
            [-1 if n is None else n for n in sizes], dtypes.int64, name and f"{name}/shape_default"
        )
        dense_shape: Any = array.placeholder_with_default(default, [rank], whole)
    else:
        dense_shape = array.placeholder(dtypes.int64, [None], whole) if shape is None else shape
    filled = array.placeholder(dtype, [None], values)
    made = SparseTensor(array.placeholder(dtypes.int64, [None, rank], indices), filled, dense_shape)
    made._sizes = None if sizes is None else tuple(sizes)
    return made


def _size(size: Any) -> int | None:
    """Of a Dimension; -1 stands for one that is not known, as in a shape that is fed."""
    return None if size.value in (None, -1) else int(size.value)


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0, validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """default_value everywhere but for sparse_values at sparse_indices (a scalar, [n] or [n, rank], in row order)."""
    values = convert_to_tensor(sparse_values, name="sparse_values")
    inputs = [sparse_indices, output_shape, values, convert_to_tensor(default_value, values.dtype.base_dtype)]
    return apply_op("SparseToDense", inputs, {"validate_indices": validate_indices}, name)


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """The whole tensor, default_value (0, "" or False) where nothing is."""
    sp = _sparse(sp_input)
    nothing = {dtypes.string: "", dtypes.bool_: False}.get(sp.dtype.base_dtype, 0)
    default = nothing if default_value is None else default_value
    return sparse_to_dense(sp.indices, sp.dense_shape, sp.values, default, validate_indices, name)


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Tensor:
    """[..., vocab_size] of bool: whether an id is among the values along the last axis."""
    sp = _sparse(sp_input)
    with get_default_graph().name_scope(name or "SparseToIndicator"):
        ones = array.ones_like(sp.values, dtype=dtypes.bool_)
        merged = sparse_merge(sp, SparseTensor(sp.indices, ones, sp.dense_shape), vocab_size)
        return sparse_tensor_to_dense(sparse_reorder(merged), False, validate_indices=False)


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """sp_values with the ids of sp_ids as the last index, of size vocab_size."""
    ids, values = _sparse(sp_ids), _sparse(sp_values)
    with get_default_graph().name_scope(name or "SparseMerge"):
        last = array.expand_dims(math.cast(ids.values, dtypes.int64), 1)
        rows = ids.indices[:, :-1]
        indices = apply_op("ConcatV2", [[rows, last], 1])
        size = array.reshape(math.cast(convert_to_tensor(vocab_size), dtypes.int64), [1])
        whole = apply_op("ConcatV2", [[ids.dense_shape[:-1], size], 0])
        merged = SparseTensor(indices, values.values, whole)
        return merged if already_sorted else sparse_reorder(merged)


# ---------------------------------------------------------------------- order and shape


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same in row order."""
    sp = _sparse(sp_input)
    indices, values = apply_op("SparseReorder", _parts(sp), name=name)
    return SparseTensor(indices, values, sp.dense_shape)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same values in another shape, of which one size may be -1."""
    sp = _sparse(sp_input)
    wanted = math.cast(convert_to_tensor(shape), dtypes.int64)
    indices, whole = apply_op("SparseReshape", [sp.indices, sp.dense_shape, wanted], name=name)
    return SparseTensor(indices, sp.values, whole)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Axes in the order of `perm`, reversed when None; in row order."""
    sp = _sparse(sp_input)
    with get_default_graph().name_scope(name or "SparseTranspose"):
        rank = rank_of(sp)
        order = perm if perm is not None else (
            list(range(rank))[::-1] if rank is not None else math.range(array.size(sp.dense_shape) - 1, -1, -1)
        )  # fmt: skip
        indices = array_slice.gather(sp.indices, order, axis=1)
        return sparse_reorder(SparseTensor(indices, sp.values, array_slice.gather(sp.dense_shape, order)))


def sparse_reset_shape(sp_input: Any, new_shape: Any = None, expand_nonconcat_dim: bool = False) -> SparseTensor:
    """The same values in a shape that holds them: new_shape, or the tightest one."""
    sp = _sparse(sp_input)
    if new_shape is None:
        top = apply_op("Max", [sp.indices, 0], {"keep_dims": False})
        tight = math.add(math.maximum(top, -1), 1)
        return SparseTensor(sp.indices, sp.values, tight)
    wanted = math.cast(convert_to_tensor(new_shape), dtypes.int64)
    fits = checks.assert_less_equal(sp.dense_shape, wanted)
    with get_default_graph().control_dependencies([fits]):
        return SparseTensor(sp.indices, sp.values, array.identity(wanted))


# ---------------------------------------------------------------------- parts


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The values for which to_retain [n] (bool) is true."""
    sp = _sparse(sp_input)
    keep = convert_to_tensor(to_retain, dtypes.bool_)
    shapes.merge(keep._shape, sp.values._shape)
    where = array.reshape(array_select.where(keep), [-1])
    return SparseTensor(array_slice.gather(sp.indices, where), array_slice.gather(sp.values, where), sp.dense_shape)


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of shape `size` that begins at `start`."""
    sp = _sparse(sp_input)
    bounds = [convert_to_tensor(b, dtypes.int64) for b in (start, size)]
    return SparseTensor(*apply_op("SparseSlice", [*_parts(sp), *bounds], name=name))


def sparse_split(
    keyword_required: Any = None, sp_input: Any = None, num_split: int | None = None, axis: Any = None,
    name: str | None = None, split_dim: Any = None,
) -> list[SparseTensor]:  # fmt: skip
    """num_split parts along one axis; the first ones are larger by one where it does not come out even."""
    sp = _sparse(sp_input)
    at = axis if split_dim is None else split_dim
    found = apply_op("SparseSplit", [convert_to_tensor(at, dtypes.int64), *_parts(sp)], {"num_split": num_split}, name)
    n = int(num_split or 0)
    return [SparseTensor(found[i], found[n + i], found[2 * n + i]) for i in range(n)]


def sparse_concat(
    axis: int | None = None, sp_inputs: Sequence[Any] = (), name: str | None = None, expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None, expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """The tensors one behind the other along an axis. expand_nonconcat_dim: the other sizes may differ, the largest
    holds."""
    sps = [_sparse(s) for s in sp_inputs]
    at = axis if concat_dim is None else concat_dim
    if len(sps) == 1:
        return sps[0]
    with get_default_graph().name_scope(name or "SparseConcat"):
        wholes = [s.dense_shape for s in sps]
        if expand_nonconcat_dim or expand_nonconcat_dims:
            wholes = _expanded(wholes, int(at or 0))
        inputs = [[s.indices for s in sps], [s.values for s in sps], wholes]
        return SparseTensor(*apply_op("SparseConcat", inputs, {"concat_dim": at}))


def _expanded(wholes: list[Tensor], at: int) -> list[Tensor]:
    """Every shape with the largest sizes but along the axis."""
    largest = apply_op("Max", [apply_op("Pack", [wholes]), 0], {"keep_dims": False})
    found = []
    for whole in wholes:
        axis = math.floormod(at, array.size(whole))
        chosen = math.equal(math.range(array.size(whole)), axis)
        found.append(array_select.where(chosen, whole, largest))
    return found


def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """IndexedSlices without the rows that mask_indices names."""
    with get_default_graph().name_scope(name or "sparse_mask"):
        kept, positions = array_select.setdiff1d(a.indices, mask_indices)
        return IndexedSlices(array_slice.gather(a.values, positions), kept, a.dense_shape)


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """(the same with default_value at the beginning of each row that has none, which rows these were)."""
    sp = _sparse(sp_input)
    with get_default_graph().name_scope(name or "SparseFillEmptyRows"):
        default = convert_to_tensor(default_value, sp.dtype.base_dtype)
        indices, values, empty, _ = apply_op("SparseFillEmptyRows", [*_parts(sp), default])
        return SparseTensor(indices, values, sp.dense_shape), empty
