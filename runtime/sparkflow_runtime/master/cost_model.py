"""What nodes cost: seconds and bytes, measured by traced steps, guessed for nodes that were never measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.protos import CostGraphDef, GraphDef, NodeDef, StepStats

# A message between processes of one host, and what one carries a second (docs/performance.md, the transport's table).
MESSAGE_S, BYTES_PER_S = 60e-6, 5e9
# A kernel call of a segment, and how fast an unmeasured one goes through its output.
CALL_S, GUESSED_BYTES_PER_S = 1e-6, 2e9
_UNKNOWN_SIZE = 128  # of a dimension that the static shape leaves open
_KEPT = 32  # measurements of a node; their median forgets a slow first step


@dataclass
class _Measured:
    seconds: list[float] = field(default_factory=list)
    output_bytes: dict[int, int] = field(default_factory=dict)


class CostModel:
    """Costs by node name. Not thread-safe: its master holds a lock."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Measured] = {}

    def record(self, stats: StepStats) -> None:
        """Learn from a step. Nodes that waited (queues) count with their waiting time."""
        for device in stats.dev_stats:
            for span in device.node_stats:
                found = self._nodes.setdefault(span.node_name, _Measured())
                found.seconds = [*found.seconds[1 - _KEPT :], span.all_end_rel_nanos * 1e-9]
                for output in span.output:
                    size = output.tensor_description.allocation_description.requested_bytes
                    found.output_bytes[output.slot] = size

    def measured(self, name: str) -> bool:
        return name in self._nodes

    def seconds(self, node: NodeDef) -> float:
        """The median of what was measured, or a guess from the static shapes of its outputs."""
        found = self._nodes.get(node.name)
        if found is not None:
            return median(found.seconds)
        if node.op in ("Const", "Placeholder"):
            return 0.0
        return CALL_S + sum(_static_bytes(node)) / GUESSED_BYTES_PER_S

    def output_bytes(self, node: NodeDef, port: int) -> int:
        found = self._nodes.get(node.name)
        if found is not None and port in found.output_bytes:
            return found.output_bytes[port]
        sizes = _static_bytes(node)
        return sizes[port] if port < len(sizes) else 0

    def transfer_s(self, num_bytes: int, source: str, destination: str) -> float:
        """Moving an output from one device to another."""
        if source == destination:
            return 0.0
        message_s = MESSAGE_S if task_of(source) != task_of(destination) else 0.0
        return message_s + num_bytes / BYTES_PER_S

    def as_cost_graph(self, nodes: Iterable[NodeDef]) -> CostGraphDef:
        """What is known of these nodes, as RunMetadata has it (compute_cost in microseconds)."""
        graph = CostGraphDef()
        for number, node in enumerate(nodes):
            cost = graph.node.add(name=node.name, device=node.device, id=number)
            cost.compute_cost = round(self.seconds(node) * 1e6)
            found = self._nodes.get(node.name)
            for port, size in sorted(found.output_bytes.items()) if found else ():
                while len(cost.output_info) <= port:
                    cost.output_info.add()
                cost.output_info[port].size = size
        return graph


def _static_bytes(node: NodeDef) -> list[int]:
    """Bytes of each output by its static shape; an open dimension counts as a usual batch."""
    shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
    kind = next((node.attr[k].type for k in ("dtype", "T", "DstT", "Tparams") if k in node.attr), 0)
    width = dtypes.as_dtype(kind).size if kind else 4
    sizes = []
    for shape in shapes:
        count = 1
        for dim in shape.dim:
            count *= dim.size if dim.size >= 0 else _UNKNOWN_SIZE
        sizes.append(count * (width or 8))
    return sizes


def total_seconds(graph: GraphDef, costs: CostModel) -> float:
    """All nodes one after the other."""
    return sum(costs.seconds(node) for node in graph.node)
