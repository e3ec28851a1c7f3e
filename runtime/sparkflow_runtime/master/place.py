"""Place: give every node a full device name.

Nodes that must share a device (`_class: loc:@x`, or an edge that carries a variable's reference or a handle) form one
group by union-find; the group's device is what its members ask for, merged, and the rest comes from the session's own.
Groups of one loop that ask for nothing go where its other groups are, as a loop runs on one task.
With a cost model, groups that ask for nothing go where a simulated step would have them done first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.simulate import assign
from sparkflow_runtime.wire.control_flow import PRIMITIVES, SWITCH, find_loops, has_control_flow
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.dtypes import resource
from sparkflow_runtime.wire.edges import data_inputs, parse
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_Spec = tuple[DeviceSpec, str]  # what a group asks for, and one who asks


def place(
    graph: GraphDef, devices: Sequence[str], default: str, soft: bool = False, costs: CostModel | None = None
) -> GraphDef:
    """A copy of the graph with `device` complete in every node.

    devices: full names of those that exist; default: the session's own. soft: a missing GPU becomes its task's CPU.
    costs: move groups that no device scope, colocation or state holds; without it they stay with the default.
    Raises InvalidArgumentError on a device that does not exist and on members of a group that contradict each other.
    """
    placed = GraphDef()
    placed.CopyFrom(graph)
    known, groups = set(devices), _groups(placed)
    specs: dict[str, _Spec] = {}
    for node in sorted(placed.node, key=lambda n: bool(registry.ref_positions(n.op))):
        root = groups.find(node.name)
        specs[root] = _merge(specs.get(root), node)
    specs = _gather_loops(placed, groups, specs)
    full = {
        root: _complete(spec, who, known, DeviceSpec.from_string(default), soft) for root, (spec, who) in specs.items()
    }
    if costs is not None:
        full |= _simulated(placed, groups, specs, full, [default, *(d for d in devices if d != default)], costs)
    for node in placed.node:
        node.device = full[groups.find(node.name)]
    return placed


def _gather_loops(graph: GraphDef, groups: _UnionFind, specs: dict[str, _Spec]) -> dict[str, _Spec]:
    """Join the free groups of each loop to one that has a device; what holds a variable stays where it is."""
    if not has_control_flow(graph.node):
        return specs
    stays = {groups.find(n.name) for n in graph.node if registry.keeps_state(n.op) and not data_inputs(n)}
    names = {n.name for n in graph.node}
    fed = {"{}:{}".format(*parse(e)) for n in graph.node for e in data_inputs(n) if parse(e)[0] not in names}
    loops = find_loops(graph.node, fed)
    for outermost in dict.fromkeys(path[:1] for path in loops.members if path):
        roots = list(dict.fromkeys(groups.find(n.name) for n in loops.whole(outermost)))
        bound = [r for r in roots if specs[r][0].to_string()]
        free = [r for r in roots if r not in bound and r not in stays]
        for root in free:
            groups.union((bound or free)[0], root)
    return {groups.find(root): specs[root] for root in specs if groups.find(root) == root}


def _simulated(
    graph: GraphDef,
    groups: _UnionFind,
    specs: dict[str, _Spec],
    full: dict[str, str],
    devices: Sequence[str],
    costs: CostModel,
) -> dict[str, str]:
    """The groups' devices after a simulated step. What holds state stays: its state is where it was first placed."""
    held = {groups.find(n.name) for n in graph.node if _holds_state(n)}
    choices = {}
    for root, device in full.items():
        free = root not in held and not specs[root][0].to_string()
        choices[root] = list(devices) if free else [device]
    for node in graph.node:
        root = groups.find(node.name)
        choices[root] = [d for d in choices[root] if _runs_on(node.op, d)] or [full[root]]
    return assign(graph, costs, groups.find, choices)


def _holds_state(node: NodeDef) -> bool:
    return registry.is_stateful(node.op) or node.op.startswith("Placeholder")  # a feed arrives at the session's device


def _runs_on(op: str, device: str) -> bool:
    return registry.has_kernel(op, DeviceSpec.from_string(device).device_type or "CPU")


class _UnionFind:
    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        parent = self._parent
        while (up := parent.get(name, name)) != name:
            parent[name] = parent.get(up, up)
            name = up
        return name

    def union(self, a: str, b: str) -> None:
        self._parent[self.find(b)] = self.find(a)


def _groups(graph: GraphDef) -> _UnionFind:
    groups = _UnionFind()
    for node in graph.node:
        if "_class" in node.attr:
            for label in node.attr["_class"].list.s:
                groups.union(label.decode().removeprefix("loc:@"), node.name)
        for e in _references(node):
            groups.union(parse(e)[0], node.name)
    return groups


def _references(node: NodeDef) -> list[str]:
    """The inputs that are no values: variables, and handles that control flow hands on."""
    edges = data_inputs(node)
    if node.op in PRIMITIVES and "T" in node.attr and node.attr["T"].type == resource.as_datatype_enum:
        return edges[:1] if node.op in SWITCH else edges
    return [edges[position] for position in registry.ref_positions(node.op)]


def _merge(so_far: _Spec | None, node: NodeDef) -> _Spec:
    mine = DeviceSpec.from_string(node.device)
    if so_far is None or not node.device:
        return so_far or (mine, node.name)
    spec, who = so_far
    for part in ("job", "replica", "task", "device_type", "device_index"):
        a, b = getattr(spec, part), getattr(mine, part)
        if a is not None and b is not None and a != b:
            if registry.ref_positions(node.op):
                return so_far  # an update runs where its variable is, whatever device scope it was made in
            raise InvalidArgumentError(
                node,
                None,
                f"Cannot place {node.name!r} on {node.device!r}: it is colocated with {who!r}, which asks for "
                f"{spec.to_string()!r}. Drop one of the two device scopes",
            )
    return mine.merged_over(spec), who if spec.to_string() else node.name


def _complete(spec: DeviceSpec, who: str, known: set[str], default: DeviceSpec, soft: bool) -> str:
    base = default if spec.job in (None, default.job) and spec.task in (None, default.task) else DeviceSpec(task=0)
    wanted = spec.merged_over(DeviceSpec(base.job, 0, base.task, "CPU", 0))
    if wanted.device_index is None:
        wanted = replace(wanted, device_index=0)
    name = wanted.to_string()
    if name in known:
        return name
    fallback = DeviceSpec(wanted.job, wanted.replica, wanted.task, "CPU", 0).to_string()
    if soft and fallback in known:
        return fallback
    raise InvalidArgumentError(
        f"Cannot assign a device for node {who!r}: it asks for {spec.to_string() or name!r}, and the devices are "
        f"{', '.join(sorted(known))}. Correct the device scope, or set allow_soft_placement for a missing GPU"
    )
