"""Whether variables have values, asked of a device's variables together (`_AreInitialized`).

What a session asks before it trains (`report_uninitialized_variables`) is two nodes a variable and device: of a model
with hundreds of tables a graph as large as a training step's, of which each task of the cluster has a plan made. Who is
asked needs no node: the question is about names. So this comes before all other passes.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkflow_runtime.kernels.registry import VARIABLES
from sparkflow_runtime.master.passes.view import names_task
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.edges import node_name
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_ASKS, _STACKS = "IsVariableInitialized", "Pack"


def ask_together(graph: GraphDef | NodeList, kept: Collection[str], one_device: bool) -> GraphDef | NodeList:
    """kept: nodes that are fed, fetched or run by name."""
    asking = {n.name: n for n in graph.node if n.op == _ASKS and len(n.input) == 1 and n.name not in kept}
    if len(asking) < 2:
        return graph
    nodes = {n.name: n for n in graph.node}
    users: dict[str, int] = {}
    for node in graph.node:
        for e in node.input:
            name = node_name(e)
            users[name] = users.get(name, 0) + 1
    made: dict[str, NodeDef] = {}
    gone: set[str] = set()
    for stack in graph.node:
        if stack.op != _STACKS or len(stack.input) < 2:
            continue
        if "axis" in stack.attr and stack.attr["axis"].i not in (0, -1):
            continue
        asked = [asking.get(e) for e in stack.input]
        if None in asked or any(users[e] > 1 for e in stack.input):
            continue
        held = [nodes.get(n.input[0]) for n in asked if n is not None]
        known = [n for n in held if n is not None and n.op in VARIABLES and not n.input]
        places = {n.device for n in (stack, *asked, *known) if n is not None}
        if len(known) < len(held) or len(places) > 1 or not (one_device or all(map(names_task, places))):
            continue
        made[stack.name] = _joint(stack, known)
        gone.update(stack.input)
        for node in known:
            users[node.name] -= 1
            if not users[node.name] and node.name not in kept:
                gone.add(node.name)
    if not made:
        return graph
    return NodeList([made.get(n.name, n) for n in graph.node if n.name not in gone], graph.versions)


def _joint(stack: NodeDef, variables: list[NodeDef]) -> NodeDef:
    node = NodeDef(name=stack.name, op="_AreInitialized", device=stack.device)
    for key in ("_class", "_output_shapes"):
        if key in stack.attr:
            node.attr[key].CopyFrom(stack.attr[key])
    node.attr["names"].CopyFrom(encode([_text(v, "shared_name") or v.name for v in variables]))
    node.attr["containers"].CopyFrom(encode([_text(v, "container") for v in variables]))
    return node


def _text(node: NodeDef, key: str) -> str:
    return node.attr[key].s.decode() if key in node.attr else ""
