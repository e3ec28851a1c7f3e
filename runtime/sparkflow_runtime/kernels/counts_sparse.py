"""How often each number occurs in each row, as a sparse matrix: what tf.sparse.bincount is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import kernel
from sparkflow_runtime.wire.errors import InvalidArgumentError

_CPU = ("CPU",)


def _check(op: str, values: np.ndarray, weights: np.ndarray) -> None:
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError(
            f"{op}: weights must be empty or have the shape of values, got {list(weights.shape)} and "
            f"{list(values.shape)}"
        )
    if values.size and values.min() < 0:
        raise InvalidArgumentError(f"{op}: input values must all be non-negative, got {values.min()}")


def _counted(
    rows: np.ndarray | None, count: int, values: np.ndarray, weights: np.ndarray, binary: bool, low: int, high: int
) -> Any:
    """(indices, values, dense shape) of the counts; rows: the row of each value, None where there are none."""
    width = high if high >= 0 else max(int(values.max(initial=0)) + 1, low)
    inside = values < width
    keys = values.astype(np.int64) if rows is None else rows * max(width, 1) + values
    found, where = np.unique(keys[inside], return_inverse=True)
    if binary:
        sums = np.ones(len(found), weights.dtype)
    elif weights.size:
        sums = np.zeros(len(found), weights.dtype)
        np.add.at(sums, where, weights[inside])
    else:
        sums = np.bincount(where, minlength=len(found)).astype(weights.dtype)
    if rows is None:
        return found[:, None], sums, np.array([width], np.int64)
    places = np.stack(np.divmod(found, max(width, 1)), 1)
    return places, sums, np.array([count, width], np.int64)


@kernel("DenseCountSparseOutput", multi=True, devices=_CPU)
def _of_dense(
    xp: Any, values: Any, weights: Any, *, minlength: int = -1, maxlength: int = -1, binary_output: bool
) -> Any:
    values, weights = host(values), host(weights)
    if values.ndim not in (1, 2):
        raise InvalidArgumentError(
            f"DenseCountSparseOutput: values must be a vector or a matrix, got shape {list(values.shape)}"
        )
    _check("DenseCountSparseOutput", values, weights)
    rows = np.repeat(np.arange(len(values)), values.shape[1]) if values.ndim == 2 else None
    flat = values.reshape(-1), weights.reshape(-1)
    return _counted(rows, len(values), *flat, binary_output, minlength, maxlength)


@kernel("SparseCountSparseOutput", multi=True, devices=_CPU)
def _of_sparse(
    xp: Any, indices: Any, values: Any, dense_shape: Any, weights: Any, *, minlength: int = -1, maxlength: int = -1,
    binary_output: bool,
) -> Any:  # fmt: skip
    indices, values, sizes, weights = host(indices), host(values), host(dense_shape), host(weights)
    if indices.ndim != 2 or values.shape != indices.shape[:1] or sizes.shape != indices.shape[1:] or not sizes.size:
        raise InvalidArgumentError(
            "SparseCountSparseOutput: indices must be [n, rank], values [n] and dense_shape [rank], got "
            f"{list(indices.shape)}, {list(values.shape)} and {list(sizes.shape)}"
        )
    _check("SparseCountSparseOutput", values, weights)
    if indices.size and not ((indices >= 0) & (indices < sizes)).all():
        raise InvalidArgumentError(f"SparseCountSparseOutput: an index is out of bounds of shape {sizes.tolist()}")
    rows = indices[:, 0] if sizes.size > 1 else None
    return _counted(rows, int(sizes[0]), values, weights, binary_output, minlength, maxlength)


@kernel("RaggedCountSparseOutput", multi=True, devices=_CPU)
def _of_ragged(
    xp: Any, splits: Any, values: Any, weights: Any, *, minlength: int = -1, maxlength: int = -1, binary_output: bool
) -> Any:
    splits, values, weights = host(splits), host(values), host(weights)
    lengths = np.diff(splits)
    if splits.ndim != 1 or not splits.size or splits[0] or splits[-1] != len(values) or (lengths < 0).any():
        raise InvalidArgumentError(
            f"RaggedCountSparseOutput: splits must rise from 0 to {len(values)}, the number of values, got "
            f"{splits.reshape(-1)[:8].tolist()}"
        )
    _check("RaggedCountSparseOutput", values, weights)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return _counted(rows, len(lengths), values, weights, binary_output, minlength, maxlength)
