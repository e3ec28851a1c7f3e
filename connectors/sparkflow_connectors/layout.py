"""How a row lies in memory between its table and its step: scalar columns of one dtype side by side, in one array.

Forty columns are then two or three arrays all the way: a row is copied, shuffled, spooled and queued in as many
pieces, not in forty, and the graph takes the columns apart again as views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sparkflow_connectors.arrow_numpy import arrow_of, numpy_of
from sparkflow_connectors.schema import Columns
from sparkflow_connectors.uncached import Uncached
from sparkflow_runtime.records.side_by_side import put_columns
from sparkflow_runtime.wire.dtypes import DType

Block = list[np.ndarray]  # an array for each component, of the same rows
Piece = list[np.ndarray | list[np.ndarray]]  # as a Block, but what is side by side there may be separate columns here


@dataclass(frozen=True)
class Component:
    """One column, or several scalar ones of one dtype side by side. shape: of a row."""

    columns: tuple[str, ...]
    dtype: DType
    shape: tuple[int, ...]

    @property
    def packed(self) -> bool:
        return len(self.columns) > 1

    @property
    def name(self) -> str:
        return f"{len(self.columns)}_of_{self.dtype.name}" if self.packed else self.columns[0]

    @property
    def row_bytes(self) -> int:
        return int(self.dtype.np.itemsize * np.prod(self.shape, dtype=int))


@dataclass(frozen=True)
class Layout(Uncached):
    """The components of a row."""

    components: tuple[Component, ...]

    @classmethod
    def of(cls, columns: Columns) -> Layout:
        groups: dict[tuple[DType, tuple[Any, ...], str], list[str]] = {}
        for name, (dtype, shape) in columns.tensors.items():
            groups.setdefault((dtype, shape, name if shape else ""), []).append(name)
        return cls(
            tuple(
                Component(tuple(names), dtype, (len(names),) if len(names) > 1 else shape)
                for (dtype, shape, _), names in groups.items()
            )
        )

    @property
    def row_bytes(self) -> int:
        return sum(c.row_bytes for c in self.components)

    def empty(self, rows: int) -> Block:
        return [np.empty((rows, *c.shape), c.dtype.np) for c in self.components]

    def zeros(self, rows: int) -> Block:
        return [np.zeros((rows, *c.shape), c.dtype.np) for c in self.components]

    def piece(self, arrays: Mapping[str, np.ndarray]) -> Piece:
        """The columns of a table's part, as they are."""
        return [[arrays[name] for name in c.columns] if c.packed else arrays[c.columns[0]] for c in self.components]

    def columns(self, block: Block) -> dict[str, np.ndarray]:
        """Each column of a block, as a view."""
        found = {}
        for c, array in zip(self.components, block, strict=True):
            found.update({name: array[:, i] for i, name in enumerate(c.columns)} if c.packed else {c.columns[0]: array})
        return found

    # ------------------------------------------------------------------ as Arrow

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(c.name, _arrow_type(c)) for c in self.components])

    def batch(self, block: Block) -> pa.RecordBatch:
        """The block's memory as a record batch; booleans are bytes there."""
        arrays = [
            _wrapped(arrow_of(_plain(a).reshape(-1)), c.shape) for a, c in zip(block, self.components, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def block(self, batch: pa.RecordBatch) -> Block:
        """Undoes `batch`, without a copy."""
        return [
            numpy_of(_unwrapped(column)).view(c.dtype.np).reshape(-1, *c.shape)
            for column, c in zip(batch.columns, self.components, strict=True)
        ]


def rows_of(piece: Piece) -> int:
    first = piece[0]
    return len(first[0] if isinstance(first, list) else first)


def put(out: Sequence[np.ndarray], at: int, piece: Piece, start: int, stop: int) -> None:
    """Copy rows [start, stop) of the piece to rows [at, ...) of the block `out`."""
    for target, source in zip(out, piece, strict=True):
        if isinstance(source, np.ndarray):
            target[at : at + stop - start] = source[start:stop]
            continue
        put_columns(source, start, stop, target[at : at + stop - start])


def _plain(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _arrow_type(component: Component) -> pa.DataType:
    np_type = np.dtype(np.uint8) if component.dtype.np == np.bool_ else component.dtype.np
    kind = pa.from_numpy_dtype(np_type)
    for size in reversed(component.shape):
        kind = pa.list_(kind, size)
    return kind


def _wrapped(flat: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    for size in reversed(shape):
        flat = pa.FixedSizeListArray.from_arrays(flat, size)
    return flat


def _unwrapped(column: pa.Array) -> pa.Array:
    while isinstance(column, pa.FixedSizeListArray):
        column = column.flatten()
    return column
