"""tf.graph_util: parts of GraphDefs, and graphs whose variables have become constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework.graph import Graph
from sparkflow.framework.importer import import_graph_def
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

_VARIABLES = ("Variable", "VariableV2")


def _names(nodes: Any) -> list[str]:
    if isinstance(nodes, (str, bytes)):
        raise TypeError(f"dest_nodes must be an iterable of strings, got {nodes!r}")
    return list(nodes)


def _source(edge: str) -> str:
    return edge.lstrip("^").partition(":")[0]


def extract_sub_graph(graph_def: GraphDef, dest_nodes: Iterable[str]) -> GraphDef:
    """The nodes that dest_nodes need, these among them, in the order they have. Raises AssertionError on an unknown
    name."""
    if not isinstance(graph_def, GraphDef):
        raise TypeError(f"graph_def must be a graph_pb2.GraphDef proto, got {type(graph_def).__name__}")
    nodes = {node.name: node for node in graph_def.node}
    todo, kept = _names(dest_nodes), set[str]()
    missing = [name for name in todo if name not in nodes]
    if missing:
        raise AssertionError(f"{missing[0]} is not in graph")
    while todo:
        name = todo.pop()
        if name not in kept:
            kept.add(name)
            todo += [_source(edge) for edge in nodes[name].input]
    return GraphDef(
        node=[n for n in graph_def.node if n.name in kept], versions=graph_def.versions, library=graph_def.library
    )


def remove_training_nodes(input_graph: GraphDef, protected_nodes: Iterable[str] | None = None) -> GraphDef:
    """Without CheckNumerics and Identity nodes, whose consumers take what they passed on; others that are protected,
    wait for control inputs, or give a control input, stay."""
    protected = set(protected_nodes or ())
    protected |= {_source(e) for node in input_graph.node for e in node.input if e.startswith("^")}
    refs = {node.name for node in input_graph.node if node.op in _VARIABLES}
    gone: dict[str, str] = {}
    for node in input_graph.node:
        plain = node.op == "CheckNumerics" or (node.op == "Identity" and _source(node.input[0]) not in refs)
        if plain and node.name not in protected and len(node.input) == 1:
            gone[node.name] = node.input[0]
    out = GraphDef(versions=input_graph.versions, library=input_graph.library)
    for node in input_graph.node:
        if node.name not in gone:
            added = out.node.add()
            added.CopyFrom(node)
            added.input[:] = [_past(edge, gone) for edge in node.input]
    return out


def _past(edge: str, gone: dict[str, str]) -> str:
    while edge in gone or edge.removesuffix(":0") in gone:
        edge = gone.get(edge) or gone[edge.removesuffix(":0")]
    return edge


def convert_variables_to_constants(
    sess: Any, input_graph_def: GraphDef, output_node_names: Sequence[str],
    variable_names_whitelist: Iterable[str] | None = None, variable_names_blacklist: Iterable[str] | None = None,
) -> GraphDef:  # fmt: skip
    """What output_node_names need, each variable in it replaced by a Const of its value in `sess`.

    Only variables of the whitelist, and none of the blacklist, where these are given (names of nodes).
    """
    inference = extract_sub_graph(input_graph_def, output_node_names)
    chosen = [node.name for node in inference.node if node.op in _VARIABLES]
    if variable_names_whitelist is not None:
        chosen = [name for name in chosen if name in set(variable_names_whitelist)]
    chosen = [name for name in chosen if name not in set(variable_names_blacklist or ())]
    values = dict(zip(chosen, sess.run([f"{name}:0" for name in chosen]))) if chosen else {}
    out = GraphDef(versions=inference.versions, library=inference.library)
    for node in inference.node:
        out.node.append(_constant(node, values[node.name]) if node.name in values else _of_value(node, values))
    return out


def _constant(node: NodeDef, value: np.ndarray) -> NodeDef:
    made = NodeDef(name=node.name, op="Const", device=node.device)
    made.attr["dtype"].CopyFrom(encode(as_dtype(node.attr["dtype"].type)))
    made.attr["value"].CopyFrom(encode(np.asarray(value)))
    return made


def _of_value(node: NodeDef, values: dict[str, Any]) -> NodeDef:
    """The node itself; one that reads what is now a constant reads no reference."""
    if node.op == "RefIdentity" and _source(node.input[0]) in values:
        copy = NodeDef()
        copy.CopyFrom(node)
        copy.op = "Identity"
        return copy
    return node


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node has no other place: variables where that is asked for, constants of strings or integers."""
    node_def = node.node_def if hasattr(node, "node_def") else node
    if node_def.op in _VARIABLES:
        return pin_variables_on_cpu
    kinds = {"Const": "dtype", "DynamicStitch": "T"}
    return node_def.op in kinds and as_dtype(node_def.attr[kinds[node_def.op]].type).name in ("string", "int32")


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> Any:
    """The static shape of the tensor that a node's input names."""
    return graph.get_tensor_by_name(input_name if ":" in input_name else f"{input_name}:0").get_shape()
