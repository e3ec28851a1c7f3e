"""Where the rows come from that a `_SpreadConcat` (kernels/spread_rows.py) lays side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.wire.edges import edge, is_control, node_name, parse
from sparkflow_runtime.wire.protos import NodeDef


class Travelled(NamedTuple):
    inputs: list[str]  # for each task: the rows, counts, places and sizes as they are for all its tables
    about: dict[str, list[int]]  # the attributes that say which part is whose


def from_splits(regions: Regions, lookups: Iterable[tuple[str, str]]) -> Travelled | None:
    """Of look-ups (table, ids) among rows that travelled together (distinct_rows.py); None where some did not."""
    inputs: list[str] = []
    about: dict[str, list[int]] = {"tables": [], "of": [], "widths": [], "members": []}
    first: dict[str, int] = {}  # _SplitRows -> the number of its first table
    travelled: dict[str, tuple[str, list[int], list[int]]] = {}
    for table, row_ids in lookups:
        name, port = parse(table)
        if name not in travelled:
            travelled[name] = _travelled(regions, name)
        ids, of, widths = travelled[name]
        if not ids or parse(row_ids) != (ids, 4 + of[port]):
            return None
        if name not in first:
            first[name] = len(about["of"])
            inputs += [regions.nodes[name].input[0], *(edge(ids, p) for p in (1, 2, 3))]
            about["tables"].append(len(of))
            about["of"] += of
            about["widths"] += widths
        about["members"].append(first[name] + port)
    return Travelled(inputs, about)


def _travelled(regions: Regions, name: str) -> tuple[str, list[int], list[int]]:
    """Of a _SplitRows of matrices that have columns: the _DistinctIds that its rows are of, or _BagRows, whose they
    are, and their widths; of anything else no name."""
    split = regions.nodes[name]
    if split.op != "_SplitRows" or regions.is_fed(split.input[1]):
        return "", [], []
    ids, rows = regions.nodes[node_name(split.input[1])], split.attr["row_shapes"].list.shape
    if ids.op not in ("_DistinctIds", "_BagRows") or parse(split.input[1])[1] != 1:
        return "", [], []
    if any(len(row.dim) != 1 or not row.dim[0].size for row in rows):
        return "", [], []
    return ids.name, list(split.attr["of"].list.i), [row.dim[0].size for row in rows]


def goes_to(regions: Regions, lookup: NodeDef, concats: set[str], is_free: Callable[[NodeDef], bool]) -> bool:
    """Whether nothing but these takes the rows, through Identity nodes that are free or not."""
    left = [c for c, e in regions.consumers[lookup.name] if not is_control(e)]
    while left:
        node = left.pop()
        if node.name in concats:
            continue
        behind = regions.consumers[node.name]
        if node.op != "Identity" or not is_free(node) or any(is_control(e) for _, e in behind):
            return False
        left += [c for c, _ in behind]
    return True
