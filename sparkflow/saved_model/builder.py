"""Writing a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.saved_model import assets, constants, signature_constants, signature_def_utils, tag_constants
from sparkflow.saved_model.proto import SavedModel
from sparkflow.train.checkpoint_state import write_whole
from sparkflow.train.meta_graph import export_meta_graph
from sparkflow.train.saver import Saver
from sparkflow_runtime.wire.serialized import serialized, within_limits

_RESERVED = ("__saved_model_init_op", "__saved_model_train_op")  # of TensorFlow 2, for what is no signature


class SavedModelBuilder:
    """export_dir: a folder that does not exist, or is empty; AssertionError otherwise."""

    def __init__(self, export_dir: str):
        export_dir = os.fsdecode(export_dir)
        if os.path.isdir(export_dir) and os.listdir(export_dir):
            raise AssertionError(f"Export directory {export_dir} already exists, and isn't empty. Choose another one")
        os.makedirs(export_dir, exist_ok=True)
        self._dir, self._model, self._has_variables = export_dir, SavedModel(saved_model_schema_version=1), False

    def add_meta_graph_and_variables(
        self, sess: Any, tags: Sequence[str], signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Any = None, legacy_init_op: Any = None, clear_devices: bool = False, main_op: Any = None,
        strip_default_attrs: bool = False, saver: Any = None,
    ) -> None:  # fmt: skip
        """The session's graph and the values of its variables. Called once, before add_meta_graph.

        assets_collection: string constants that are paths of files; these are copied, and whoever loads the model has
        the copies' paths in their place when main_op (or legacy_init_op) runs.
        """
        if self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved: use add_meta_graph()"
            )
        with sess.graph.as_default():
            saver = saver or Saver(allow_empty=True, sharded=False)
            folder = os.path.join(self._dir, constants.VARIABLES_DIRECTORY)
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, constants.VARIABLES_FILENAME)
            saver.save(sess, path, write_meta_graph=False, write_state=False)
            self._has_variables = True
            start = main_op or legacy_init_op
            self._add(
                sess.graph, tags, signature_def_map, assets_collection, clear_devices, saver, start, strip_default_attrs
            )

    def add_meta_graph(
        self, tags: Sequence[str], signature_def_map: Mapping[str, Any] | None = None, assets_collection: Any = None,
        legacy_init_op: Any = None, clear_devices: bool = False, main_op: Any = None,
        strip_default_attrs: bool = False, saver: Any = None,
    ) -> None:  # fmt: skip
        """Another graph on the same variables."""
        if not self._has_variables:
            raise AssertionError("Graph state including variables and assets has not been saved yet")
        graph, saver, start = get_default_graph(), saver or Saver(allow_empty=True), main_op or legacy_init_op
        self._add(graph, tags, signature_def_map, assets_collection, clear_devices, saver, start, strip_default_attrs)

    def _add(
        self, graph: Any, tags: Any, signatures: Any, files: Any, clear_devices: bool, saver: Any, main_op: Any,
        strip: bool,
    ) -> None:  # fmt: skip
        _check(signatures or {}, main_op)
        if main_op is not None:
            graph.get_collection_ref(constants.MAIN_OP_KEY)[:] = [main_op]
        saver_def = None if saver._is_empty else saver.as_saver_def()  # a model may have no variables
        meta = export_meta_graph(
            graph=graph, clear_devices=clear_devices, saver_def=saver_def, strip_default_attrs=strip
        )
        meta.meta_info_def.tags.extend(tags)
        for key, signature in (signatures or {}).items():
            meta.signature_def[key].CopyFrom(signature)
        assets.add(self._dir, meta, files or ())
        with within_limits(meta):
            self._model.meta_graphs.append(meta)

    def save(self, as_text: bool = False) -> str:
        """Writes saved_model.pb, or .pbtxt; its path."""
        name = constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        path = os.path.join(self._dir, name)
        write_whole(path, str(self._model).encode() if as_text else serialized(self._model))
        return path


def _check(signatures: Mapping[str, Any], main_op: Any) -> None:
    """Raises KeyError on a signature of a reserved name, AssertionError on one that leaves out what a tensor is,
    TypeError on a main op that is none."""
    if main_op is not None and not isinstance(main_op, (Operation, Tensor)):
        raise TypeError(f"main_op: expected {main_op!r} to be an Operation but got type {type(main_op)} instead.")
    for key, signature in signatures.items():
        if key in _RESERVED:
            raise KeyError(f'SignatureDef map key "{key}" is reserved for initialization. Please use a different key.')
        for info in chain.from_iterable(map(_parts, (*signature.inputs.values(), *signature.outputs.values()))):
            if not info.WhichOneof("encoding") or info.dtype == 0:
                raise AssertionError(
                    f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must have the "
                    "name and dtype fields set."
                )


def _parts(info: Any) -> Sequence[Any]:
    """A tensor's parts, of a RaggedTensor; otherwise itself."""
    return info.composite_tensor.components if info.WhichOneof("encoding") == "composite_tensor" else [info]


Builder = SavedModelBuilder


def simple_save(
    session: Any, export_dir: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], legacy_init_op: Any = None
) -> None:
    """The session's graph and variables for serving, with one signature from inputs to outputs."""
    signature = signature_def_utils.predict_signature_def(inputs, outputs)
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session, [tag_constants.SERVING], {signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        get_default_graph().get_collection(GraphKeys.ASSET_FILEPATHS), main_op=legacy_init_op, clear_devices=True,
    )  # fmt: skip
    builder.save()
