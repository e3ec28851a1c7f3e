"""The gradient of a concat as one node: its Slice nodes, with the ConcatOffset and the ShapeN that tell them where, or
with constants that do.

All slices of one gradient stand behind the same nodes, so they may run at the same moment: nothing tells them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

Group = tuple[str, str, str]  # the gradient's edge, the names of ConcatOffset and ShapeN


def fuse_concat_grad(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph in which `_FusedConcatGrad` or `_Slices` stands for groups of at least two slices. kept: nodes
    that are fetched or run by name."""
    if sum(n.op == "Slice" for n in graph.node) < 2:
        return graph
    nodes = {n.name: n for n in graph.node}
    taboo = {*kept, *(parse(f)[0] for f in feeds)}
    renamed: dict[str, str] = {}
    made: dict[str, NodeDef] = {}
    gone: set[str] = set()
    for bounds in _by_constants(nodes, taboo, feeds):
        fused = made[bounds[0].node.name] = _slices(bounds)
        for port, one in enumerate(bounds):
            gone.add(one.node.name)
            renamed[f"{one.node.name}:0"], renamed["^" + one.node.name] = edge(fused.name, port), "^" + fused.name
    groups = _groups(nodes, taboo)
    users: dict[str, set[str]] = defaultdict(set)
    for node in graph.node if groups else ():
        for e in node.input:
            users[node_name(e)].add(node.name)
    for (grad, offset, shapes), slices in groups.items():
        names = {n.name for n in slices}
        fused = made[slices[-1].name] = _fused(grad, nodes[offset], nodes[shapes], slices)
        gone |= names
        if users[offset] <= names and users[shapes] <= names | {offset}:
            gone |= {offset, shapes}
        for port, one in enumerate(slices):
            renamed[f"{one.name}:0"], renamed["^" + one.name] = edge(fused.name, port), "^" + fused.name
    return _rewritten(graph, gone, made, renamed) if made else graph


def _groups(nodes: dict[str, NodeDef], taboo: set[str]) -> dict[Group, list[NodeDef]]:
    groups: dict[Group, list[NodeDef]] = defaultdict(list)
    for node in nodes.values():
        if (
            node.op == "Slice"
            and on_cpu(node.device)
            and node.name not in taboo
            and (group := _group(node, nodes, taboo))
        ):
            groups[group].append(node)
    return {group: slices for group, slices in groups.items() if len(slices) > 1}


def _group(node: NodeDef, nodes: dict[str, NodeDef], taboo: set[str]) -> Group | None:
    """Of Slice(grad, ConcatOffset(axis, ShapeN(values)):k, ShapeN(values):k) without control edges."""
    if len(data_inputs(node)) != len(node.input):
        return None
    grad, begin, size = node.input
    (offset, port), (shapes, other) = parse(begin), parse(size)
    if {offset, shapes} & taboo or port != other or offset not in nodes or shapes not in nodes:
        return None
    a, b = nodes[offset], nodes[shapes]
    wanted = [(shapes, i) for i in range(len(b.input))]
    alike = a.op == "ConcatOffset" and b.op == "ShapeN" and [parse(e) for e in a.input[1:]] == wanted
    plain = not any(is_control(e) for e in (*a.input, *b.input))
    return (grad, offset, shapes) if alike and plain and a.device == b.device == node.device else None


class _Bounds(NamedTuple):
    """A Slice by constants: all of the axes but one."""

    node: NodeDef
    axis: int
    begin: int
    size: int
    rest: tuple[int, ...]  # the sizes of the other axes, -1 for whole ones


def _by_constants(nodes: dict[str, NodeDef], taboo: set[str], feeds: Collection[str]) -> list[list[_Bounds]]:
    """The groups of Slice(x, constant, constant) that part one tensor along one axis, on one device."""
    groups: dict[tuple[str, str, int, tuple[int, ...]], list[_Bounds]] = defaultdict(list)
    for node in nodes.values():
        if node.op == "Slice" and on_cpu(node.device) and node.name not in taboo and len(node.input) == 3:
            for one in _bounds(node, nodes, feeds):
                groups[node.input[0], node.device, one.axis, one.rest].append(one)
    found, taken = [], set[str]()
    for group in sorted(groups.values(), key=len, reverse=True):  # the first part begins at 0 along every axis
        left = [one for one in group if one.node.name not in taken]
        if len(left) > 1:
            found.append(left)
            taken.update(one.node.name for one in left)
    return found


def _bounds(node: NodeDef, nodes: dict[str, NodeDef], feeds: Collection[str]) -> list[_Bounds]:
    """What a slice may be: along each axis that all others begin at 0 of."""
    begin, size = (constant(nodes, e, feeds) for e in node.input[1:])
    if begin is None or size is None or begin.shape != size.shape or begin.ndim != 1:
        return []
    if any(nodes[node_name(e)].input for e in node.input[1:]):  # constants of a loop or of a cond wait for it
        return []
    starts, sizes = begin.tolist(), size.tolist()
    return [
        _Bounds(node, i, starts[i], sizes[i], (*sizes[:i], *sizes[i + 1 :]))
        for i in range(len(starts))
        if starts[i] >= 0 and sizes[i] >= 0 and not any(starts[:i] + starts[i + 1 :])
    ]


def _slices(bounds: list[_Bounds]) -> NodeDef:
    first = bounds[0]
    made = NodeDef(name=f"_fused/{first.node.name}/{len(bounds)}", op="_Slices", device=first.node.device)
    made.input.append(first.node.input[0])
    about = {"axis": first.axis, "begins": [b.begin for b in bounds], "sizes": [b.size for b in bounds]}
    for name, value in (about | {"rest": list(first.rest), "_fused_from": [b.node.name for b in bounds]}).items():
        made.attr[name].CopyFrom(wire_attrs.encode(value))
    return made


def _fused(grad: str, offset: NodeDef, shapes: NodeDef, slices: list[NodeDef]) -> NodeDef:
    made = NodeDef(name=f"_fused/{slices[0].name}/{len(slices)}", op="_FusedConcatGrad", device=slices[0].device)
    made.input.extend([offset.input[0], grad, *shapes.input])
    made.attr["parts"].CopyFrom(wire_attrs.encode([parse(n.input[1])[1] for n in slices]))
    made.attr["_fused_from"].CopyFrom(wire_attrs.encode([n.name for n in slices]))
    return made


def _rewritten(graph: GraphDef, gone: set[str], made: dict[str, NodeDef], renamed: dict[str, str]) -> NodeList:
    out: list[NodeDef] = []
    for node in graph.node:
        for one in (node if node.name not in gone else None, made.get(node.name)):
            if one is not None:
                controls = dict.fromkeys(renamed.get(e, e) for e in one.input if is_control(e))
                edges = [renamed.get("{}:{}".format(*parse(e)), e) for e in data_inputs(one)]
                out.append(with_inputs(one, [*edges, *controls]))
    return NodeList(out, graph.versions)
