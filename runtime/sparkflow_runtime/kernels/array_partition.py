"""Rows sorted into parts by number, and put back: a partitioned table takes a dozen of these a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compiled import compiled
from sparkflow_runtime.kernels.host import check_indices
from sparkflow_runtime.kernels.registry import kernel, prepares
from sparkflow_runtime.kernels.rows import put_rows
from sparkflow_runtime.wire.errors import InvalidArgumentError

Array = Any


@kernel("DynamicPartition", multi=True)
def _dynamic_partition(xp: Any, data: Array, partitions: Array, *, num_partitions: int) -> list[Array]:
    rows, parts = data.reshape(partitions.size, *data.shape[partitions.ndim :]), partitions.reshape(-1)
    if xp is not np:
        check_indices(partitions, num_partitions, "DynamicPartition")
        return [rows[parts == i] for i in range(num_partitions)]
    order, ends = np.empty(parts.size, np.int64), np.empty(num_partitions, np.int64)
    if order_by_part(np.ascontiguousarray(parts, np.int32), order, ends):
        check_indices(partitions, num_partitions, "DynamicPartition")
    taken, begin, found = rows.take(order, 0), 0, []
    for end in ends.tolist():
        found.append(taken[begin:end])
        begin = end
    return found


@compiled(["int64(Array(int32, 1, 'C', readonly=True), int64[::1], int64[::1])"])
def order_by_part(parts: Array, order: Array, ends: Array) -> int:
    """order: the places of part 0, then those of part 1, ...; ends: where each part's end. How many numbers are of no
    part; with one there, neither is filled."""
    wrong = 0
    for p in range(ends.shape[0]):
        ends[p] = 0
    for i in range(parts.shape[0]):
        if 0 <= parts[i] < ends.shape[0]:
            ends[parts[i]] += 1
        else:
            wrong += 1
    if wrong > 0:
        return wrong
    begin = 0
    for p in range(ends.shape[0]):
        count, ends[p] = ends[p], begin
        begin += count
    for i in range(parts.shape[0]):
        order[ends[parts[i]]] = i
        ends[parts[i]] += 1
    return 0


@order_by_part.otherwise
def _(parts: Array, order: Array, ends: Array) -> int:
    wrong = int(((parts < 0) | (parts >= ends.size)).sum())
    if not wrong:
        # a stable order by a narrow type is a counting sort
        order[...] = np.argsort(parts.astype(np.int16) if ends.size <= 1 << 15 else parts, kind="stable")
        np.cumsum(np.bincount(parts, minlength=ends.size), out=ends)
    return wrong


prepares(order_by_part.prepare, "DynamicPartition")


@kernel("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(xp: Any, *inputs: Array) -> Array:
    n = len(inputs) // 2
    indices, data = [i.reshape(-1) for i in inputs[:n]], inputs[n:]
    rest = data[0].shape[inputs[0].ndim :]
    every = indices[0] if n == 1 else xp.concatenate(indices)
    count = int(every.view(np.uint32).max()) + 1 if every.size else 0
    if count > _MOST:  # a negative one is huge when unsigned
        for where in inputs[:n]:
            check_indices(where, _MOST, "DynamicStitch")
    out = xp.zeros((count, *rest), data[0].dtype)
    for where, places, values in zip(inputs[:n], indices, data):
        if values.shape != (*where.shape, *rest):
            raise InvalidArgumentError(f"DynamicStitch: data {values.shape} does not fit indices {where.shape}")
        put_rows(xp, out, places, values.reshape(places.size, *rest))
    return out


_MOST = 1 << 31
