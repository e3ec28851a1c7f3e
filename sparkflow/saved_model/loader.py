"""Reading a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from sparkflow.ops.variables import global_variables
from sparkflow.saved_model import assets, constants
from sparkflow.saved_model.proto import SavedModel
from sparkflow.train.graph_files import import_meta_graph
from sparkflow.train.saver import Saver
from sparkflow_runtime.wire.protos import MetaGraphDef


def maybe_saved_model_directory(export_dir: str) -> bool:
    """Whether the folder holds a SavedModel."""
    names = (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT)
    return any(os.path.isfile(os.path.join(os.fsdecode(export_dir), name)) for name in names)


contains_saved_model = maybe_saved_model_directory


def parse_saved_model(export_dir: str) -> Any:
    """The SavedModel message. Raises OSError where there is none, or its file is damaged."""
    export_dir = os.fsdecode(export_dir)
    for name, read in (
        (constants.SAVED_MODEL_FILENAME_PB, SavedModel.FromString),
        (constants.SAVED_MODEL_FILENAME_PBTXT, lambda raw: text_format.Parse(raw.decode(), SavedModel())),
    ):
        path = os.path.join(export_dir, name)
        if os.path.isfile(path):
            try:
                with open(path, "rb") as file:
                    return read(file.read())
            except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
                raise OSError(f"Cannot parse file {path}: {error}") from None
    raise OSError(f"SavedModel file does not exist at: {export_dir}/{{saved_model.pbtxt|saved_model.pb}}")


def load(
    sess: Any, tags: Sequence[str], export_dir: str, import_scope: str | None = None, **saver_kwargs: Any
) -> MetaGraphDef:
    """Adds the MetaGraph with exactly these tags to the session's graph, restores its variables, runs its main op.

    Raises RuntimeError where there is none with these tags.
    """
    export_dir = os.fsdecode(export_dir)
    model = parse_saved_model(export_dir)
    found = [m for m in model.meta_graphs if set(m.meta_info_def.tags) == set(tags)]
    if not found:
        there = [sorted(m.meta_info_def.tags) for m in model.meta_graphs]
        raise RuntimeError(
            f"MetaGraphDef associated with tags {sorted(tags)} could not be found in SavedModel; there are {there}"
        )
    meta = found[0]
    with sess.graph.as_default():
        saver = import_meta_graph(meta, import_scope=import_scope)
        if saver is not None:
            path = os.path.join(export_dir, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
            _in_scope(saver, import_scope).restore(sess, path)
        files = assets.paths(export_dir, meta, import_scope)
        graph = sess.graph
        for op in graph.get_collection(constants.MAIN_OP_KEY) or graph.get_collection(constants.LEGACY_INIT_OP_KEY):
            sess.run(op, files)
    return meta


def _in_scope(saver: Any, scope: str | None) -> Any:
    """A saver of the variables by the names that they have without the scope."""
    if not scope:
        return saver
    inside = [v for v in global_variables() if v.op.name.startswith(scope + "/")]
    return Saver({v.op.name[len(scope) + 1 :]: v for v in inside}) if inside else saver
