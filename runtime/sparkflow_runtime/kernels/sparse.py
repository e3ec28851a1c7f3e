"""Kernels of sparse tensors: indices [n, rank], values [n], the whole shape [rank]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import sparse_products
from sparkflow_runtime.kernels.fill_loops import entries_of_rows, filled
from sparkflow_runtime.kernels.host import host, ints, one_int
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.kernels.sorting import grouped, reduced_runs
from sparkflow_runtime.kernels.sum_loops import sum_rows
from sparkflow_runtime.wire.errors import InvalidArgumentError


def check_parts(op: str, indices: Any, values: Any, shape: Any) -> None:
    """That they are those of one sparse tensor."""
    sizes = ints(shape)
    if indices.ndim != 2 or values.shape != indices.shape[:1] or indices.shape[1] != len(sizes):
        raise InvalidArgumentError(
            f"{op}: indices {list(indices.shape)}, values {list(values.shape)} and shape {list(sizes)} do not fit"
        )


def _inside(xp: Any, op: str, indices: Any, sizes: tuple[int, ...]) -> None:
    outside = indices.view(f"u{indices.itemsize}") >= xp.array(sizes, np.uint64)  # a negative one is huge there
    if outside.any():
        at = int(np.flatnonzero(host(outside.any(axis=1)))[0])
        raise InvalidArgumentError(f"{op}: indices[{at}] = {indices[at].tolist()} is out of bounds of {list(sizes)}")


def _flat(xp: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
    """The place of each index in row order."""
    total = xp.zeros(len(indices), xp.int64)
    for column, size in zip(indices.T, sizes):
        total = total * size + column
    return total


def _unflat(xp: Any, places: Any, sizes: tuple[int, ...]) -> Any:
    columns = []
    for size in reversed(sizes):
        columns.append(places % max(1, size))
        places = places // max(1, size)
    return xp.stack(columns[::-1], -1) if columns else xp.zeros((len(places), 0), xp.int64)


def _nothing(values: Any) -> Any:
    return b"" if values.dtype.kind == "O" else values.dtype.type(0)


# ---------------------------------------------------------------------- dense


@kernel("SparseTensorDenseMatMul")
def _matmul(
    xp: Any, indices: Any, values: Any, shape: Any, b: Any, *, adjoint_a: bool = False, adjoint_b: bool = False
) -> Any:
    check_parts("SparseTensorDenseMatMul", indices, values, shape)
    sizes = ints(shape)
    side = 1 if adjoint_a else 0
    sizes = sizes[::-1] if adjoint_a else sizes
    b = xp.conj(b.T) if adjoint_b else b
    if b.ndim != 2 or sizes[1] != len(b):
        raise InvalidArgumentError(
            f"Cannot multiply A and B because inner dimension does not match: {sizes[1]} vs. {len(b)}"
        )
    if sparse_products.handles(xp, values, b):
        out, outside = sparse_products.product(indices, values, b, sizes[0], side)
        if outside < 0:
            return out
    rows, columns = indices[:, side], indices[:, 1 - side]
    _inside(xp, "SparseTensorDenseMatMul", xp.stack([rows, columns], 1), sizes)
    return sum_rows(xp, (xp.conj(values) if adjoint_a else values)[:, None] * b[columns], rows, sizes[0])


def _rises_within(places: np.ndarray, size: int) -> bool:
    """Whether each is larger than the one before, and none is outside of [0, size)."""
    first, last = int(places[0]), int(places[-1])
    if not 0 <= first <= last < size:
        return False
    return last - first == len(places) - 1 == 0 or bool((places[1:] > places[:-1]).all())


@kernel("SparseToDense")
def _to_dense(
    xp: Any, indices: Any, output_shape: Any, values: Any, default: Any, *, validate_indices: bool = True
) -> Any:
    sizes = ints(output_shape)
    index = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    if index.shape[1] != len(sizes) and index.size:
        raise InvalidArgumentError(f"SparseToDense: indices {list(indices.shape)} do not fit the shape {list(sizes)}")
    if getattr(values, "ndim", 0) and len(values) != len(index):
        raise InvalidArgumentError(
            f"sparse_values has incorrect shape {list(values.shape)}, should be [] or [{len(index)}]"
        )
    out = xp.full(sizes, default, values.dtype if hasattr(values, "dtype") else object)
    if not len(index):
        return out
    if xp is np and len(sizes) == 1 and _rises_within(index[:, 0], sizes[0]):
        out[index[:, 0]] = values
        return out
    _inside(xp, "SparseToDense", index, sizes)
    places = _flat(xp, index, sizes)
    if validate_indices and bool((places[1:] <= places[:-1]).any()):
        repeated = bool((places[1:] == places[:-1]).any())
        raise InvalidArgumentError(f"SparseToDense: indices are {'repeated' if repeated else 'out of order'}")
    out.reshape(-1)[places] = values
    return out


@kernel("SparseTensorDenseAdd")
def _dense_add(xp: Any, indices: Any, values: Any, shape: Any, b: Any) -> Any:
    check_parts("SparseTensorDenseAdd", indices, values, shape)
    if ints(shape) != b.shape:
        raise InvalidArgumentError(f"Dimensions {list(ints(shape))} of a and {list(b.shape)} of b must be equal")
    _inside(xp, "SparseTensorDenseAdd", indices, b.shape)
    out = b.copy()
    xp.add.at(out.reshape(-1), _flat(xp, indices, b.shape), values)
    return out


def _cwise(op: str, combine: Any) -> None:
    def run(xp: Any, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        check_parts(op, indices, values, shape)
        try:
            whole = xp.broadcast_to(dense, ints(shape))
        except ValueError:
            raise InvalidArgumentError(f"{op}: {list(dense.shape)} does not broadcast to {list(ints(shape))}") from None
        _inside(xp, op, indices, whole.shape)
        return combine(xp, values, whole[tuple(indices.T)])

    kernel(op)(run)


_cwise("SparseDenseCwiseAdd", lambda xp, a, b: a + b)
_cwise("SparseDenseCwiseMul", lambda xp, a, b: a * b)
_cwise("SparseDenseCwiseDiv", lambda xp, a, b: a / b if a.dtype.kind not in "iu" else a // b)

# ---------------------------------------------------------------------- order and shape


@kernel("SparseReorder", multi=True)
def _reorder(xp: Any, indices: Any, values: Any, shape: Any) -> Any:
    check_parts("SparseReorder", indices, values, shape)
    sizes = ints(shape)
    if math.prod(sizes) < 2**63 and bool(((indices >= 0) & (indices < xp.asarray(sizes, indices.dtype))).all()):
        order = xp.argsort(_flat(xp, indices, sizes), kind="stable")
    else:  # places outside the shape, as those of a SparseFeature may be, would be taken for others inside it
        order = xp.lexsort(xp.ascontiguousarray(indices.T[::-1]))
    return indices[order], values[order]


@kernel("SparseReshape", multi=True)
def _reshape(xp: Any, indices: Any, shape: Any, new_shape: Any) -> Any:
    sizes, wanted = ints(shape), list(ints(new_shape))
    count = math.prod(sizes)
    if wanted.count(-1) > 1:
        raise InvalidArgumentError(f"only one output dimension may be -1, got {wanted}")
    if -1 in wanted:
        known = math.prod(d for d in wanted if d != -1)
        wanted[wanted.index(-1)] = count // known if known else 0
    if math.prod(wanted) != count:
        raise InvalidArgumentError(
            f"SparseReshape: {count} dense values do not fit the requested shape, which has {math.prod(wanted)}"
        )
    return _unflat(xp, _flat(xp, indices, sizes), tuple(wanted)), xp.asarray(wanted, xp.int64)


# ---------------------------------------------------------------------- sums


def _merged(xp: Any, a: Any, b: Any, sizes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """(the places of both in row order, where a's are among them, where b's)."""
    first, second = _flat(xp, a, sizes), _flat(xp, b, sizes)
    if xp is np and len(a) == len(b) and _ascend(first) and bool((first == second).all()):
        alike = np.arange(len(first))
        return first, alike, alike
    # A stable sort of two runs in order, as they mostly come, is one pass that merges them.
    places = xp.sort(xp.concatenate([first, second]), kind="stable")
    kept = xp.ones(len(places), bool)
    kept[1:] = places[1:] != places[:-1]
    places = places[kept]
    return places, xp.searchsorted(places, first), xp.searchsorted(places, second)


def _ascend(places: np.ndarray) -> bool:
    return bool((places[1:] > places[:-1]).all())


@kernel("SparseAdd", multi=True)
def _add(xp: Any, ai: Any, av: Any, ashape: Any, bi: Any, bv: Any, bshape: Any, thresh: Any) -> Any:
    check_parts("SparseAdd", ai, av, ashape)
    check_parts("SparseAdd", bi, bv, bshape)
    sizes = ints(ashape)
    if sizes != ints(bshape):
        raise InvalidArgumentError(f"Operands' shapes do not match: {list(sizes)} and {list(ints(bshape))}")
    places, of_a, of_b = _merged(xp, ai, bi, sizes)
    values = xp.zeros(len(places), av.dtype)
    values[of_a] += av
    values[of_b] += bv
    in_both = xp.zeros(len(places), bool)
    in_both[of_a] = True
    only = xp.ones(len(places), bool)
    only[of_b] = False
    kept = ~in_both | only | (xp.abs(values) >= thresh)  # what one of them has alone stays, as in TensorFlow
    return _unflat(xp, places[kept], sizes), values[kept], ashape


@kernel("SparseAddGrad", multi=True)
def _add_grad(xp: Any, grad: Any, ai: Any, bi: Any, indices: Any) -> Any:
    found = {tuple(i): k for k, i in enumerate(indices.tolist())}

    def of(rows: Any) -> Any:
        at = np.array([found.get(tuple(i), -1) for i in rows.tolist()], np.int64)
        values = xp.zeros(len(rows), grad.dtype)
        values[at >= 0] = grad[at[at >= 0]]
        return values

    return of(ai), of(bi)


def _extreme(op: str, name: str) -> None:
    def run(xp: Any, ai: Any, av: Any, ashape: Any, bi: Any, bv: Any, bshape: Any) -> Any:
        sizes = ints(ashape)
        if sizes != ints(bshape):
            raise InvalidArgumentError(f"Operands' shapes do not match: {list(sizes)} and {list(ints(bshape))}")
        places, of_a, of_b = _merged(xp, ai, bi, sizes)
        both = [xp.zeros(len(places), av.dtype) for _ in range(2)]
        both[0][of_a], both[1][of_b] = av, bv
        return _unflat(xp, places, sizes), getattr(xp, name)(*both)

    kernel(op, multi=True)(run)


_extreme("SparseSparseMaximum", "maximum")
_extreme("SparseSparseMinimum", "minimum")


def _reduced(xp: Any, op: str, indices: Any, values: Any, shape: Any, axes: Any) -> Any:
    """(the reduced axes, the places that have values, their values)."""
    check_parts(op, indices, values, shape)
    sizes = ints(shape)
    if any(not -len(sizes) <= a < len(sizes) for a in ints(axes)):
        raise InvalidArgumentError(f"{op}: axes {ints(axes)} are out of range for shape {list(sizes)}")
    gone = sorted({a % len(sizes) for a in ints(axes)})
    rest = [i for i in range(len(sizes)) if i not in gone]
    left = tuple(sizes[i] for i in rest)
    places, group = xp.unique(_flat(xp, indices[:, rest], left), return_inverse=True)
    if "Sum" in op:
        found = sum_rows(xp, values, group.reshape(-1), len(places))
    else:
        found = xp.full(len(places), values.min() if values.size else 0, values.dtype)
        _maxima(xp, found, group.reshape(-1), values)
    return gone, left, places, found


def _maxima(xp: Any, out: Any, group: Any, values: Any) -> None:
    """out[group[i]] = the larger of it and values[i], in place."""
    if xp is np:
        np.maximum.at(out, group, values)
    elif group.size:  # cupy's `at` rounds float64 to float32
        ordered, order, starts = grouped(xp, group)
        out[ordered[starts]] = reduced_runs(xp, "maximum", values[order], ordered, starts)


def _reduction(op: str) -> None:
    def dense(xp: Any, indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool = False) -> Any:
        gone, left, places, found = _reduced(xp, op, indices, values, shape, axes)
        out = xp.zeros(math.prod(left), values.dtype)
        out[places] = found
        kept = [1 if i in gone else n for i, n in enumerate(ints(shape))]
        return out.reshape(kept if keep_dims else left)

    def sparse(xp: Any, indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool = False) -> Any:
        gone, left, places, found = _reduced(xp, op, indices, values, shape, axes)
        kept = tuple(1 if i in gone else n for i, n in enumerate(ints(shape))) if keep_dims else left
        return _unflat(xp, places, kept), found, xp.asarray(kept, xp.int64)

    kernel(op)(dense)
    kernel(f"{op}Sparse", multi=True)(sparse)


_reduction("SparseReduceSum")
_reduction("SparseReduceMax")


@kernel("SparseSoftmax")
def _softmax(xp: Any, indices: Any, values: Any, shape: Any) -> Any:
    check_parts("SparseSoftmax", indices, values, shape)
    sizes = ints(shape)
    if len(sizes) < 2:
        raise InvalidArgumentError(f"SparseSoftmax: the rank must be at least 2, got shape {list(sizes)}")
    rows, group = xp.unique(_flat(xp, indices[:, :-1], sizes[:-1]), return_inverse=True)
    group = group.reshape(-1)
    top = xp.full(len(rows), -xp.inf, values.dtype)
    _maxima(xp, top, group, values)
    powers = xp.exp(values - top[group])
    total = sum_rows(xp, powers, group, len(rows))
    return powers / total[group]


# ---------------------------------------------------------------------- parts


@kernel("SparseConcat", multi=True)
def _concat(xp: Any, *inputs: Any, concat_dim: int, N: int) -> Any:
    indices, values, shapes = inputs[:N], inputs[N : 2 * N], [list(ints(s)) for s in inputs[2 * N :]]
    rank = len(shapes[0])
    at = concat_dim % rank if -rank <= concat_dim < rank else rank
    others = [s[:at] + s[at + 1 :] for s in shapes]
    if at == rank or any(o != others[0] for o in others):
        raise InvalidArgumentError(f"SparseConcat: shapes {shapes} must be alike but for axis {concat_dim}")
    begin, moved = 0, []
    for index, size in zip(indices, shapes):
        index = index.copy()
        index[:, at] += begin
        moved.append(index)
        begin += size[at]
    whole = (*shapes[0][:at], begin, *shapes[0][at + 1 :])
    joined, found = xp.concatenate(moved), xp.concatenate(values)
    order = xp.argsort(_flat(xp, joined, whole), kind="stable")
    return joined[order], found[order], xp.asarray(whole, xp.int64)


@kernel("SparseSlice", multi=True)
def _slice(xp: Any, indices: Any, values: Any, shape: Any, start: Any, size: Any) -> Any:
    check_parts("SparseSlice", indices, values, shape)
    begin, end = xp.asarray(start), xp.minimum(xp.asarray(start) + xp.asarray(size), xp.asarray(shape))
    kept = xp.ones(len(indices), bool)
    for axis in range(indices.shape[1]):  # a reduction along rows of two or three takes several times as long
        kept &= (indices[:, axis] >= begin[axis]) & (indices[:, axis] < end[axis])
    return indices[kept] - begin, values[kept], xp.maximum(end - begin, 0)


@kernel("SparseSliceGrad")
def _slice_grad(xp: Any, grad: Any, indices: Any, start: Any, kept: Any) -> Any:
    found = {tuple(i): k for k, i in enumerate((kept + start).tolist())}
    at = np.array([found.get(tuple(i), -1) for i in indices.tolist()], np.int64)
    out = xp.zeros(len(indices), grad.dtype)
    out[at >= 0] = grad[at[at >= 0]]
    return out


@kernel("SparseSplit", multi=True)
def _split(xp: Any, axis: Any, indices: Any, values: Any, shape: Any, *, num_split: int) -> Any:
    sizes, at = list(ints(shape)), one_int(axis)
    if not -len(sizes) <= at < len(sizes) or not 1 <= num_split <= sizes[at]:
        raise InvalidArgumentError(f"SparseSplit: axis {at} of {sizes} does not come in {num_split} parts")
    each, extra = divmod(sizes[at], num_split)
    ends = np.cumsum([each + (i < extra) for i in range(num_split)])
    parts = []
    for begin, end in zip([0, *ends[:-1]], ends):
        kept = (indices[:, at] >= begin) & (indices[:, at] < end)
        moved = indices[kept].copy()
        moved[:, at] -= begin
        whole = [*sizes[: at % len(sizes)], int(end - begin), *sizes[at % len(sizes) + 1 :]]
        parts.append((moved, values[kept], xp.asarray(whole, xp.int64)))
    return [part[i] for i in range(3) for part in parts]


@kernel("SparseFillEmptyRows", multi=True)
def _fill_empty_rows(xp: Any, indices: Any, values: Any, shape: Any, default: Any) -> Any:
    check_parts("SparseFillEmptyRows", indices, values, shape)
    rows, places, empty = map(xp.asarray, entries_of_rows(indices, shape))
    whole = xp.zeros((len(rows), indices.shape[1]), indices.dtype)
    whole[:, 0] = rows
    whole[places] = indices
    return whole, filled(xp, values, places, len(rows), default), empty, places


@kernel("SparseFillEmptyRowsGrad", multi=True)
def _fill_empty_rows_grad(xp: Any, back: Any, grad: Any) -> Any:
    kept = xp.zeros(len(grad), bool)
    kept[back] = True
    return grad[back], xp.asarray(grad[~kept].sum(dtype=grad.dtype))
