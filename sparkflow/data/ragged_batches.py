"""Datasets with RaggedTensors: batches of arrays of different sizes, batches of RaggedTensors, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sparkflow.data import counts, deferred
from sparkflow.data.elements import Spec, Whole, ragged_like
from sparkflow.framework import nest, shapes
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire import dtypes

Rows = Iterable[list[Any]]
Combine = Callable[[list[list[Any]]], list[Any]]  # from the parts of each element to those of their batch


class _Leaf(NamedTuple):
    """What becomes of a leaf of the elements: its parts there, and what it is in a batch."""

    parts: int
    like: Any
    types: tuple[dtypes.DType, ...]
    dims: tuple[shapes.Dims, ...]
    combine: Combine


def dense_to_ragged_batch(
    batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = dtypes.int64
) -> Callable[[Any], Any]:
    """For Dataset.apply: so many elements, those tensors of them that have no fixed size as RaggedTensors.

    The axes before the last one whose size is not known are ragged. Raises TypeError on a SparseTensor.
    """
    kind = dtypes.as_dtype(row_splits_dtype)
    if kind not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"dense_to_ragged_batch: row_splits_dtype must be int32 or int64, got {kind.name}")
    return lambda dataset: batched(dataset, batch_size, drop_remainder, kind)


def batched(dataset: Any, batch_size: Any, drop: bool, splits_of_dense: dtypes.DType | None = None) -> Any:
    """splits_of_dense: the type of row_splits where tensors of no fixed size become ragged; None: they are stacked."""
    given, spec = Whole(batch_size), dataset._spec
    lead = given.first if drop else None
    leaves = list(_leaves(spec, lead, splits_of_dense))

    def many(group: list[Any]) -> list[Any]:
        found: list[Any] = []
        at = 0
        for leaf in leaves:
            found += leaf.combine([row[at : at + leaf.parts] for row in group])
            at += leaf.parts
        return found

    def rows(source: Rows, size: Any) -> Rows:
        return deferred.batches(source, int(size), drop, many, lambda row: many([row]))

    made = Spec(
        nest.pack_sequence_as(spec.like, [leaf.like for leaf in leaves]),
        tuple(t for leaf in leaves for t in leaf.types),
        tuple(d for leaf in leaves for d in leaf.dims),
    )
    batches = dataset._given(given, rows, made)
    batches._count = lambda fed: counts.batched(dataset._count(fed), given.values(fed)[0], drop)
    return batches


def _leaves(spec: Spec, lead: int | None, splits_of_dense: dtypes.DType | None) -> Iterator[_Leaf]:
    at = 0
    for leaf in nest.flatten(spec.like):
        if isinstance(leaf, SparseTensor):
            raise TypeError(f"A batch with RaggedTensors has no SparseTensors, got components {spec.classes}")
        parts = len(nest.flatten(leaf, expand_composites=True))
        types, dims = spec.types[at : at + parts], spec.dims[at : at + parts]
        if isinstance(leaf, RaggedTensor):
            yield _ragged(parts, ragged_like(types[-1], parts, dims[-1], types[0], lead), _joined)
        elif splits_of_dense is None or dims[0] is None or shapes.fully_known(dims[0]):
            whole = None if dims[0] is None else (lead, *dims[0])
            yield _Leaf(1, leaf, types, (whole,), _stacked)
        else:
            inner = max(i for i, size in enumerate(dims[0]) if size is None)
            like = ragged_like(types[0], inner + 1, dims[0][inner:], splits_of_dense, lead)
            yield _ragged(1, like, _joined_arrays(inner, splits_of_dense))
        at += parts


def _ragged(parts: int, like: RaggedTensor, combine: Combine) -> _Leaf:
    made = nest.flatten(like, expand_composites=True)
    return _Leaf(parts, like, tuple(t.dtype for t in made), tuple(t._shape for t in made), combine)


def _stacked(group: list[list[Any]]) -> list[Any]:
    return [np.stack([np.asarray(row[0]) for row in group])]


def _joined(group: list[list[Any]]) -> list[Any]:
    """Of the parts (splits, ..., flat values) of RaggedTensors, those of one with an axis in front."""
    *splits, flat = (list(column) for column in zip(*group))
    first = [len(s) - 1 for s in splits[0]] if splits else [len(f) for f in flat]
    kind = splits[0][0].dtype if splits else np.int64
    found = [np.cumsum([0, *first]).astype(kind)]
    for level in splits:
        ends = np.cumsum([0, *(s[-1] for s in level)])
        found.append(np.concatenate([[0], *(s[1:] + end for s, end in zip(level, ends))]).astype(kind))
    return [*found, np.concatenate(flat)]


def _joined_arrays(rank: int, splits: dtypes.DType) -> Combine:
    """_joined, of arrays, the axes of which before `rank` are ragged ones."""

    def combine(group: list[list[Any]]) -> list[Any]:
        *found, flat = _joined([_parts(np.asarray(row[0]), rank) for row in group])
        return [*(s.astype(splits.np) for s in found), flat]

    return combine


def _parts(array: np.ndarray, rank: int) -> list[Any]:
    sizes = array.shape
    splits = [np.arange(shapes.product(sizes[: i + 1]) + 1, dtype=np.int64) * sizes[i + 1] for i in range(rank)]
    return [*splits, array.reshape(shapes.product(sizes[: rank + 1]), *sizes[rank + 1 :])]


# ---------------------------------------------------------------------- rows


def rows_of(parts: Sequence[Any]) -> Rows:
    """The parts of each row of a RaggedTensor, whose own are (splits, ..., flat values)."""
    outer, *inner = parts
    for start, stop in pairwise(np.asarray(outer).tolist()):
        found = []
        for splits in inner[:-1]:
            own = splits[start : stop + 1]
            found.append(own - own[0])
            start, stop = int(own[0]), int(own[-1])
        yield [*found, inner[-1][start:stop]]


def row_of(leaf: RaggedTensor) -> tuple[Any, tuple[dtypes.DType, ...], tuple[shapes.Dims, ...]]:
    """What stands for a row of it in a structure, a RaggedTensor or an array where no axis is ragged any more; and the
    types and shapes of its parts."""
    flat, splits = leaf.flat_values, leaf.nested_row_splits
    inner = None if flat._shape is None else (None, *flat._shape[1:])
    if len(splits) == 1:
        return 0, (leaf.dtype.base_dtype,), (inner,)
    like = ragged_like(leaf.dtype.base_dtype, len(splits) - 1, inner, splits[0].dtype.base_dtype)
    made = nest.flatten(like, expand_composites=True)
    return like, tuple(t.dtype for t in made), tuple(t._shape for t in made)
