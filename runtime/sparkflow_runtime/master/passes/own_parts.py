"""Parts of a tensor that elementwise work takes get memory of their own where they lie in short runs.

x[:, i] is a view: each of its rows is a few numbers, a row of x away from the next. A loop over it begins anew with
each row, so that a product of two such vectors takes five times as long as one of what lies in one piece; products of
all pairs of 26 of them, with their gradients, read each some fifty times. Whether the runs are short is seen at run
time (kernels/own_parts.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sparkflow_runtime.master.passes.fuse import ELEMENTWISE
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import data_inputs, node_name
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_COUNTS = {  # the attribute that says how many parts there are, or has something for each
    "Split": "num_split",
    "SplitV": "num_split",
    "Unpack": "num",
    "_Slices": "begins",
    "_FusedConcatGrad": "parts",
    "StridedSlice": "",
    "Slice": "",
}
_WORK = ELEMENTWISE | {"_Fused"}


def own_parts(graph: GraphDef, kept: Collection[str] = ()) -> GraphDef:
    """A placed graph in which such nodes bear `own_parts`. kept: nodes that are fetched or run by name."""
    parts = {n.name: n for n in graph.node if n.op in _COUNTS and n.name not in kept and on_cpu(n.device)}
    if not parts:
        return graph
    uses = Counter(node_name(e) for n in graph.node if n.op in _WORK for e in data_inputs(n))
    marked = {name: _marked(n) for name, n in parts.items() if uses[name] >= _count(n)}
    return NodeList([marked.get(n.name, n) for n in graph.node], graph.versions) if marked else graph


def _count(node: NodeDef) -> int:
    value = wire_attrs.decode(node.attr[name]) if (name := _COUNTS[node.op]) else 1
    return len(value) if isinstance(value, list) else int(value)


def _marked(node: NodeDef) -> NodeDef:
    made = NodeDef()
    made.CopyFrom(node)
    made.attr["own_parts"].CopyFrom(wire_attrs.encode(True))
    return made
