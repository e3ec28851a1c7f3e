"""Batches of dense tensors of different sizes as SparseTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.data import counts, deferred
from sparkflow.data.dataset import Dataset, Rows
from sparkflow.data.elements import Spec, Whole, sparse_like
from sparkflow.framework import shapes
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import DataLossError


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Callable[[Dataset], Dataset]:
    """For Dataset.apply: so many elements, single tensors, as one SparseTensor of shape [batch, *row_shape].

    A size of row_shape that is None or -1 is that of the largest of the batch. Raises TypeError where the elements have
    several components; when it runs, DataLossError on an element that is larger than row_shape.
    """
    wanted = shapes.as_dims(row_shape)
    if wanted is None:
        raise ValueError("dense_to_sparse_batch: row_shape must have a known rank")

    def made(dataset: Dataset) -> Dataset:
        if len(dataset._spec.types) != 1:
            raise TypeError(f"dense_to_sparse_batch: elements must be single tensors, got {dataset!r}")
        if not shapes.compatible(dataset._spec.dims[0], (None,) * len(wanted)):
            raise ValueError(
                f"dense_to_sparse_batch: row_shape {shapes.show(wanted)} has another rank than {dataset!r}"
            )
        (kind,), rank, given = dataset._spec.types, len(wanted) + 1, Whole(batch_size)

        def rows(source: Rows, size: Any) -> Rows:
            def many(group: list[Any]) -> list[Any]:
                arrays = [np.asarray(row[0], object if kind is dtypes.string else None) for row in group]
                return _joined(arrays, wanted, kind)

            return deferred.batches(source, int(size), False, many, lambda row: many([row]))

        dims: tuple[shapes.Dims, ...] = ((None, rank), (None,), (rank,))
        spec = Spec(sparse_like(kind, rank), (dtypes.int64, kind, dtypes.int64), dims)
        batches = dataset._given(given, rows, spec)
        batches._count = lambda fed: counts.batched(dataset._count(fed), given.values(fed)[0], False)
        return batches

    return made


def _joined(arrays: list[Any], wanted: tuple[int | None, ...], kind: dtypes.DType) -> list[Any]:
    """The parts of the SparseTensor that has all elements of the arrays."""
    largest = np.max([a.shape for a in arrays], axis=0).reshape(-1).tolist()
    sizes = [m if d is None else d for m, d in zip(largest, wanted)]
    if any(m > s for m, s in zip(largest, sizes)):
        raise DataLossError(f"dense_to_sparse_batch: an element of shape {largest} is larger than row_shape {sizes}")
    places = [np.argwhere(np.ones(a.shape, bool)).reshape(a.size, a.ndim) for a in arrays]
    rows = np.repeat(np.arange(len(arrays)), [a.size for a in arrays])
    return [
        np.concatenate([rows[:, None], np.concatenate(places)], 1).astype(np.int64),
        np.concatenate([a.reshape(-1) for a in arrays]).astype(kind.np),
        np.array([len(arrays), *sizes], np.int64),
    ]
