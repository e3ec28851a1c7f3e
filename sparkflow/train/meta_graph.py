"""MetaGraphDef: a graph with its collections, as the .meta file beside a checkpoint has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import CollectionDef
from tensorboard.compat.proto.saver_pb2 import SaverDef

from sparkflow.framework.collection_protos import proto_of
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.registry import lookup
from sparkflow.ops.variables import Variable
from sparkflow.train.checkpoint_state import write_whole
from sparkflow.train.control_flow_contexts import context_defs
from sparkflow.train.control_flow_proto import OF_COLLECTIONS
from sparkflow.train.queue_runner import QueueRunner
from sparkflow.train.scoped_export import UNBOUND_INPUTS, is_in, part_of, renamed, without
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.protos import GraphDef, MetaGraphDef, NodeDef
from sparkflow_runtime.wire.serialized import serialized, within_limits

VARIABLES = ("variables", "trainable_variables", "local_variables", "model_variables", "moving_average_variables",
             "global_step", "metric_variables")  # fmt: skip
"""The collections whose variables are variables again when a MetaGraph is imported."""
_KINDS = ("node_list", "bytes_list", "int64_list", "float_list")
_SAVERS_OPS = frozenset(["Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2"])


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
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    **_: Any,
) -> MetaGraphDef:
    """The current graph as a MetaGraphDef, written to `filename` when that is given.

    collection_list: which collections; all by default. Of those, variables, savers, queue runners, loops, branches,
    nodes, numbers, strings and what a library has registered messages for are kept. clear_extraneous_savers: without
    what other Savers than that of saver_def have made. strip_default_attrs: without the attributes that have their op's
    default, so that those can read it who do not know them yet.
    export_scope: the nodes of that name scope alone, and what the collections have of it, by their names without it.
    What they need from outside is the collection "unbound_inputs": names that the input_map of an import has to give.
    """
    graph = graph or get_default_graph()
    graph_def = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    unbound: list[str] = []
    if export_scope:
        graph_def, unbound = part_of(graph_def, export_scope)
    with within_limits(graph_def):
        meta = MetaGraphDef(graph_def=graph_def)
    if meta_info_def is not None:
        meta.meta_info_def.CopyFrom(meta_info_def)
    if saver_def is not None:
        meta.saver_def.CopyFrom(saver_def)
    if clear_devices:
        for node in meta.graph_def.node:
            node.device = ""
    if strip_default_attrs:
        for node in meta.graph_def.node:
            _strip(node)
        meta.meta_info_def.stripped_default_attrs = True
    gone: list[str] = []
    if clear_extraneous_savers:
        gone = _scopes_of_others(meta.graph_def, saver_def)
        kept = [node for node in meta.graph_def.node if not node.name.startswith(tuple(gone))]
        del meta.graph_def.node[:]
        meta.graph_def.node.extend(kept)
    contexts: dict[str, list[Any]] | None = None
    for name in graph.get_all_collection_keys() if collection_list is None else collection_list:
        if name in OF_COLLECTIONS:
            contexts = context_defs(graph) if contexts is None else contexts
        held = graph.get_collection(name)
        if gone and name == GraphKeys.SAVERS:
            held = [saver for saver in held if not saver.as_saver_def().restore_op_name.startswith(tuple(gone))]
        if contexts and name in contexts:
            collection = _of_messages(_scoped(contexts[name], export_scope))
        else:
            collection = _collection(name, held, export_scope or "")
        if collection is not None and isinstance(name, str):
            meta.collection_def[name].CopyFrom(collection)
    if unbound:
        meta.collection_def[UNBOUND_INPUTS].bytes_list.value.extend(name.encode() for name in unbound)
    if filename is not None:
        write_whole(filename, str(meta).encode() if as_text else serialized(meta))
    return meta


def _scopes_of_others(graph: GraphDef, saver: SaverDef | None) -> list[str]:
    """The scopes, each with a slash behind it, in which other Savers have their nodes."""
    own = (saver.save_tensor_name, saver.restore_op_name) if saver is not None else ()
    made = {node.name.rpartition("/")[0] for node in graph.node if node.op in _SAVERS_OPS}
    return [f"{scope}/" for scope in sorted(made) if scope and not any(name.startswith(f"{scope}/") for name in own)]


def _strip(node: NodeDef) -> None:
    """Take the attributes away that say what the op says for all, but for those that the inputs tell."""
    spec = lookup(node.op)
    told = {name for arg in spec.inputs for name in (arg.type_attr, arg.number_attr)}
    for name, value in spec.defaults.items():
        if name in node.attr and name not in told and node.attr[name] == encode(value):
            del node.attr[name]


def _of_messages(messages: Iterable[Any]) -> CollectionDef | None:
    written = [message.SerializeToString() for message in messages if message is not None]
    return CollectionDef(bytes_list=CollectionDef.BytesList(value=written)) if written else None


def _scoped(messages: Iterable[Any], scope: str | None) -> list[Any]:
    """Those of the scope, if there is one."""
    present = [m for m in messages if m is not None]
    return [renamed(m, scope) for m in present] if scope else present


def _collection(name: Any, values: list[Any], scope: str) -> CollectionDef | None:
    """None for what no CollectionDef holds. Variables of other collections than VARIABLES are tensors in it. scope:
    what is in it alone, but for numbers."""
    out = CollectionDef()
    if not values:
        return None
    to_proto = proto_of(name).to_proto
    if to_proto is not None:
        return _of_messages(to_proto(v, export_scope=scope or None) for v in values)
    if all(isinstance(v, Variable if name in VARIABLES else QueueRunner) for v in values):
        return _of_messages(_scoped((v.to_proto() for v in values), scope))
    if name == GraphKeys.SAVERS:
        return _of_messages(_scoped((saver.to_proto() for saver in values), scope))
    if all(isinstance(v, (Tensor, Operation, Variable)) for v in values):
        out.node_list.value.extend(without(v.name, scope) for v in values if not scope or is_in(v.name, scope))
    elif all(isinstance(v, (str, bytes)) for v in values):
        written = [v if isinstance(v, bytes) else v.encode() for v in values]
        out.bytes_list.value.extend(v for v in written if v.startswith(scope.encode()))
    elif all(isinstance(v, int) for v in values):
        out.int64_list.value.extend(values)
    elif all(isinstance(v, float) for v in values):
        out.float_list.value.extend(values)
    else:
        return None
    return out if out.ByteSize() and any(len(getattr(out, k).value) for k in _KINDS if out.HasField(k)) else None
