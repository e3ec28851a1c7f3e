"""Place: give every node a full device name.

Nodes that must share a device (`_class: loc:@x`, or an edge that carries a variable's reference or a handle) form one
group by union-find; the group's device is what its members ask for, merged, and the rest comes from the session's own.
The nodes of a loop variable form one group too. Where all groups of a loop that ask for a device ask for one task, the
others go there with them, so that the loop crosses to no other task.
With a cost model, groups that ask for nothing go where a simulated step would have them done first.

A task of which the session uses a GPU computes on its first one what asks for no other device and has a kernel for
it, as in TensorFlow; what is left to the host (kernels/memories.py) goes to that task's CPU, whatever its device scope.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sparkflow_runtime.kernels import memories, registry
from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.simulate import assign
from sparkflow_runtime.wire.control_flow import (
    EXIT,
    LOOP_COND,
    MERGE,
    NEXT,
    PRIMITIVES,
    SWITCH,
    find_loops,
    has_control_flow,
)
from sparkflow_runtime.wire.devices import DeviceSpec, on_cpu, task_of
from sparkflow_runtime.wire.dtypes import resource, variant
from sparkflow_runtime.wire.edges import colocated, data_inputs, parse
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_FOLLOWS = PRIMITIVES - MERGE
_STAYS = (resource.as_datatype_enum, variant.as_datatype_enum)  # types of values that go to no other task
_Spec = tuple[DeviceSpec, str]  # what a group asks for, and one who asks


def place(
    graph: GraphDef,
    devices: Sequence[str],
    default: str,
    soft: bool = False,
    costs: CostModel | None = None,
    held: Mapping[str, str] | None = None,
) -> GraphDef:
    """A copy of the graph with `device` complete in every node.

    devices: full names of those that exist; default: the session's own. soft: a missing GPU becomes its task's CPU.
    costs: move groups that no device scope, colocation or state holds; without it they stay with the default.
    held: what keeps state -> where it was placed before. GPUs are used where `devices` has them.
    Raises InvalidArgumentError on a device that does not exist and on members of a group that contradict each other.
    """
    placed = GraphDef(node=graph.node, versions=graph.versions)
    nodes = list(placed.node)
    beside = {n.name: _beside(n) for n in nodes}
    known, users = set(devices), _users_of_handles(nodes)
    groups = _groups(nodes, beside, users)
    specs: dict[str, _Spec] = {}
    asked = {n.name: n.device for n in nodes}
    for node in sorted(nodes, key=lambda n: _rank(n, users)):
        name = node.name
        others = beside[name]
        if others and asked[name] in map(asked.get, others):
            continue  # it was given the device of what it is colocated with, which says so itself
        root = groups.find(name)
        specs[root] = _merge(specs.get(root), node, users)
    for name in beside:
        specs.setdefault(groups.find(name), (DeviceSpec.from_string(""), name))
    specs = _gather_loops(placed, groups, specs)
    bound = _bound_to_host(nodes, groups) if _have_gpus(devices) else frozenset()
    full = {
        root: _complete(spec, who, known, DeviceSpec.from_string(default), soft, root not in bound)
        for root, (spec, who) in specs.items()
    }
    full |= {groups.find(name): device for name, device in (held or {}).items() if name in beside}
    if costs is not None:
        apart = [d for d in devices if d != default and DeviceSpec.from_string(d).device_index == 0]
        full |= _simulated(placed, groups, specs, full, [default, *apart], costs)
    for node, name in zip(nodes, beside, strict=True):
        device = full[groups.find(name)]
        node.device = device if on_cpu(device) else _of_gpu_or_host(node, device, soft)
    return placed


def _have_gpus(devices: Sequence[str]) -> bool:
    return not all(map(on_cpu, devices))


def _bound_to_host(nodes: Sequence[NodeDef], groups: _UnionFind) -> Collection[str]:
    """The groups with a variable, or what refers to one, that no GPU has a kernel for: the host has them whole."""
    return {groups.find(n.name) for n in nodes if memories.is_bound(n)}


def of_gpus_or_hosts(placed: GraphDef | NodeList) -> GraphDef | NodeList:
    """A placed graph in which passes have put other ops: those that no GPU has a kernel for go to the hosts."""
    nodes = []
    for node in placed.node:
        if not on_cpu(node.device) and (device := _of_gpu_or_host(node, node.device, True)) != node.device:
            left, node = node, NodeDef()
            node.CopyFrom(left)
            node.device = device
        nodes.append(node)
    return NodeList(nodes, placed.versions)


def _of_gpu_or_host(node: NodeDef, device: str, soft: bool) -> str:
    """Where in a task a node of a group on that GPU computes."""
    if memories.computes(node):
        return device
    if not (soft or on_cpu(node.device)) and memories.has_no_form(node.op):
        raise InvalidArgumentError(
            node,
            None,
            f"Cannot assign a device for node {node.name!r}: it asks for {node.device!r}, and {node.op} has no kernel "
            "for GPUs. Take it out of the device scope, or set allow_soft_placement",
        )
    return f"{task_of(device)}/device:CPU:0"


def homes(
    nodes: Sequence[NodeDef], free: Collection[str], devices: Sequence[str], default: str, soft: bool
) -> dict[str, str]:
    """The devices of these nodes, as the whole graph has them: what is colocated with one, or refers to it, may ask for
    a task, and a run that has no part in that must find it there too. What cannot be placed is left out."""
    known, users = set(devices), _users_of_handles(nodes)
    groups = _groups(nodes, {n.name: _beside(n) for n in nodes}, users)
    bound = _bound_to_host(nodes, groups) if _have_gpus(devices) else frozenset()
    of_group: dict[str, list[NodeDef]] = {groups.find(name): [] for name in free}
    for node in nodes:
        of_group.get(groups.find(node.name), []).append(node)
    found: dict[str, str] = {}
    for members in of_group.values():
        spec: _Spec | None = None
        try:
            for node in sorted(members, key=lambda n: _rank(n, users)):
                spec = _merge(spec, node, users)
            assert spec is not None  # who is free is in its group
            device = _complete(*spec, known, DeviceSpec.from_string(default), soft, groups.find(node.name) not in bound)
        except InvalidArgumentError:
            continue
        found |= {n.name: device for n in members if n.name in free}
    return found


def _rank(node: NodeDef, users: Collection[str]) -> int:
    """Who says first where a group is: what follows others says it last."""
    return 2 if node.name in users or registry.ref_positions(node.op) else int(node.op in _FOLLOWS)


def _gather_loops(graph: GraphDef, groups: _UnionFind, specs: dict[str, _Spec]) -> dict[str, _Spec]:
    """Join the free groups of a loop whose others are on one task to those; what holds a variable stays where it is."""
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
        tasks = {(specs[r][0].job, specs[r][0].task) for r in bound}
        for root in free if len(tasks) <= 1 else ():
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


def _groups(
    nodes: Sequence[NodeDef], beside: Mapping[str, Sequence[str]], users: Mapping[str, Sequence[str]]
) -> _UnionFind:
    """beside: of each node by its name, in order, what it asks to be colocated with. users: of handles, with these."""
    groups = _UnionFind()
    for node, (name, others) in zip(nodes, beside.items(), strict=True):
        for other in others:
            groups.union(other, name)
        for e in _references(node):
            groups.union(parse(e)[0], name)
    for name, handles in users.items():
        for handle in handles:
            groups.union(handle, name)
    if has_control_flow(nodes):
        _join_loop_variables(nodes, groups)
    return groups


def _join_loop_variables(whole: Sequence[NodeDef], groups: _UnionFind) -> None:
    """Enter, Merge, Switch, NextIteration and Exit of a variable: what goes around in the loop crosses no task."""
    nodes = {n.name: n for n in whole}
    for merge in (n for n in whole if n.op in MERGE):
        makers = [parse(e)[0] for e in data_inputs(merge)]
        if any(maker in nodes and nodes[maker].op in NEXT for maker in makers):
            for maker in makers:
                groups.union(maker, merge.name)
    for node in whole:
        made_by = nodes.get(parse(node.input[0])[0]) if node.op in SWITCH | EXIT else None
        if made_by is not None and (node.op in EXIT or (made_by.op in MERGE and _is_of_loop(nodes, node))):
            groups.union(made_by.name, node.name)


def _is_of_loop(nodes: dict[str, NodeDef], switch: NodeDef) -> bool:
    decides = nodes.get(parse(switch.input[1])[0])
    return decides is not None and decides.op == LOOP_COND


def _beside(node: NodeDef) -> Sequence[str]:
    """The nodes that it asks to be colocated with."""
    attrs = node.attr
    return [colocated(label) for label in attrs["_class"].list.s] if "_class" in attrs else ()


def _references(node: NodeDef) -> list[str]:
    """The inputs that are no values: variables, and handles that control flow hands on."""
    op = node.op
    if op in PRIMITIVES and "T" in node.attr and node.attr["T"].type in _STAYS:
        return data_inputs(node)[: 1 if op in SWITCH else None]
    positions = tuple(registry.ref_positions(op))
    edges = data_inputs(node) if positions else []
    return [edges[position] for position in positions]


def _users_of_handles(nodes: Sequence[NodeDef]) -> dict[str, list[str]]:
    """Node -> those that give it a queue, table or reader, of which it gets the thing itself."""
    makers = {op for op in {n.op for n in nodes} if registry.gives_handle(op)}
    handles = {n.name for n in nodes if n.op in makers or memories.hands_on_handle(n)} if makers else ()
    found = {n.name: [name for name, _ in map(parse, data_inputs(n)) if name in handles] for n in nodes if handles}
    return {name: of for name, of in found.items() if of}


def _merge(so_far: _Spec | None, node: NodeDef, users: Collection[str]) -> _Spec:
    mine = DeviceSpec.from_string(node.device)
    if so_far is None or not node.device:
        return so_far or (mine, node.name)
    spec, who = so_far
    if mine == spec:
        return so_far
    for part in ("job", "replica", "task", "device_type", "device_index"):
        a, b = getattr(spec, part), getattr(mine, part)
        if a is not None and b is not None and a != b:
            if node.name in users or registry.ref_positions(node.op) or node.op in PRIMITIVES:
                return so_far  # an update runs where its variable is, whatever device scope it was made in
            raise InvalidArgumentError(
                node,
                None,
                f"Cannot place {node.name!r} on {node.device!r}: it is colocated with {who!r}, which asks for "
                f"{spec.to_string()!r}. Drop one of the two device scopes",
            )
    return mine.merged_over(spec), who if spec.to_string() else node.name


def _in_order(device: DeviceSpec) -> tuple[str, int]:
    return device.job or "", device.task or 0


def _complete(spec: DeviceSpec, who: str, known: set[str], default: DeviceSpec, soft: bool, on_gpu: bool = True) -> str:
    """on_gpu: whether the group may be on one."""
    base = default if spec.job in (None, default.job) and spec.task in (None, default.task) else DeviceSpec(task=0)
    wanted = spec.merged_over(DeviceSpec(base.job, 0, base.task, None, None))
    first_gpu = replace(wanted, device_type="GPU", device_index=0).to_string()
    if on_gpu and wanted.device_type is None and first_gpu in known:
        return first_gpu
    wanted = wanted.merged_over(DeviceSpec(device_type="CPU", device_index=0))
    if wanted.device_index is None:
        wanted = replace(wanted, device_index=0)
    name = wanted.to_string()
    fallback = DeviceSpec(wanted.job, wanted.replica, wanted.task, "CPU", 0).to_string()
    if name in known:
        return name if on_gpu or wanted.device_type != "GPU" else fallback
    if soft and fallback in known:
        return fallback
    if spec.job is None or spec.task is None:  # '/task:1', and the default's job has none: the first job that has
        for device in sorted(map(DeviceSpec.from_string, known), key=_in_order):
            if replace(wanted, job=spec.job, task=spec.task).fits(device):
                return device.to_string()
    raise InvalidArgumentError(
        f"Cannot assign a device for node {who!r}: it asks for {spec.to_string() or name!r}, and the devices are "
        f"{', '.join(sorted(known))}. Correct the device scope, or set allow_soft_placement for a missing GPU"
    )
