"""Variables that are filled side by side, in the first run of a segment that does nothing else.

What a model's variables begin with is drawn and computed for each by itself. A kernel takes several threads for a large
array; of hundreds of small ones each is done in less time than a thread takes to come, and all together are most of
what a parameter server does until it is ready.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow_runtime.kernels.registry import VARIABLES, Kernel
from sparkflow_runtime.wire.edges import node_name
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sizes import output_bytes

_FILL = VARIABLES | {"Assign", "RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal"}
_WORTH_BYTES = 16 << 20  # of results
_SHARED_BYTES = 1 << 20  # from where kernels take several threads for one


class Strand(NamedTuple):
    """Lines of a segment, in order, that have nothing to do with its other lines. num_bytes: of their results, but for
    what kernels share among threads themselves."""

    num_bytes: int
    lines: list[int]


def strands(
    nodes: Sequence[NodeDef], kernels: Mapping[str, Kernel], attrs: Mapping[str, Mapping[str, Any]]
) -> list[Strand]:
    """Of a segment's nodes; none where they do anything but fill variables, or little of it."""
    rows = [kernels[n.name] for n in nodes]
    if any((row.stateful or row.refs) and row.op not in _FILL for row in rows):
        return []
    sizes = [max(output_bytes(n), default=0) for n in nodes]
    sizes = [size if size < _SHARED_BYTES else 0 for size in sizes]
    if sum(sizes) < _WORTH_BYTES:
        return []
    leader = _leaders(nodes, attrs)
    found: dict[int, Strand] = {}
    for line, (first, size) in enumerate(zip(leader, sizes)):
        before = found.get(first, Strand(0, []))
        before.lines.append(line)
        found[first] = Strand(before.num_bytes + size, before.lines)
    return list(found.values())


def _leaders(nodes: Sequence[NodeDef], attrs: Mapping[str, Mapping[str, Any]]) -> list[int]:
    """Of each line, one that stands for all lines that depend on one another or name one variable."""
    at = {n.name: line for line, n in enumerate(nodes)}
    inputs = [[at[name] for name in map(node_name, n.input) if name in at] for n in nodes]
    leader = list(range(len(nodes)))
    awaited: set[int] = set()  # by who does more than say to nobody here that all is done
    for line in reversed(range(len(nodes))):  # producers come first
        if nodes[line].op != "NoOp" or line in awaited:
            awaited.update([line, *inputs[line]])

    def find(line: int) -> int:
        while leader[line] != line:
            leader[line] = line = leader[leader[line]]
        return line

    named: dict[Any, int] = {}
    for line, node in enumerate(nodes):
        if line not in awaited:
            continue
        beside = inputs[line]
        if node.op in VARIABLES:
            about = attrs[node.name]
            name = about.get("container", ""), about.get("shared_name") or node.name
            beside = [*beside, named.setdefault(name, line)]
        for other in beside:
            leader[find(other)] = find(line)
    return [find(line) for line in range(len(nodes))]


def dealt(found: Sequence[Strand], threads: int) -> list[list[int]]:
    """Their lines in so many lanes at most, about as much in each."""
    lanes: list[list[int]] = [[] for _ in range(threads)]
    loads = [0] * threads
    for strand in sorted(found, key=lambda strand: -strand.num_bytes):
        least = loads.index(min(loads))
        lanes[least] += strand.lines
        loads[least] += strand.num_bytes
    return [sorted(lane) for lane in lanes if lane]
