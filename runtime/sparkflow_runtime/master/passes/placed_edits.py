"""What passes that rewrite a placed graph in several places at once have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.edges import both_spellings, topological
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import static_shape


@dataclass
class PlacedEdits:
    """Nodes that are made, and copies of those that change. taboo: nodes that are fetched, fed or run by name."""

    regions: Regions
    taboo: set[str]
    made: list[NodeDef] = field(default_factory=list)
    changed: dict[str, NodeDef] = field(default_factory=dict)
    prefix: ClassVar[str]  # of the names of what is made

    def __post_init__(self) -> None:
        self.nodes = self.regions.nodes
        self._contexts, self._fed = self.regions.contexts(), both_spellings(self.regions.feeds)

    def _written(self) -> GraphDef:
        """The graph as it then is, without what nobody takes any more."""
        if not self.made:
            return self.regions.graph
        nodes = [self.changed.get(n.name, n) for n in self.regions.graph.node] + self.made
        kept = self.regions.without_idle(nodes, self.taboo)
        return NodeList(topological(kept, self.regions.feeds), self.regions.graph.versions)

    def _shape(self, e: str) -> tuple[int | None, ...] | None:
        return static_shape(self.nodes, e)

    def _copy(self, node: NodeDef) -> NodeDef:
        if node.name not in self.changed:
            copy = self.changed[node.name] = NodeDef()
            copy.CopyFrom(node)
        return self.changed[node.name]

    def _make(self, op: str, beside: NodeDef, inputs: list[str], about: dict[str, Any]) -> str:
        """A node on the device of another. Its name follows from what it is."""
        made = NodeDef(op=op, device=beside.device)
        made.input.extend(inputs)
        for key, value in about.items():
            made.attr[key].CopyFrom(wire_attrs.encode(value))
        digest = hashlib.sha256(made.SerializeToString(deterministic=True)).hexdigest()[:12]
        made.name = f"{self.prefix}/{op.strip('_')}/{digest}"
        if all(n.name != made.name for n in self.made):
            self.made.append(made)
        return made.name
