"""Prune: what the fetches and targets need, cut at the feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sparkflow_runtime.master.nodes import Nodes
from sparkflow_runtime.wire.edges import is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.errors import NotFoundError
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import NodeDef


def prune(
    nodes: Mapping[str, NodeDef], feeds: Iterable[str], fetches: Iterable[str], targets: Iterable[str]
) -> NodeList:
    """The nodes that `fetches` ('name:port') and `targets` ('name') need, in their original order.

    A fed tensor needs nobody, and nothing waits for a fed placeholder; a node all of whose outputs are fed still
    stands when it is a target.
    Raises NotFoundError on a name that the graph does not have.
    """
    fed = set(feeds)
    todo = [parse(f)[0] for f in fetches if f not in fed] + list(targets)
    for name in (*todo, *(parse(f)[0] for f in fed)):
        if name not in nodes:
            raise NotFoundError(f"The graph has no node {name!r} to feed, fetch or run")
    fed_nodes = {parse(f)[0] for f in fed}
    given = {"^" + name for name in fed_nodes if nodes[name].op.startswith("Placeholder")}
    keep: dict[str, NodeDef] = {}
    while todo:
        name = todo.pop()
        if name not in keep:
            node = nodes[name]
            inputs = list(node.input)
            keep[name] = node if given.isdisjoint(inputs) else with_inputs(node, [e for e in inputs if e not in given])
            for e in inputs:
                source = node_name(e)
                if source not in keep and (source not in fed_nodes or _is_needed(e, fed, given)):
                    todo.append(source)
    ordered = nodes.in_order(keep) if isinstance(nodes, Nodes) else [name for name in nodes if name in keep]
    return NodeList([keep[name] for name in ordered])


def _is_needed(edge: str, fed: set[str], given: set[str]) -> bool:
    """Whether an edge from a node with a fed output is one to follow."""
    return edge not in given and (is_control(edge) or "{}:{}".format(*parse(edge)) not in fed)


def fed_among(fetches: Sequence[str], feeds: Sequence[str]) -> dict[int, int]:
    """Which fetches are fed: the place of each, and of its feed."""
    fed_at = {f: i for i, f in enumerate(feeds)}
    return {i: fed_at[f] for i, f in enumerate(fetches) if f in fed_at}
