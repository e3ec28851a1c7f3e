"""What the passes did: counts before and after, which nodes went, what was fused, how many bytes were folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkflow_runtime.master.cost_model import CostModel
from sparkflow_runtime.master.lifetimes import Peak, planned_peaks
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE

_MAX_SHOWN = 8


@dataclass
class PassReport:
    """One run of one pass. removed, added: node names; changed: op type -> how many more (or fewer) there are."""

    name: str
    nodes_before: int
    nodes_after: int
    removed: list[str]
    added: list[str]
    ops: dict[str, int]
    folded_bytes: int
    took_s: float

    @classmethod
    def of(
        cls, name: str, before: dict[str, str], after: dict[str, str], took_s: float, folded_bytes: int = 0
    ) -> PassReport:
        """before, after: node name -> op type."""
        change = Counter(after.values())
        change.subtract(Counter(before.values()))
        return cls(
            name,
            len(before),
            len(after),
            sorted(before.keys() - after.keys()),
            sorted(after.keys() - before.keys()),
            {op: n for op, n in sorted(change.items()) if n},
            folded_bytes,
            took_s,
        )


@dataclass
class Report:
    """Everything that happened to one signature. groups: fused node -> the nodes it took the place of."""

    nodes_in_graph: int = 0
    nodes_pruned: int = 0
    nodes_final: int = 0
    passes: list[PassReport] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    memory: list[Peak] = field(default_factory=list)  # planned, of every device
    unknown: int = UNKNOWN_SIZE  # what an open dimension counts as there

    def of_result(self, graph: GraphDef) -> None:
        """Note what came out in the end."""
        self.nodes_final = len(graph.node)
        for node in graph.node:
            if "_fused_from" in node.attr:
                self.groups[node.name] = [name.decode() for name in node.attr["_fused_from"].list.s]

    def plan_memory(
        self, graph: GraphDef, feeds: Iterable[str], fetches: Iterable[str], costs: CostModel, unknown: int
    ) -> None:
        self.memory, self.unknown = planned_peaks(graph, feeds, fetches, costs, unknown), unknown

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """A page for people: one line a pass, then its details."""
        lines = [f"{self.nodes_in_graph} nodes in the graph, {self.nodes_pruned} needed, {self.nodes_final} in the end"]
        for one in self.passes:
            folded = f", {one.folded_bytes} bytes folded" if one.folded_bytes else ""
            lines.append(
                f"{one.name}: {one.nodes_before} -> {one.nodes_after} nodes{folded} ({one.took_s * 1e3:.1f} ms)"
            )
            if one.ops:
                lines.append("    " + ", ".join(f"{op} {n:+d}" for op, n in one.ops.items()))
            if one.removed:
                lines.append("    gone: " + _shown(one.removed))
        for name, members in self.groups.items():
            lines.append(f"fused {name}: {', '.join(members)}")
        lines += [peak.text() for peak in self.memory]
        if self.memory:
            lines.append(f"(planned from static shapes, in which an open dimension counts as {self.unknown})")
        return "\n".join(lines)


def _shown(names: list[str]) -> str:
    rest = len(names) - _MAX_SHOWN
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
