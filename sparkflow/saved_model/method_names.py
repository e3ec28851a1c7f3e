"""MethodNameUpdater: other method names in the signatures of a SavedModel that is written already."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sparkflow.saved_model import constants
from sparkflow.saved_model.loader import parse_saved_model
from sparkflow.train.checkpoint_state import write_whole
from sparkflow_runtime.wire.serialized import serialized


class MethodNameUpdater:
    """export_dir: of a SavedModel, whose file is read now and written by save. Raises OSError where there is none."""

    def __init__(self, export_dir: str):
        self._dir = os.fsdecode(export_dir)
        self._model = parse_saved_model(self._dir)

    def replace_method_name(
        self, signature_key: str, method_name: str, tags: str | Sequence[str] | None = None
    ) -> None:
        """In the MetaGraph of these tags, or in all that have the signature. Raises ValueError where none has it, or a
        name is empty."""
        if not signature_key or not method_name:
            raise ValueError(f"signature_key and method_name must be given, got {signature_key!r}, {method_name!r}")
        wanted = None if tags is None else {tags} if isinstance(tags, str) else set(tags)
        found = False
        for meta in self._model.meta_graphs:
            if wanted is not None and set(meta.meta_info_def.tags) != wanted:
                continue
            if signature_key not in meta.signature_def:
                if wanted is not None:
                    raise ValueError(
                        f"MetaGraphDef associated with tags {tags} does not have a signature_def with key: "
                        f"{signature_key!r}; it has {sorted(meta.signature_def)}"
                    )
                continue
            meta.signature_def[signature_key].method_name = method_name
            found = True
        if not found:
            have = [sorted(meta.meta_info_def.tags) for meta in self._model.meta_graphs]
            raise ValueError(
                f"MetaGraphDef associated with tags {tags} and signature {signature_key!r} could not be found in "
                f"SavedModel; there are {have}"
            )

    def save(self, new_export_dir: str | None = None) -> None:
        """Into the same file, or into a folder for it alone (saved_model.pb, without variables and assets)."""
        folder = os.fsdecode(new_export_dir) if new_export_dir else self._dir
        os.makedirs(folder, exist_ok=True)
        as_text = os.path.exists(os.path.join(self._dir, constants.SAVED_MODEL_FILENAME_PBTXT))
        name = constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        write_whole(os.path.join(folder, name), str(self._model).encode() if as_text else serialized(self._model))
