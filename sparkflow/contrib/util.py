"""tf.contrib.util: constants of graphs, and which ops a GraphDef needs."""

from __future__ import annotations

from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.conversions import make_ndarray, make_tensor_proto
from sparkflow_runtime.wire.protos import GraphDef

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto", "ops_used_by_graph_def"]


def ops_used_by_graph_def(graph_def: GraphDef) -> list[str]:
    """The ops of its nodes and of its functions', sorted."""
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    functions = {function.signature.name for function in graph_def.library.function}
    return sorted({node.op for nodes in bodies for node in nodes} - functions)
