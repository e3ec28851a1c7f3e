"""Accumulators of one task that are waited for together: one take of them all (`_JointTake`).

A synchronous update takes the average of every variable's gradients and uses none before all are there. Where that is
so, whatever it is that makes it so, the takes become one: one wait, and one loop that makes all averages of rows. Where
one update takes averages of many tables' rows (fuse_embeddings.py), it gets them as one array (`_ApplyDistinct`).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from sparkflow_runtime.kernels.registry import VARIABLES
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_PORTS = {"AccumulatorTakeGradient": 1, "SparseAccumulatorTakeGradient": 3}
_FLOATS = {kind.as_datatype_enum for kind in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)}


def joint_takes(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph; kept: nodes that are fetched or run by name."""
    fed = {parse(f)[0] for f in feeds}
    takes = [n for n in graph.node if n.op in _PORTS and n.name not in kept and n.name not in fed]
    if len(takes) < 2:
        return graph
    regions = Regions(graph, set(feeds))
    free = {n.name for n in graph.node if n.name not in kept and n.name not in fed}
    renamed: dict[str, str] = {}
    made: dict[str, list[NodeDef]] = defaultdict(list)  # after this node
    passed: set[str] = set()  # nodes that nobody needs any more
    for group in _groups(regions, takes):
        updates = _updates(regions, group, free)
        joint = _joined(regions, group, [one.members for one in updates])
        made[group[-1].name].append(joint)
        port = 0
        for node in group:
            renamed[f"^{node.name}"] = f"^{joint.name}"
            for k in range(_PORTS[node.op]):
                renamed[f"{node.name}:{k}"] = edge(joint.name, port)
                port += 1
        for number, (update, _, between) in enumerate(updates):
            rows = [edge(joint.name, port + 3 * number + k) for k in range(3)]
            whole = _update_of_all(regions, update, rows, between)
            made[update.name].append(whole)
            renamed[f"^{update.name}"] = f"^{whole.name}"
            renamed |= {f"{update.name}:{k}": edge(whole.name, k) for k in range(update.attr["N"].i)}
            passed.update(between)
    return _rewritten(graph, renamed, made, passed) if made else graph


class _Update(NamedTuple):
    """An update of many tables by rows that takes of one group give it and nobody else. members: the numbers of the
    takes; between: Identity nodes that are there for it alone; what they wait for the update then waits for."""

    node: NodeDef
    members: list[int]
    between: list[str]


def _updates(regions: Regions, group: list[NodeDef], free: Collection[str]) -> list[_Update]:
    place = {n.name: i for i, n in enumerate(group)}
    whole = [n for n in regions.nodes.values() if n.op == "_FusedSparseApply" and n.name in free and on_cpu(n.device)]
    distinct = [n for n in whole if n.attr["rows"].s == b"distinct"]
    return [one for n in distinct if (one := _update(regions, n, place, free)) is not None]


def _update(regions: Regions, update: NodeDef, place: dict[str, int], free: Collection[str]) -> _Update | None:
    n, between = update.attr["N"].i, list[str]()
    sources = [_behind(regions, e, free, between) for e in data_inputs(update)[-2 * n :]]
    names = [name for name, _ in sources[n:]]
    if sources != [*((name, 1) for name in names), *((name, 0) for name in names)]:
        return None
    tables = data_inputs(update)[:n]
    if not all(name in place for name in names) or min(len({*names}), len({*tables})) < n:
        return None
    takes, inside = [regions.nodes[name] for name in names], {update.name, *between}
    kinds = {_kind(regions, take) for take in takes}
    users = [c.name for name in names for c, e in regions.consumers[name] if not is_control(e)]
    users += [c.name for name in between for c, _ in regions.consumers[name]]
    if len(kinds) > 1 or None in kinds or not inside.issuperset(users) or _row_shapes(regions, update) is None:
        return None
    return _Update(update, [place[name] for name in names], between)


def _behind(regions: Regions, e: str, free: Collection[str], between: list[str]) -> tuple[str, int]:
    """Where an edge comes from, behind Identity nodes, which are added to `between`. Nowhere if it is fed."""
    while not regions.is_fed(e):
        name, port = parse(e)
        node = regions.nodes[name]
        if node.op != "Identity" or name not in free:
            return name, port
        between.append(name)
        e = data_inputs(node)[0]
    return "", 0


def _kind(regions: Regions, take: NodeDef) -> tuple[int, bytes] | None:
    """The type and the reduction of a take's accumulator, where it is of rows that loops add up."""
    held = regions.nodes[node_name(take.input[0])]
    if take.op != "SparseAccumulatorTakeGradient" or held.op != "SparseConditionalAccumulator":
        return None
    dtype = held.attr["dtype"].type
    reduction = held.attr["reduction_type"].s if "reduction_type" in held.attr else b"MEAN"
    return (dtype, reduction) if dtype in _FLOATS else None


def _row_shapes(regions: Regions, update: NodeDef) -> list[Shape] | None:
    """Of the variables that it changes, where they are known."""
    found = []
    for e in data_inputs(update)[: update.attr["N"].i]:
        variable = regions.nodes[node_name(e)]
        shape = wire_attrs.decode(variable.attr["shape"]).dims if variable.op in VARIABLES else None
        if not shape or None in shape[1:]:
            return None
        found.append(Shape(shape[1:]))
    return found


def _update_of_all(regions: Regions, update: NodeDef, rows: list[str], between: list[str]) -> NodeDef:
    """The update by rows, ids and counts of all its tables."""
    n, inputs = update.attr["N"].i, data_inputs(update)
    whole = NodeDef()
    whole.CopyFrom(update)
    whole.name, whole.op = f"{update.name}/joint", "_ApplyDistinct"
    del whole.input[:]
    waited = (e for node in (update, *(regions.nodes[name] for name in between)) for e in node.input if is_control(e))
    whole.input.extend([*inputs[: -2 * n], *rows, *dict.fromkeys(waited)])
    del whole.attr["rows"]
    about = {"of": [*range(n)], "members": [*range(n)], "row_shapes": _row_shapes(regions, update), "awaited": True}
    for key, value in about.items():
        whole.attr[key].CopyFrom(wire_attrs.encode(value))
    return whole


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
        sources = set(regions.sources[name])
        own = {s for s in sources if s in names}
        more = [found[s] for s in sources if found[s]]
        if not own and not more:
            found[name] = none
        else:
            found[name] = more[0].union(own, *more[1:]) if more else frozenset(own)
    return found


def _joined(regions: Regions, group: list[NodeDef], sets: list[list[int]]) -> NodeDef:
    first = group[0]
    digest = hashlib.sha256("\n".join([*(n.name for n in group), repr(sets)]).encode()).hexdigest()[:12]
    joint = NodeDef(name=f"_joint/{first.name}/{digest}", op="_JointTake", device=first.device)
    joint.input.extend([*(n.input[0] for n in group), *first.input[1:]])
    joint.attr["N"].i = len(group)
    about: dict[str, list[Any]] = {"_fused_from": [n.name for n in group]}
    if sets:
        about |= {"set_sizes": [len(one) for one in sets], "set_members": [m for one in sets for m in one]}
    for key, value in about.items():
        joint.attr[key].CopyFrom(wire_attrs.encode(value))
    return joint


def _rewritten(
    graph: GraphDef, renamed: dict[str, str], made: dict[str, list[NodeDef]], passed: Collection[str]
) -> NodeList:
    gone = {*passed, *(e[1:] for e in renamed if is_control(e))}
    out: list[NodeDef] = []
    for node in graph.node:
        for one in (*made.get(node.name, ()), *(() if node.name in gone else (node,))):
            data = [renamed.get("{}:{}".format(*parse(e)), e) for e in data_inputs(one)]
            controls = dict.fromkeys(renamed.get(e, e) for e in one.input if is_control(e))
            out.append(with_inputs(one, [*data, *controls]))
    return NodeList(out, graph.versions)
