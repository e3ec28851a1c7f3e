"""MetaGraphDef: a graph with its collections, as the .meta file beside a checkpoint has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import CollectionDef
from tensorboard.compat.proto.saver_pb2 import SaverDef

from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.ops.variables import Variable
from sparkflow.train.checkpoint_state import write_whole
from sparkflow.train.queue_runner import QueueRunner
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import GraphDef, MetaGraphDef

VARIABLES = ("variables", "trainable_variables", "local_variables", "model_variables", "moving_average_variables",
             "global_step")  # fmt: skip
"""The collections whose variables are variables again when a MetaGraph is imported."""


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Iterable[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    **_: Any,
) -> MetaGraphDef:
    """The current graph as a MetaGraphDef, written to `filename` when that is given.

    collection_list: which collections; all by default. Of those, variables, nodes, numbers and strings are kept.
    Raises UnimplementedError where export_scope asks for a part of the graph.
    """
    if export_scope is not None:
        raise UnimplementedError(
            f"export_meta_graph: export_scope={export_scope!r} is not supported; export the whole graph, or a part "
            "by tf.graph_util.extract_sub_graph"
        )
    graph = graph or get_default_graph()
    meta = MetaGraphDef(graph_def=graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def)
    if meta_info_def is not None:
        meta.meta_info_def.CopyFrom(meta_info_def)
    if saver_def is not None:
        meta.saver_def.CopyFrom(saver_def)
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    for name in graph.get_all_collection_keys() if collection_list is None else collection_list:
        collection = _collection(name, graph.get_collection(name))
        if collection is not None and isinstance(name, str):
            meta.collection_def[name].CopyFrom(collection)
    if filename is not None:
        write_whole(filename, str(meta).encode() if as_text else meta.SerializeToString())
    return meta


def _collection(name: Any, values: list[Any]) -> CollectionDef | None:
    """None for what no CollectionDef holds. Variables of other collections than VARIABLES are tensors in it."""
    out = CollectionDef()
    if not values:
        return None
    if all(isinstance(v, Variable if name in VARIABLES else QueueRunner) for v in values):
        out.bytes_list.value.extend(v.to_proto().SerializeToString() for v in values)
    elif all(isinstance(v, (Tensor, Operation, Variable)) for v in values):
        out.node_list.value.extend(v.name for v in values)
    elif all(isinstance(v, (str, bytes)) for v in values):
        out.bytes_list.value.extend(v if isinstance(v, bytes) else v.encode() for v in values)
    elif all(isinstance(v, int) for v in values):
        out.int64_list.value.extend(values)
    elif all(isinstance(v, float) for v in values):
        out.float_list.value.extend(values)
    else:
        return None
    return out
