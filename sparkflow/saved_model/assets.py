"""Files that a SavedModel needs beside its variables: copied when it is written, found again when it is loaded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from sparkflow.framework.constant_value import constant_value
from sparkflow.saved_model import constants
from sparkflow.saved_model.proto import AssetFileDef
from sparkflow_runtime.wire.errors import NotFoundError
from sparkflow_runtime.wire.protos import MetaGraphDef


def add(export_dir: str, meta: MetaGraphDef, tensors: Sequence[Any] | Mapping[Any, str]) -> None:
    """Copy the files that these string constants name, and say in the MetaGraphDef which tensor names which. A Mapping
    says of each tensor where its file is.

    Raises ValueError on a tensor that is no constant path, NotFoundError where a file is not there.
    """
    taken: dict[str, str] = {}  # path -> its name among the assets
    for tensor in tensors:
        path = tensors[tensor] if isinstance(tensors, Mapping) else _path(tensor)
        if path not in taken:
            taken[path] = _copied(path, os.path.join(export_dir, constants.ASSETS_DIRECTORY), set(taken.values()))
        asset = AssetFileDef(filename=taken[path])
        asset.tensor_info.name = tensor.name
        meta.asset_file_def.add().MergeFromString(asset.SerializeToString())
        packed = AnyMessage()
        packed.Pack(asset)
        meta.collection_def[constants.ASSETS_KEY].any_list.value.append(packed)  # where TensorFlow 1 looks for it


def _path(tensor: Any) -> str:
    """The constant's value. Raises ValueError on what is no constant string."""
    value = constant_value(tensor)
    if value is None or getattr(value, "shape", ()) not in ((), (1,)):
        raise ValueError(f"Asset tensor {tensor} must be a constant string, the path of a file")
    text = value.item() if hasattr(value, "item") else value
    return text.decode() if isinstance(text, bytes) else str(text)


def constant_paths(tensors: Sequence[Any]) -> dict[str, str]:
    """Name of the tensor -> path of the file, of those that are constants."""
    found = {}
    for tensor in tensors:
        with contextlib.suppress(ValueError):
            found[tensor.name] = _path(tensor)
    return found


def _copied(path: str, folder: str, taken: set[str]) -> str:
    """The name that the file has there: its own, with a number where another file has that."""
    name = stem = os.path.basename(path)
    number = 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    os.makedirs(folder, exist_ok=True)
    try:
        shutil.copyfile(path, os.path.join(folder, name))
    except FileNotFoundError:
        raise NotFoundError(f"{path}; No such file or directory (an asset of the SavedModel)") from None
    return name


def paths(export_dir: str, meta: MetaGraphDef, import_scope: str | None) -> dict[str, str]:
    """Name of the tensor -> path of the file, to be fed to what initializes the model."""
    found = list(meta.asset_file_def)
    if not found and constants.ASSETS_KEY in meta.collection_def:
        for packed in meta.collection_def[constants.ASSETS_KEY].any_list.value:
            found.append(AssetFileDef.FromString(packed.value))
    folder, scope = os.path.join(export_dir, constants.ASSETS_DIRECTORY), f"{import_scope}/" if import_scope else ""
    return {scope + asset.tensor_info.name: os.path.join(folder, asset.filename) for asset in found}
