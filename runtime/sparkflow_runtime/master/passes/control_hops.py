"""A NoOp that only joins control edges goes to the task that waits for it.

`group` and `apply_gradients` put such a node on the worker that built the graph: servers that have applied their
updates tell the worker, which tells the server of the global step. Where nothing on the NoOp's own task comes before it
or after it, they tell that server themselves: one hop between tasks less, and no thread of the worker is woken for it.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkflow_runtime.wire import control_flow
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.edges import is_control, node_name
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


def shorten_control(graph: GraphDef, kept: Collection[str] = ()) -> GraphDef:
    """A placed graph, the same order of effects. kept: nodes that are fetched or run by name, which stay. One with
    control flow stays as it is."""
    joints = {n.name: n for n in graph.node if n.op == "NoOp" and _is_joint(n) and n.name not in kept}
    if not joints or len({n.device for n in graph.node}) < 2 or control_flow.has_control_flow(graph.node):
        return graph
    devices = {n.name: n.device for n in graph.node}
    users: dict[str, list[str]] = {f"^{name}": [] for name in joints}
    for node in graph.node:
        inputs = list(node.input)
        for e in inputs if not users.keys().isdisjoint(inputs) else ():
            if e in users:
                users[e].append(node.name)
    moved = {}
    for name, node in joints.items():
        if device := _better(node, users[f"^{name}"], devices):
            moved[name] = devices[name] = device
    return _with_devices(graph, moved) if moved else graph


def _is_joint(node: NodeDef) -> bool:
    return bool(node.input) and all(map(is_control, node.input))


def _better(node: NodeDef, users: list[str], devices: dict[str, str]) -> str | None:
    """The device of a task that has all its users, where no producer and no user is on its own task."""
    home = task_of(node.device)
    tasks = {task_of(devices[name]) for name in users}
    if len(tasks) != 1 or home in tasks or home in {task_of(devices.get(node_name(e), home)) for e in node.input}:
        return None
    return f"{tasks.pop()}/device:CPU:0"


def _with_devices(graph: GraphDef, moved: dict[str, str]) -> NodeList:
    return NodeList([_with_device(n, moved[n.name]) if n.name in moved else n for n in graph.node], graph.versions)


def _with_device(node: NodeDef, device: str) -> NodeDef:
    copy = NodeDef()
    copy.CopyFrom(node)
    copy.device = device
    copy.attr.pop("_class", None)
    return copy
