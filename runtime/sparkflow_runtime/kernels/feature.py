"""Kernels of feature columns: buckets of numbers, crosses of categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.cross_loops import crossed, joined
from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Node, bound, kernel
from sparkflow_runtime.records.fingerprints import fingerprints_of
from sparkflow_runtime.wire.errors import InvalidArgumentError

_JOINT = b"_X_"


@bound("Bucketize", stateful=False)
def _bucketize(node: Node) -> Callable[[Any], Any]:
    """How many boundaries, which are float32, are at most x; compared as C++ compares them."""
    boundaries = node.attrs["boundaries"]
    edges = node.xp.asarray(boundaries, np.float32)
    ascend = not bool((edges[1:] < edges[:-1]).any())

    def run(x: Any) -> Any:
        if not ascend:
            raise InvalidArgumentError(f"Bucketize: expected sorted boundaries, got {list(boundaries)}")
        values = x if x.dtype == np.float64 else x.astype(np.float32, copy=False)
        return edges.searchsorted(values, side="right").astype(np.int32)

    return run


class _Column(NamedTuple):
    """The features of all rows, one row after the other; row i has counts[i] of them, from starts[i] on. Without counts
    it is one in each row."""

    values: np.ndarray
    starts: np.ndarray | None = None
    counts: np.ndarray | None = None

    def of_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(starts, counts)."""
        if self.starts is None or self.counts is None:
            return np.arange(len(self.values)), np.ones(len(self.values), np.int64)
        return self.starts, self.counts


def _sparse(indices: Any, values: Any, rows: int) -> _Column:
    entries = np.ascontiguousarray(host(indices), np.int64)
    if len(entries) == rows and bool((entries[:, 0] == np.arange(rows)).all()):  # as of most columns
        return _Column(np.asarray(host(values)))
    at = entries[:, 0]
    if at.size and (at.min() < 0 or at.max() >= rows or (at[1:] < at[:-1]).any()):
        raise InvalidArgumentError(f"SparseCross: rows must ascend within [0, {rows}), got {at.tolist()[:8]} ...")
    counts = np.bincount(at, minlength=rows)
    return _Column(np.asarray(host(values)), np.cumsum(counts) - counts, counts)


def _dense(values: Any, rows: int) -> _Column:
    array = np.asarray(host(values))
    if array.ndim != 2 or array.shape[0] != rows:
        raise InvalidArgumentError(f"SparseCross: dense inputs must have shape [{rows}, n], got {list(array.shape)}")
    width = array.shape[1]
    if width == 1:
        return _Column(array.reshape(-1))
    return _Column(array.reshape(-1), np.arange(rows) * width, np.full(rows, width))


def _rows(shapes: Sequence[Any], dense: Sequence[Any]) -> int:
    sizes = [int(host(s)[0]) for s in shapes] + [int(d.shape[0]) for d in dense]
    if len(set(sizes)) != 1:
        raise InvalidArgumentError(f"SparseCross: the inputs must have equally many rows, got {sizes}")
    return sizes[0]


def _crossed(
    columns: Sequence[_Column], rows: int, finish: Callable[[list[np.ndarray]], np.ndarray]
) -> tuple[Any, Any, Any]:
    """The products of each row's features, the last column's turning fastest."""
    if all(c.counts is None for c in columns):
        indices = np.zeros((rows, 2), np.int64)
        indices[:, 0] = np.arange(rows)
        return indices, finish([c.values for c in columns]), np.array([rows, min(rows, 1)], np.int64)
    known = [c.of_rows() for c in columns]
    counts = np.prod([c for _, c in known], axis=0, dtype=np.int64)
    row = np.repeat(np.arange(rows), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    rest, taken = place, []
    for column, (starts, own) in reversed([*zip(columns, known)]):
        width = own[row]
        taken.append(column.values[starts[row] + rest % width])
        rest = rest // width
    shape = np.array([rows, counts.max(initial=0)], np.int64)
    return np.stack([row, place], 1).astype(np.int64), finish(taken[::-1]), shape


def _hashes(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return fingerprints_of(values)
    return np.ascontiguousarray(values, np.int64).view(np.uint64)


def _hashed(parts: list[np.ndarray], key: int, num_buckets: int) -> np.ndarray:
    found = np.full(len(parts[0]), key & (2**64 - 1), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            found = joined(found, part)
    found %= np.uint64(num_buckets or 2**63 - 1)
    return found.view(np.int64)


def _text(parts: list[np.ndarray], joint: bytes) -> np.ndarray:
    out = np.empty(len(parts[0]), object)
    out[:] = [joint.join(v if isinstance(v, bytes) else str(v).encode() for v in group) for group in zip(*parts)]
    return out


def _columns(inputs: Sequence[Any], n: int) -> tuple[list[_Column], int]:
    """Of indices, values and shapes of n sparse inputs, and the dense ones; and how many rows each has."""
    indices, values, shapes, dense = inputs[:n], inputs[n : 2 * n], inputs[2 * n : 3 * n], inputs[3 * n :]
    rows = _rows(shapes, dense)
    return [_sparse(i, v, rows) for i, v in zip(indices, values)] + [_dense(d, rows) for d in dense], rows


@kernel("SparseCross", multi=True, devices=("CPU",))
def _sparse_cross(
    xp: Any, *inputs: Any, N: int, hashed_output: bool, num_buckets: int, hash_key: int
) -> tuple[Any, Any, Any]:
    if hashed_output:
        rows = _rows(inputs[2 * N : 3 * N], inputs[3 * N :])
        given = [*zip(inputs[:N], inputs[N : 2 * N]), *((None, dense) for dense in inputs[3 * N :])]
        done = crossed(given, rows, hash_key & (2**64 - 1), num_buckets or 2**63 - 1) if xp is np else None
        if done is not None:
            return *done, np.array([rows, min(rows, 1)], np.int64)
    columns, rows = _columns(inputs, N)
    if not hashed_output:
        return _crossed(columns, rows, lambda parts: _text(parts, _JOINT))
    numbers = [c._replace(values=_hashes(c.values)) for c in columns]
    return _crossed(numbers, rows, lambda parts: _hashed(parts, hash_key, num_buckets))


@kernel("SparseCrossV2", multi=True, devices=("CPU",))
def _sparse_cross_v2(xp: Any, *inputs: Any, N: int) -> tuple[Any, Any, Any]:
    joint = host(inputs[-1]).item()
    return _crossed(*_columns(inputs[:-1], N), lambda parts: _text(parts, joint))
