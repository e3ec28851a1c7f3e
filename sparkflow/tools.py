"""tensorflow.python.tools: graphs with their variables as constants, and what checkpoints hold.

Sources: tensorflow/python/tools/freeze_graph.py, inspect_checkpoint.py, optimize_for_inference_lib.py.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from google.protobuf import text_format

from sparkflow import graph_util, train
from sparkflow.framework.graph import Graph
from sparkflow.framework.importer import import_graph_def
from sparkflow.ops import array, state
from sparkflow.saved_model import loader
from sparkflow.session.session import Session
from sparkflow.train.checkpoint_state import write_whole
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.protos import GraphDef, MetaGraphDef, NodeDef
from sparkflow_runtime.wire.serialized import serialized

_VARIABLES = ("Variable", "VariableV2")


def _split(names: Any) -> list[str]:
    if not names:
        return []
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _read(path: str, proto: Any, binary: bool) -> Any:
    with open(path, "rb") as file:
        data = file.read()
    if binary:
        proto.ParseFromString(data)
    else:
        text_format.Merge(data.decode(), proto)
    return proto


def freeze_graph(
    input_graph: str, input_saver: str, input_binary: bool, input_checkpoint: str, output_node_names: str,
    restore_op_name: str | None, filename_tensor_name: str | None, output_graph: str, clear_devices: bool,
    initializer_nodes: str, variable_names_whitelist: str = "", variable_names_blacklist: str = "",
    input_meta_graph: str | None = None, input_saved_model_dir: str | None = None, saved_model_tags: str = "serve",
    checkpoint_version: Any = None, **others: Any,
) -> GraphDef:  # fmt: skip
    """The nodes that output_node_names need, each variable a constant of its value in the checkpoint; written to
    output_graph.

    The graph is input_graph's (a GraphDef, as text unless input_binary), input_meta_graph's or
    input_saved_model_dir's. Names: separated by commas.
    """
    graph_def = _read(input_graph, GraphDef(), input_binary) if input_graph else None
    meta = _read(input_meta_graph, MetaGraphDef(), input_binary) if input_meta_graph else None
    return freeze_graph_with_def_protos(
        graph_def, None, input_checkpoint, output_node_names, restore_op_name, filename_tensor_name, output_graph,
        clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist, meta,
        input_saved_model_dir, saved_model_tags.replace(" ", "").split(","),
    )  # fmt: skip


def freeze_graph_with_def_protos(
    input_graph_def: GraphDef | None, input_saver_def: Any, input_checkpoint: str | None, output_node_names: str,
    restore_op_name: str | None, filename_tensor_name: str | None, output_graph: str | None, clear_devices: bool,
    initializer_nodes: str, variable_names_whitelist: str = "", variable_names_blacklist: str = "",
    input_meta_graph_def: MetaGraphDef | None = None, input_saved_model_dir: str | None = None,
    saved_model_tags: Any = None, checkpoint_version: Any = None,
) -> GraphDef:  # fmt: skip
    """freeze_graph of what has been read. Raises ValueError without a checkpoint, or names of outputs."""
    if not input_saved_model_dir and not (input_checkpoint and train.checkpoint_exists(input_checkpoint)):
        raise ValueError(f"freeze_graph: there is no checkpoint {input_checkpoint!r}")
    if not output_node_names:
        raise ValueError("freeze_graph: output_node_names is empty")
    graph = Graph()
    with graph.as_default(), Session(graph=graph) as session:
        if input_saved_model_dir:
            meta = loader.load(session, list(saved_model_tags or ["serve"]), input_saved_model_dir)
            graph_def = meta.graph_def
        elif input_meta_graph_def is not None:
            graph_def = input_meta_graph_def.graph_def
            _clear(graph_def, clear_devices)
            restorer: Any = train.import_meta_graph(input_meta_graph_def, clear_devices=True)
            restorer.restore(session, str(input_checkpoint))
        else:
            if input_graph_def is None:
                raise ValueError("freeze_graph: no graph is given: input_graph, input_meta_graph or a SavedModel")
            graph_def = input_graph_def
            _clear(graph_def, clear_devices)
            import_graph_def(graph_def, name="")
            _fill(session, graph_def, str(input_checkpoint))
        if initializer_nodes:
            session.run(_split(initializer_nodes))
        frozen = graph_util.convert_variables_to_constants(
            session, graph_def, _split(output_node_names), _split(variable_names_whitelist) or None,
            _split(variable_names_blacklist) or None,
        )  # fmt: skip
    if output_graph:
        write_whole(output_graph, serialized(frozen, deterministic=True))
    return frozen


def _clear(graph_def: GraphDef, wanted: bool) -> None:
    for node in graph_def.node if wanted else ():
        node.device = ""


def _fill(session: Session, graph_def: GraphDef, checkpoint: str) -> None:
    """Give the variables of the graph their values of the checkpoint."""
    reader = train.load_checkpoint(checkpoint)
    for node in graph_def.node:
        if node.op in _VARIABLES and reader.has_tensor(node.name):
            reference = session.graph.get_tensor_by_name(f"{node.name}:0")
            value = array.placeholder(reference.dtype.base_dtype)
            set_value = state.assign(reference, value, validate_shape=False)
            session.run(set_value.op, {value: reader.get_tensor(node.name)})


def print_tensors_in_checkpoint_file(
    file_name: str, tensor_name: str | None, all_tensors: bool, all_tensor_names: bool = False,
    count_exclude_pattern: str = "",
) -> None:  # fmt: skip
    """Print the names of a checkpoint's tensors, their values too (all_tensors), or those of one."""
    reader = train.load_checkpoint(file_name)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if all_tensors or all_tensor_names:
        for key in sorted(shapes):
            print(f"tensor: {key} ({types[key].name}) {shapes[key]}")
            if all_tensors:
                print(reader.get_tensor(key))
    elif not tensor_name:
        print(reader.debug_string().decode())
    else:
        print(f"tensor_name:  {tensor_name}")
        print(reader.get_tensor(tensor_name))
    left = [shape for key, shape in shapes.items() if not _excluded(key, count_exclude_pattern)]
    print(f"# Total number of params: {sum(int(np.prod(shape, dtype=np.int64)) for shape in left)}")


def _excluded(name: str, pattern: str) -> bool:
    return any(re.match(each, name) for each in _split(pattern))


def optimize_for_inference(
    input_graph_def: GraphDef, input_node_names: Any, output_node_names: Any, placeholder_type_enum: Any,
    toco_compatible: bool = False,
) -> GraphDef:  # fmt: skip
    """The nodes between inputs, which become placeholders, and outputs, without those that only training needs.

    placeholder_type_enum: the inputs' type, or one for each. Folding and fusing is the runtime's business.
    """
    inputs = _split(input_node_names)
    several = isinstance(placeholder_type_enum, (list, tuple))
    types = list(placeholder_type_enum) if several else [placeholder_type_enum] * len(inputs)
    known = {node.name for node in input_graph_def.node}
    missing = [name for name in inputs if name not in known]
    if missing:
        raise KeyError(f"optimize_for_inference: the graph has no nodes {missing}")
    made = GraphDef(versions=input_graph_def.versions, library=input_graph_def.library)
    for node in input_graph_def.node:
        made.node.append(_placeholder(node, types[inputs.index(node.name)]) if node.name in inputs else node)
    kept = graph_util.extract_sub_graph(made, _split(output_node_names))
    return graph_util.remove_training_nodes(kept, _split(output_node_names))


def _placeholder(node: NodeDef, dtype: Any) -> NodeDef:
    made = NodeDef(op="Placeholder", name=node.name)
    made.attr["dtype"].CopyFrom(encode(as_dtype(dtype)))
    for key in ("shape", "_output_shapes"):
        if key in node.attr:
            made.attr[key].CopyFrom(node.attr[key])
    return made
