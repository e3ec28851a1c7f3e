"""What distinct_rows.py and parted_rows.py move: look-ups of rows on another task, and sums of rows for one."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow_runtime.wire.protos import NodeDef

Dims = tuple[int, ...]


class Lookup(NamedTuple):
    node: NodeDef
    ids: str
    row: Dims
    key: tuple[Any, ...]
    chain: tuple[str, ...]  # Identity nodes behind it, which move with it


class Sum(NamedTuple):
    """Rows that travel to be summed by id: by an UnsortedSegmentSum or in an accumulator."""

    node: NodeDef
    rows: str
    ids: str
    row: Dims
    key: tuple[Any, ...]
    behind: tuple[str, ...]  # the nodes that make the sum, a Unique first
