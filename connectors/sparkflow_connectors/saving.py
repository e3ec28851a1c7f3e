"""A Model as a folder: a SavedModel, and beside it how its columns are read, which a SavedModel does not say.

`load_model` makes the same Model of it, in a process that has no training code; whoever else reads SavedModels,
TensorFlow's servers too, has the graph, its variables and the files of its tables.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import shutil
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow.saved_model import assets, constants
from sparkflow.saved_model.proto import SavedModel
from sparkflow.train.checkpoint_convert import to_tensorflow
from sparkflow_connectors.column_types import Source
from sparkflow_connectors.columns import Column
from sparkflow_connectors.graphs import PredictionGraph
from sparkflow_connectors.model import Model, check_fingerprint
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.errors import AlreadyExistsError, DataLossError, InvalidArgumentError, class_of
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.serialized import serialized, within_limits

_COLUMNS = os.path.join("assets.extra", "sparkflow_columns.json")
_VERSION = 1
_START = "sparkflow_start"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def save(model: Model, path: str | os.PathLike[str]) -> str:
    """Write the model into the folder `path`, which is there when it is whole; its full path.

    Its variables are copied, so the checkpoint that it was trained to may go. Raises AlreadyExistsError where there is
    such a folder with something in it, FailedPreconditionError where another training has replaced the checkpoint,
    NotFoundError where a file is not there, and what the system says as the error of its kind: ResourceExhaustedError
    where the disk is full.
    """
    out = mounted(path)
    try:
        whole = os.path.realpath(out) if os.path.islink(out) else out  # a folder takes no link's place
        if os.path.isfile(whole) or (os.path.isdir(whole) and os.listdir(whole)):
            raise _taken(out)
        check_fingerprint(model)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        _save(model, whole)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and os.path.isdir(whole):  # another was faster
            raise _taken(out) from error
        raise class_of(error)(f"{out} cannot be written: {error.strerror or error}") from error
    return out


def mounted(path: str | bytes | os.PathLike[str]) -> str:
    """A folder's full path; it may be written as file:///... Raises InvalidArgumentError on none, and on a URL of
    another store, which would be a folder of that name here."""
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    if not text:
        raise InvalidArgumentError(f"path must be the name of a model's folder, got {path!r}")
    local = text.removeprefix("file://") if text.startswith("file:///") else text
    local = local.removeprefix("file:") if local.startswith("file:/") and not local.startswith("file://") else local
    if _URL.match(local):
        raise InvalidArgumentError(
            f"{text}: a model is kept in a folder that the driver and every task have mounted. Give the path of one"
        )
    return os.path.abspath(os.path.expanduser(local))


def _save(model: Model, out: str) -> None:
    temporary = temporaries.temporary(out)
    try:
        os.makedirs(os.path.join(temporary, constants.VARIABLES_DIRECTORY))
        if model.graph.restore_op:
            held = os.path.join(temporary, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
            to_tensorflow(model.checkpoint, held, _restored(model.graph), graph=False)
        _write(os.path.join(temporary, constants.SAVED_MODEL_FILENAME_PB), _graph(model, temporary))
        os.makedirs(os.path.dirname(os.path.join(temporary, _COLUMNS)), exist_ok=True)
        _write(os.path.join(temporary, _COLUMNS), json.dumps(_described(model)).encode())
        os.replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _taken(out: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"{out} exists. Give another folder, or remove that one")


class Kept(NamedTuple):
    """columns: how they are read. outputs: their order. variables: the shapes of the model's, by name."""

    columns: Columns
    outputs: list[str]
    variables: dict[str, tuple[int | None, ...]]


def kept_in(folder: str) -> Kept | None:
    """Of a saved Model; None of a SavedModel that says nothing of it. Raises DataLossError where it cannot be read,
    InvalidArgumentError where a later sparkflow wrote it."""
    path = os.path.join(folder, _COLUMNS)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        if (version := said["version"]) != _VERSION:
            raise _newer(path, version)
        types = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["types"])))
        columns = [Column(**{key: _read(value) for key, value in one.items()}) for one in said["columns"]]
        sources = {c.name: Source(c, kind.type) for c, kind in zip(columns, types, strict=True)}
        variables = {name: tuple(shape) for name, shape in said["variables"].items()}
        return Kept(Columns(sources), list(said["outputs"]), variables)
    except InvalidArgumentError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
        raise DataLossError(f"{path} cannot be read: {error!r}. Save the model anew") from error


def _newer(path: str, version: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path} is of version {version}, and this sparkflow reads {_VERSION}: take a newer one"
    )


def _write(path: str, content: Any) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _restored(graph: PredictionGraph) -> set[str] | None:
    """The names of what the model restores: a checkpoint has its optimizer's too. None where it does not say.

    Its graph may read other checkpoints as well, as one that starts from another's variables does.
    """
    nodes = {node.name: node for node in GraphDef.FromString(graph.graph_def).node}
    found, seen, todo = set[str](), set[str](), [graph.restore_op]
    while todo:
        node = nodes[todo.pop().removeprefix("^").partition(":")[0]]
        if node.name in seen:
            continue
        seen.add(node.name)
        todo += node.input
        if node.op != "RestoreV2":
            continue
        names = nodes.get(node.input[1].removesuffix(":0"))
        if names is None or names.op != "Const":
            return None
        found.update(n.decode() for n in tf.make_ndarray(names.attr["value"].tensor).reshape(-1).tolist())
    return found or None


def _graph(model: Model, folder: str) -> bytes:
    """A serialized SavedModel of the one graph; its files are copied into the folder."""
    graph, named = tf.Graph(), model.graph
    with graph.as_default():
        tf.import_graph_def(GraphDef.FromString(named.graph_def), name="")
        if named.init_ops:
            start = tf.group(*map(graph.get_operation_by_name, named.init_ops), name=_START)
            graph.add_to_collection(constants.MAIN_OP_KEY, start)
        tensors = [{key: graph.get_tensor_by_name(t) for key, t in d.items()} for d in (named.inputs, named.outputs)]
        signature = tf.saved_model.predict_signature_def(*tensors)
    saver = None
    if named.restore_op:  # TensorFlow wants a name of what saves, too, which nobody runs
        saver = tf.train.SaverDef(
            restore_op_name=named.restore_op, filename_tensor_name=named.filename_tensor,
            save_tensor_name=named.filename_tensor, version=tf.train.SaverDef.V2,
        )  # fmt: skip
    meta = tf.train.export_meta_graph(graph=graph, saver_def=saver)
    meta.meta_info_def.tags.append(tf.saved_model.tag_constants.SERVING)
    meta.signature_def[tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY].CopyFrom(signature)
    assets.add(folder, meta, {graph.get_tensor_by_name(tensor): path for tensor, path in named.assets.items()})
    whole = SavedModel(saved_model_schema_version=1)
    with within_limits(meta):
        whole.meta_graphs.append(meta)
    return serialized(whole)


# ---------------------------------------------------------------------- columns


def _described(model: Model) -> dict[str, Any]:
    sources = list(model.columns.sources.values())
    types = pa.schema([(source.name, source.arrow) for source in sources])
    usual = Column("")
    said = [
        {
            f.name: _said(c.name, v)
            for f in fields(c)
            if (v := getattr(c, f.name)) != getattr(usual, f.name) or f.name == "name"
        }
        for c in (source.column for source in sources)
    ]
    return {
        "version": _VERSION, "types": base64.b64encode(types.serialize().to_pybytes()).decode(), "columns": said,
        "outputs": list(model.graph.outputs), "variables": model.graph.variables,
    }  # fmt: skip


def _said(column: str, value: Any) -> Any:
    """As JSON has it. Raises InvalidArgumentError on a value that it has no way to say."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple | list):
        return [_said(column, one) for one in value]
    if isinstance(value, str | int | float):
        return value
    raise InvalidArgumentError(
        f"Column {column!r} has {value!r}, which cannot be saved: give it a number or a string instead"
    )


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"])
    return tuple(map(_read, value)) if isinstance(value, list) else value
