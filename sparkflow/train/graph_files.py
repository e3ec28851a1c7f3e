"""Graphs as files: written as text or binary, and MetaGraphs read back with their collections."""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.saver_pb2 import SaverDef
from tensorboard.compat.proto.variable_pb2 import VariableDef

from sparkflow.framework.collection_protos import proto_of
from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.importer import import_graph_def
from sparkflow.ops.variables import Variable
from sparkflow.train.checkpoint_state import write_whole
from sparkflow.train.control_flow_proto import OF_COLLECTIONS, without_gradient
from sparkflow.train.meta_graph import VARIABLES
from sparkflow.train.queue_runner import QueueRunner
from sparkflow.train.queue_runner_proto import QueueRunnerDef
from sparkflow.train.saver import Saver
from sparkflow.train.scoped_export import UNBOUND_INPUTS
from sparkflow_runtime.wire.errors import DataLossError
from sparkflow_runtime.wire.protos import MetaGraphDef
from sparkflow_runtime.wire.serialized import serialized


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """The path of the file that holds the graph now."""
    proto = graph_or_graph_def
    proto = proto.as_graph_def() if isinstance(proto, Graph) else proto
    if not hasattr(proto, "SerializeToString"):
        raise TypeError(f"write_graph takes a Graph or a GraphDef, got {graph_or_graph_def!r}")
    path = os.path.join(os.fsdecode(logdir), name)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    write_whole(path, str(proto).encode() if as_text else serialized(proto))
    return path


def read_meta_graph_file(filename: str) -> MetaGraphDef:
    """Binary or text. Raises OSError where there is no file, DataLossError where it holds something else."""
    try:
        with open(filename, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise OSError(f"File {filename} does not exist.") from None
    try:
        return MetaGraphDef.FromString(data)
    except DecodeError:
        pass
    try:
        return text_format.Parse(data.decode(), MetaGraphDef())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataLossError(f"Cannot parse file {filename}: {error}") from None


def import_meta_graph(
    meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None, **kwargs: Any
) -> Saver | None:
    """Adds the nodes and collections of a MetaGraphDef, or of a .meta file, to the graph, under import_scope.

    Returns the Saver that it was written with, which knows the variables by the names of its checkpoints; where it was
    written without one, a Saver of all variables that came with it, None where there are none. input_map: tensors
    instead of those of these names; raises ValueError where a part of a graph was exported and it does not have what
    that needs.
    """
    meta = meta_graph_or_file
    meta = meta if isinstance(meta, MetaGraphDef) else read_meta_graph_file(os.fsdecode(meta))
    graph_def = meta.graph_def
    if clear_devices:
        graph_def = type(graph_def).FromString(serialized(graph_def))
        for node in graph_def.node:
            node.device = ""
    input_map = kwargs.get("input_map")
    held = meta.collection_def
    unbound = [n.decode() for n in held[UNBOUND_INPUTS].bytes_list.value] if UNBOUND_INPUTS in held else []
    if any(name.removeprefix("^") not in {key.removeprefix("^") for key in input_map or ()} for name in unbound):
        raise ValueError(f"Graph contains unbound inputs: {unbound}. Must provide these inputs through input_map.")
    scope = get_default_graph().unique_name(import_scope, mark_as_used=False) if import_scope else ""
    import_graph_def(graph_def, input_map=input_map, name=import_scope or "")
    found = restore_collections(meta, scope)
    if meta.HasField("saver_def"):
        return Saver(saver_def=meta.saver_def, name=scope)
    return Saver(found) if found else None


def restore_collections(meta: MetaGraphDef, scope: str = "") -> list[Variable]:
    """Fills the graph's collections; the global variables among what is in them."""
    graph = get_default_graph()
    made: dict[str, Variable] = {}
    prefix = f"{scope}/" if scope else ""
    for key, collection in meta.collection_def.items():
        if key == UNBOUND_INPUTS:
            continue
        if key in OF_COLLECTIONS:  # the nodes tell the rest
            stopped = {prefix + name for name in without_gradient(key, collection.bytes_list.value)}
            for loop in graph.get_collection(GraphKeys.WHILE_CONTEXT):
                loop._back_prop = loop._back_prop and loop.name not in stopped
            continue
        for value in _values(graph, key, collection, prefix, made):
            graph.add_to_collection(key, value)
    return graph.get_collection("variables", prefix or None)


def _values(graph: Graph, key: str, collection: Any, prefix: str, made: dict[str, Variable]) -> list[Any]:
    kind = collection.WhichOneof("kind")
    if kind == "node_list":
        return [graph.as_graph_element(prefix + name) for name in collection.node_list.value]
    values = list(getattr(collection, kind).value) if kind else []
    if kind == "bytes_list" and key == GraphKeys.QUEUE_RUNNERS:
        return [QueueRunner.from_proto(QueueRunnerDef.FromString(raw), prefix.rstrip("/")) for raw in values]
    if kind == "bytes_list" and key == GraphKeys.SAVERS:
        return [Saver.from_proto(SaverDef.FromString(raw), prefix.rstrip("/")) for raw in values]
    own = proto_of(key)
    if kind == "bytes_list" and own.proto_type is not None and own.from_proto is not None:
        return [own.from_proto(own.proto_type.FromString(raw), import_scope=prefix.rstrip("/")) for raw in values]
    if kind != "bytes_list" or key not in VARIABLES:
        return values
    found = []
    for raw in values:
        proto = VariableDef.FromString(raw)
        if proto.variable_name not in made:
            made[proto.variable_name] = Variable.from_proto(proto, prefix)
        found.append(made[proto.variable_name])
    return found
