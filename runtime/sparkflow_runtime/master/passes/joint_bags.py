"""Bags of many columns become one node a step of theirs, where nothing can tell the difference (regions.py).

    _Entries                                         -> _JointEntries
    _BagIds                                          -> _JointBagIds
    SparseSegment{Sum,Mean,SqrtN}, _BagSums          -> _JointBagSums
    SparseSegment{Sum,Mean,SqrtN}Grad, _BagGradients -> _JointBagGradients
    _WeightedSums, _WeightedGradients                -> _JointWeightedSums, _JointWeightedGradients

Each column has a few hundred numbers, so that the calls took most of the time (kernels/joint_bags.py).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import CARRIED, data_inputs, edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_SIZES = {"_JointBagGradients": 3, "_JointWeightedGradients": 4}  # the input that says how many rows there are


class _Step(NamedTuple):
    joint: str
    kind: str = ""  # what sums are divided by; else its attribute
    outputs: int = 1
    hides: bool = False
    attrs: tuple[str, ...] = ("T",)  # that members have in common


_STEPS = {
    "_Entries": _Step("_JointEntries", outputs=2),
    "_BagIds": _Step("_JointBagIds", outputs=4, attrs=("only_known", "out_idx", "row_type")),
    "_BagSums": _Step("_JointBagSums", hides=True, attrs=("T", "kind")),
    "_BagGradients": _Step("_JointBagGradients", hides=True, attrs=("T", "kind")),
    "_WeightedSums": _Step("_JointWeightedSums", attrs=("T", "kind", "hides")),
    "_WeightedGradients": _Step("_JointWeightedGradients", attrs=("T", "kind", "hides")),
}
for _kind in ("Sum", "Mean", "SqrtN"):
    _STEPS[f"SparseSegment{_kind}"] = _Step("_JointBagSums", _kind)
    _STEPS[f"SparseSegment{_kind}Grad"] = _Step("_JointBagGradients", _kind)


def joint_bags(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph; kept: nodes that are fetched or run by name."""
    apart = {*kept, *(parse(f)[0] for f in feeds)}
    bags = [n for n in graph.node if n.op in _STEPS and n.name not in apart and on_cpu(n.device)]
    if len(bags) < 2:
        return graph
    regions = Regions(graph, set(feeds))
    made: dict[str, NodeDef] = {}  # after this node
    renamed: dict[str, str] = {}  # data edge 'name:port' and control edge '^name' -> edge
    for group in _groups(regions, bags):
        joint = made[group[-1].name] = _joined(regions, group)
        outputs = _STEPS[group[0].op].outputs
        for k, node in enumerate(group):
            renamed[f"^{node.name}"] = f"^{joint.name}"
            renamed |= {f"{node.name}:{p}": edge(joint.name, outputs * k + p) for p in range(outputs)}
    return _rewritten(regions, made, renamed, kept) if made else graph


def _groups(regions: Regions, bags: list[NodeDef]) -> list[list[NodeDef]]:
    groups: dict[Any, list[NodeDef]] = defaultdict(list)
    level = regions.levels({n.name for n in bags}.__contains__)
    context, awaited = regions.contexts(), regions.awaited()
    for node in bags:
        attrs = tuple(node.attr[a].SerializeToString() for a in _STEPS[node.op].attrs)
        when = level[node.name], context[node.name], awaited[node.name]
        carried = node.attr[CARRIED].s if CARRIED in node.attr else b""
        groups[node.op, attrs, carried, node.device, len(data_inputs(node)), when].append(node)
    return [group for group in groups.values() if len(group) > 1]


def _joined(regions: Regions, group: list[NodeDef]) -> NodeDef:
    """Inputs: the first of each, then the second of each, and so on."""
    first, step = group[0], _STEPS[group[0].op]
    digest = hashlib.sha256("\n".join(n.name for n in group).encode()).hexdigest()[:12]
    joint = NodeDef(name=f"_joint/{first.name}/{digest}", op=step.joint, device=first.device)
    given = [data_inputs(n) for n in group]
    size = _SIZES.get(step.joint, 0)
    counted = [_counted(regions, inputs[size], first.device) for inputs in given] if size else []
    if counted and all(counted):
        given = [[*inputs[:size], e, *inputs[size + 1 :]] for inputs, e in zip(given, counted)]
    inputs = [e for same in zip(*given) for e in same]
    controls = dict.fromkeys(e for n in group for e in n.input if is_control(e))
    joint.input.extend([*inputs, *controls])
    for name in (*step.attrs, *([CARRIED] if CARRIED in first.attr else [])):
        joint.attr[name].CopyFrom(first.attr[name])
    about: dict[str, Any] = {"N": len(group), "_fused_from": [n.name for n in group]}
    if step.outputs == 1 and "hides" not in step.attrs:
        about["hides"] = step.hides
    if step.kind:
        about["kind"] = step.kind
    if counted:
        about["counted"] = all(counted)
    for key, value in about.items():
        joint.attr[key].CopyFrom(wire_attrs.encode(value))
    return joint


def _counted(regions: Regions, e: str, device: str) -> str:
    """What an edge gives the length of, behind Shape and the first of its numbers; nothing if it is something else, or
    not on that device already: of what is elsewhere, only the length is to travel."""
    first = regions.nodes.get(node_name(e))
    if first is None or regions.is_fed(e) or first.op != "StridedSlice" or any(map(is_control, first.input)):
        return ""
    sizes, *where = data_inputs(first)
    shape = regions.nodes.get(node_name(sizes))
    numbers = [constant(regions.nodes, at, regions.feeds) for at in where]
    wanted = all(n is not None and n.tolist() == [k] for n, k in zip(numbers, (0, 1, 1)))
    masks = any(first.attr[f"{m}_mask"].i for m in ("begin", "end", "ellipsis", "new_axis"))
    if not wanted or masks or first.attr["shrink_axis_mask"].i != 1:
        return ""
    if shape is None or regions.is_fed(sizes) or shape.op != "Shape" or any(map(is_control, shape.input)):
        return ""
    rows = shape.input[0]
    source = regions.nodes.get(node_name(rows))
    return rows if regions.is_fed(rows) or (source is not None and source.device == device) else ""


def _rewritten(regions: Regions, made: dict[str, NodeDef], renamed: dict[str, str], kept: Collection[str]) -> NodeList:
    gone = {e[1:] for e in renamed if is_control(e)}
    out: list[NodeDef] = []
    for node in regions.graph.node:
        joint = made.get(node.name)
        for one in (*((joint,) if joint else ()), *(() if node.name in gone else (node,))):
            if gone.isdisjoint(map(node_name, one.input)):
                out.append(one)
                continue
            data = [renamed.get("{}:{}".format(*parse(e)), e) for e in data_inputs(one)]
            controls = dict.fromkeys(renamed.get(e, e) for e in one.input if is_control(e))
            out.append(with_inputs(one, [*data, *controls]))
    return NodeList(regions.without_idle(out, kept), regions.graph.versions)
