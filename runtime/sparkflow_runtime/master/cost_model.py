"""What nodes cost: seconds and bytes, measured by traced steps, guessed for nodes that were never measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkflow_runtime.wire.devices import task_of
from sparkflow_runtime.wire.protos import CostGraphDef, GraphDef, NodeDef, StepStats
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE
from sparkflow_runtime.wire.sizes import output_bytes as static_bytes

# A message between processes of one host, and what one carries a second (docs/performance.md, "Between tasks").
MESSAGE_S, BYTES_PER_S = 60e-6, 5e9
# A kernel call of a segment, and how fast an unmeasured one goes through its output.
CALL_S, GUESSED_BYTES_PER_S = 1e-6, 2e9
_KEPT = 32  # measurements of a node; their median forgets a slow first step


@dataclass
class _Measured:
    seconds: list[float] = field(default_factory=list)
    output_bytes: dict[int, int] = field(default_factory=dict)
    new_bytes: dict[int, int] = field(default_factory=dict)  # of an output: 0 where it lies in an input's memory
    scratch_bytes: int = 0


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
                    allocated = output.tensor_description.allocation_description.allocated_bytes
                    found.new_bytes[output.slot] = allocated
                found.scratch_bytes = max(found.scratch_bytes, span.memory_stats.temp_memory_size)

    def measured(self, name: str) -> bool:
        return name in self._nodes

    def seconds(self, node: NodeDef) -> float:
        """The median of what was measured, or a guess from the static shapes of its outputs."""
        found = self._nodes.get(node.name)
        if found is not None:
            from statistics import median  # dear to import

            return median(found.seconds)
        if node.op in ("Const", "Placeholder"):
            return 0.0
        return CALL_S + sum(static_bytes(node)) / GUESSED_BYTES_PER_S

    def output_bytes(self, node: NodeDef, port: int, unknown: int = UNKNOWN_SIZE) -> int:
        """As measured, or by the static shape, in which an open dimension counts as `unknown`."""
        found = self._nodes.get(node.name)
        if found is not None and port in found.output_bytes:
            return found.output_bytes[port]
        sizes = static_bytes(node, unknown)
        return sizes[port] if port < len(sizes) else 0

    def new_bytes(self, node: NodeDef, port: int) -> int | None:
        """What was allocated for an output, 0 where it lay in the memory of an input; None if that was not seen."""
        found = self._nodes.get(node.name)
        return None if found is None else found.new_bytes.get(port)

    def num_outputs(self, node: NodeDef) -> int:
        found = self._nodes.get(node.name)
        seen = 1 + max(found.output_bytes, default=-1) if found is not None else 0
        return max(seen, len(static_bytes(node)))

    def scratch_bytes(self, node: NodeDef) -> int:
        """What its kernel holds beside its outputs while it runs, if a traced step measured that."""
        found = self._nodes.get(node.name)
        return 0 if found is None else found.scratch_bytes

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


def total_seconds(graph: GraphDef, costs: CostModel) -> float:
    """All nodes one after the other."""
    return sum(costs.seconds(node) for node in graph.node)
