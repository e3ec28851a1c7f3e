"""Models that were saved: a SavedModel, or a checkpoint with its MetaGraph, as a Model that scores tables.

    model = tf.spark.load_model("export/1")
    model.transform(df)

What tasks get is a GraphDef, names, and the path of the weights: none of the code that trained them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import sparkflow as tf
from sparkflow.saved_model import assets, constants
from sparkflow.saved_model.loader import maybe_saved_model_directory, parse_saved_model
from sparkflow.train.graph_files import read_meta_graph_file, restore_collections
from sparkflow_connectors.column_types import Source
from sparkflow_connectors.columns import Column
from sparkflow_connectors.graphs import PredictionGraph, shapes_of_variables
from sparkflow_connectors.model import Model, fingerprint
from sparkflow_connectors.saved_sparse import input_type, sparse_inputs
from sparkflow_connectors.saving import kept_in, mounted
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError

_TRAINING = "sparkflow_job/"  # the scope of what `train` adds to a model's graph
_SIGNATURE = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def load_model(
    path: str | bytes | os.PathLike[str],
    columns: Mapping[str, str | Column] | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    signature: str = _SIGNATURE,
    tags: Sequence[str] = (tf.saved_model.tag_constants.SERVING,),
) -> Model:
    """A Model out of files that every task which scores must see.

    path: the folder of a SavedModel, or the prefix of a checkpoint whose graph is in `path.meta`.
    columns: input -> the table's column, or a Column that says how it is read; by default the column of its name, or
        the columns of the Model that was saved there.
    inputs, outputs: name -> tensor ("x:0"); by default those of the SavedModel's signature. A checkpoint needs them.

    Raises NotFoundError where there is nothing, InvalidArgumentError on a signature, a tensor or an input that there is
    not, and an input that no column can be.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise InvalidArgumentError(
            f"path must be that of a SavedModel's folder, or a checkpoint's prefix, got {type(path).__name__}"
        )
    path = mounted(path)
    meta, checkpoint = _of_saved_model(path, tags) if maybe_saved_model_directory(path) else _of_checkpoint(path)
    saved = kept_in(path)
    kept = saved if columns is None and inputs is None else None
    graph, infos, columns = tf.Graph(), {}, columns or {}
    if inputs is None or outputs is None:
        found = _signature(meta, signature, path)
        infos = dict(found.inputs) if inputs is None else {}
        if outputs is None:
            outputs = _names(found.outputs, "output")
            outputs = outputs if kept is None else _kept(outputs, kept.outputs, path)
    with graph.as_default():
        sparse = sparse_inputs(infos, columns)
        tf.import_graph_def(_without_devices(meta.graph_def), input_map=sparse.replaced, name="")
        restore_collections(meta)
    if inputs is None:
        inputs = _names({name: info for name, info in infos.items() if name not in sparse.sources}, "input")
    dense = {name: _tensor(graph, tensor, path) for name, tensor in inputs.items()}
    if kept is None:
        sources = _sources(dense, sparse.sources, columns)
        fed = {**{sources[name].name: tensor for name, tensor in dense.items()}, **sparse.fed}
        read = Columns({source.name: source for source in sources.values()})
    else:
        read, fed = kept.columns, _kept(dense, kept.columns.tensors, path)
    saver = meta.saver_def
    prediction = PredictionGraph(
        graph_def=graph.as_graph_def().SerializeToString(),
        inputs={name: tensor.name for name, tensor in fed.items()},
        outputs={},
        output_dtypes={},
        output_shapes={},
        restore_op=saver.restore_op_name,
        filename_tensor=saver.filename_tensor_name,
        variables=shapes_of_variables(graph) if saved is None else saved.variables,
        init_ops=tuple(op.name for op in _initializers(graph)),
        assets=assets.paths(path, meta, None),
    ).with_outputs({name: _tensor(graph, tensor, path) for name, tensor in outputs.items()})
    return Model(prediction, read, checkpoint, {}, fingerprint(checkpoint) if saver.restore_op_name else "")


def _initializers(graph: Any) -> Any:
    return graph.get_collection(constants.MAIN_OP_KEY) or graph.get_collection(constants.LEGACY_INIT_OP_KEY)


def _of_saved_model(path: str, tags: Sequence[str]) -> tuple[Any, str]:
    try:
        model = parse_saved_model(path)
    except OSError as error:
        raise InvalidArgumentError(str(error)) from None
    for meta in model.meta_graphs:
        if set(meta.meta_info_def.tags) == set(tags):
            return meta, os.path.join(path, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
    there = [sorted(m.meta_info_def.tags) for m in model.meta_graphs]
    raise InvalidArgumentError(f"{path} has no graph with the tags {sorted(tags)}; there are {there}")


def _of_checkpoint(prefix: str) -> tuple[Any, str]:
    if os.path.isdir(prefix):
        newest = tf.train.latest_checkpoint(prefix)
        if newest is None:
            raise NotFoundError(f"{prefix} holds neither a SavedModel nor a checkpoint")
        prefix = newest
    if not os.path.isfile(prefix + ".meta"):
        raise NotFoundError(f"{prefix} is no SavedModel, and the graph of a checkpoint, {prefix}.meta, does not exist")
    try:
        return read_meta_graph_file(prefix + ".meta"), prefix
    except OSError as error:
        raise InvalidArgumentError(f"{prefix}.meta cannot be read: {error}") from None


def _signature(meta: Any, name: str, path: str) -> Any:
    if name not in meta.signature_def and any(node.name.startswith(_TRAINING) for node in meta.graph_def.node):
        raise InvalidArgumentError(
            f"{path} is of a training, whose graph predicts nothing. Call `train` with its checkpoint_dir again: with "
            "all epochs done, it only gives the model, whose `save` makes a SavedModel of it, see docs/columns.md"
        )
    if name not in meta.signature_def:
        theirs = (key for key in meta.signature_def if not key.startswith("__saved_model"))  # TensorFlow 2's own
        there = ", ".join(map(repr, sorted(theirs))) or "none"
        raise InvalidArgumentError(
            f"{path} has no signature {name!r}; there is {there}. Name one, or give `inputs` and `outputs` by tensor"
        )
    return meta.signature_def[name]


def _names(tensors: Any, what: str) -> dict[str, str]:
    for name, info in tensors.items():
        if info.WhichOneof("encoding") != "name":
            raise InvalidArgumentError(
                f"The signature's {what} {name!r} is no plain tensor. Give `{what}s`: the tensors to use instead"
            )
    return {name: info.name for name, info in sorted(tensors.items())}


def _kept(there: dict[str, Any], names: Iterable[str], path: str) -> dict[str, Any]:
    """Those of these names, in their order. Raises DataLossError where they are others."""
    names = list(names)
    if set(names) != there.keys():
        raise DataLossError(
            f"{path}: what is beside the SavedModel says {names}, and its signature has {list(there)}: they are of two "
            "models. Save the model anew, or say `inputs` and `outputs`"
        )
    return {name: there[name] for name in names}


def _tensor(graph: Any, name: str, path: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(f"The graph of {path} has no tensor {name!r}: {error}") from None


def _without_devices(graph_def: Any) -> Any:
    """It is run by one process, whichever tasks it was trained on."""
    found = type(graph_def).FromString(graph_def.SerializeToString())
    for node in found.node:
        node.device = ""
    return found


def _sources(
    dense: Mapping[str, Any], sparse: Mapping[str, Source], columns: Mapping[str, str | Column]
) -> dict[str, Source]:
    """What each input is read from. Raises InvalidArgumentError on an input that there is not, on two of one column."""
    unknown = sorted(columns.keys() - dense.keys() - sparse.keys())
    if unknown:
        there = ", ".join(map(repr, (*dense, *sparse)))
        raise InvalidArgumentError(f"The model has no input {unknown[0]!r}; it has {there}")
    found = {name: _source(name, tensor, columns.get(name, name)) for name, tensor in dense.items()} | dict(sparse)
    readers: dict[str, str] = {}
    for name, source in found.items():
        if (other := readers.setdefault(source.name, name)) != name:
            raise InvalidArgumentError(
                f"Inputs {other!r} and {name!r} both read column {source.name!r}. Give the table that column under "
                "another name as well"
            )
    return found


def _source(name: str, tensor: Any, given: str | Column) -> Source:
    column = Column(given) if isinstance(given, str) else given
    dims = tensor.shape.as_list() if tensor.shape.ndims is not None else None
    inner = column.shape if dims is None and column.shape is not None else (dims or [None])[1:]
    if dims is not None and (not dims or dims[0] is not None):
        raise InvalidArgumentError(
            f"Input {name!r} must have one row an example, got shape {tensor.shape}. Export the model with an input of "
            "unknown first size, or name other `inputs`"
        )
    if None in inner and column.shape is not None:
        inner = column.shape
    if None in inner:
        raise InvalidArgumentError(
            f"Input {name!r} has shape {tensor.shape}: say how long its rows are, by columns={{{name!r}: "
            f"Column({column.name!r}, shape=[...])}}"
        )
    kind = pa.string() if column.is_by_id else input_type(name, tensor.dtype.base_dtype)
    for size in reversed(inner):
        kind = pa.list_(kind, size)
    return Source(_shaped(column.loaded(), inner), kind)


def _shaped(column: Column, inner: Sequence[int]) -> Column:
    return replace(column, shape=inner) if inner and column.shape is None else column
