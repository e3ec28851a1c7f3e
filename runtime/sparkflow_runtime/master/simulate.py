"""Simulated execution: how long a placed graph would take, and where a free node would be done first.

Every device runs one node at a time, in the order in which they become ready; an output that another device needs
arrives after its transfer. Source: the TensorFlow whitepaper (Abadi et al., 2015), section 3.2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.wire.edges import is_control, node_name, parse, topological
from sparkflow_runtime.wire.protos import GraphDef, NodeDef


@dataclass
class Schedule:
    """Seconds since the step began: when each node ends, when each device is free."""

    ends: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    devices: dict[str, str] = field(default_factory=dict)

    @property
    def makespan_s(self) -> float:
        return max(self.ends.values(), default=0.0)


def simulate(graph: GraphDef, costs: CostModel) -> Schedule:
    """The schedule of a graph whose nodes all have a device."""
    return _run(graph, costs, lambda node, time_at: node.device)


def assign(
    graph: GraphDef, costs: CostModel, group: Callable[[str], str], choices: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Group -> device. The first node of a group that becomes ready goes where it would end first, and takes its group
    along; among equals the device that is named first wins.

    choices: group -> the devices that it may be on (all its members have kernels there).
    """
    chosen = {root: devices[0] for root, devices in choices.items() if len(devices) == 1}

    def choose(node: NodeDef, end_on: Callable[[str], float]) -> str:
        root = group(node.name)
        if root not in chosen:
            chosen[root] = min(choices[root], key=end_on)
        return chosen[root]

    _run(graph, costs, choose)
    return chosen


def _run(graph: GraphDef, costs: CostModel, choose: Callable[[NodeDef, Callable[[str], float]], str]) -> Schedule:
    done, nodes = Schedule(), {n.name: n for n in graph.node}

    def begins(node: NodeDef, device: str) -> float:
        """When `device` could begin: it is free and all inputs have arrived."""
        at = done.free.get(device, 0.0)
        for e in node.input:
            source = node_name(e)
            if source in done.ends:  # a loop's back edge has not run yet
                size = 0 if is_control(e) else costs.output_bytes(nodes[source], parse(e)[1])
                at = max(at, done.ends[source] + costs.transfer_s(size, done.devices[source], device))
        return at

    edges = (e for node in graph.node for e in node.input if node_name(e) not in nodes)
    for node in topological(list(graph.node), {"{}:{}".format(*parse(e)) for e in edges}):  # what is fed is there
        cost = costs.seconds(node)
        device = choose(node, lambda d, node=node, cost=cost: begins(node, d) + cost)  # type: ignore[misc]
        done.devices[node.name] = device
        done.ends[node.name] = done.free[device] = begins(node, device) + cost
    return done
