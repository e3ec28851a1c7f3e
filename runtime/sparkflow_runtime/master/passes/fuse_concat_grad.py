"""The gradient of a concat as one node: its Slice nodes, with the ConcatOffset and the ShapeN that tell them where.

All slices of one gradient stand behind the same nodes, so they may run at the same moment: nothing tells them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

Group = tuple[str, str, str]  # the gradient's edge, the names of ConcatOffset and ShapeN


def fuse_concat_grad(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph in which `_FusedConcatGrad` stands for groups of at least two slices. kept: nodes that are fetched
    or run by name."""
    if not any(n.op == "ConcatOffset" for n in graph.node):
        return graph
    nodes = {n.name: n for n in graph.node}
    groups = _groups(nodes, {*kept, *(parse(f)[0] for f in feeds)})
    users: dict[str, set[str]] = defaultdict(set)
    for node in graph.node:
        for e in node.input:
            users[node_name(e)].add(node.name)
    renamed: dict[str, str] = {}
    made: dict[str, NodeDef] = {}
    gone: set[str] = set()
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
        if node.op == "Slice" and node.name not in taboo and (group := _group(node, nodes, taboo)):
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


def _fused(grad: str, offset: NodeDef, shapes: NodeDef, slices: list[NodeDef]) -> NodeDef:
    made = NodeDef(name=f"_fused/{slices[0].name}/{len(slices)}", op="_FusedConcatGrad", device=slices[0].device)
    made.input.extend([offset.input[0], grad, *shapes.input])
    made.attr["parts"].CopyFrom(wire_attrs.encode([parse(n.input[1])[1] for n in slices]))
    made.attr["_fused_from"].CopyFrom(wire_attrs.encode([n.name for n in slices]))
    return made


def _rewritten(graph: GraphDef, gone: set[str], made: dict[str, NodeDef], renamed: dict[str, str]) -> GraphDef:
    out = GraphDef(versions=graph.versions)
    for node in graph.node:
        for one in (node if node.name not in gone else None, made.get(node.name)):
            if one is not None:
                controls = dict.fromkeys(renamed.get(e, e) for e in one.input if is_control(e))
                edges = [renamed.get("{}:{}".format(*parse(e)), e) for e in data_inputs(one)]
                copy = out.node.add()
                copy.CopyFrom(one)
                copy.input[:] = [*edges, *controls]
    return out
