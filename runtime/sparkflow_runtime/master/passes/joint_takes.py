"""Accumulators of one task that are waited for together: one take of them all (`_JointTake`).

A synchronous update takes the average of every variable's gradients and uses none before all are there. Where that is
so, whatever it is that makes it so, the takes become one: one wait, and one loop that makes all averages of rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.edges import edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_PORTS = {"AccumulatorTakeGradient": 1, "SparseAccumulatorTakeGradient": 3}


def joint_takes(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph; kept: nodes that are fetched or run by name."""
    fed = {parse(f)[0] for f in feeds}
    takes = [n for n in graph.node if n.op in _PORTS and n.name not in kept and n.name not in fed]
    if len(takes) < 2:
        return graph
    regions = Regions(graph, set(feeds))
    renamed: dict[str, str] = {}
    made: dict[str, NodeDef] = {}  # after this node
    for group in _groups(regions, takes):
        joint = _joined(regions, group)
        made[group[-1].name] = joint
        port = 0
        for node in group:
            renamed[f"^{node.name}"] = f"^{joint.name}"
            for k in range(_PORTS[node.op]):
                renamed[f"{node.name}:{k}"] = edge(joint.name, port)
                port += 1
    return _rewritten(graph, renamed, made) if made else graph


def _groups(regions: Regions, takes: list[NodeDef]) -> list[list[NodeDef]]:
    """Takes of one device and number, none of which leads to another, whose every user waits for all of them."""
    groups: dict[Any, list[NodeDef]] = defaultdict(list)
    context, names = regions.contexts(), {n.name for n in takes}
    before = _before(regions, names)
    for node in takes:
        controls = tuple(sorted(e for e in node.input if is_control(e)))
        number = constant(regions.nodes, node.input[1], regions.feeds)
        wanted = node.input[1] if number is None else int(number)
        groups[node.device, wanted, controls, context[node.name], before[node.name]].append(node)
    found = []
    for group in groups.values():
        members = {n.name for n in group}
        users = [c for n in group for c, e in regions.consumers[n.name] if not is_control(e)]
        waits = {c.name: before[c.name] for c in users}
        if len(group) > 1 and all(members <= w for w in waits.values()):
            found.append(group)
    return found


def _before(regions: Regions, names: Collection[str]) -> dict[str, frozenset[str]]:
    """Of each node those of `names` that it comes after."""
    found: dict[str, frozenset[str]] = {}
    none = frozenset[str]()
    for name in regions.order:
        sources = {node_name(e) for e in regions.edges(regions.nodes[name])}
        own = {s for s in sources if s in names}
        more = [found[s] for s in sources if found[s]]
        if not own and not more:
            found[name] = none
        else:
            found[name] = more[0].union(own, *more[1:]) if more else frozenset(own)
    return found


def _joined(regions: Regions, group: list[NodeDef]) -> NodeDef:
    first = group[0]
    digest = hashlib.sha256("\n".join(n.name for n in group).encode()).hexdigest()[:12]
    joint = NodeDef(name=f"_joint/{first.name}/{digest}", op="_JointTake", device=first.device)
    joint.input.extend([*(n.input[0] for n in group), *first.input[1:]])
    joint.attr["N"].i = len(group)
    joint.attr["_fused_from"].CopyFrom(wire_attrs.encode([n.name for n in group]))
    return joint


def _rewritten(graph: GraphDef, renamed: dict[str, str], made: dict[str, NodeDef]) -> NodeList:
    gone = {e[1:] for e in renamed if is_control(e)}
    out: list[NodeDef] = []
    for node in graph.node:
        if node.name in made:
            out.append(made[node.name])
        if node.name not in gone:
            data = [renamed.get("{}:{}".format(*parse(e)), e) for e in node.input if not is_control(e)]
            controls = dict.fromkeys(renamed.get(e, e) for e in node.input if is_control(e))
            out.append(with_inputs(node, [*data, *controls]))
    return NodeList(out, graph.versions)
