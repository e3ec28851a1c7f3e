"""SavedModels whose variables TensorFlow reads: for its servers, and whoever goes on training there."""

from __future__ import annotations

import os
import shutil

from sparkflow.saved_model.constants import VARIABLES_DIRECTORY, VARIABLES_FILENAME
from sparkflow.train import checkpoint_convert
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX
from sparkflow_runtime.wire.errors import AlreadyExistsError


def to_tensorflow(export_dir: str, out: str) -> int:
    """Copy the SavedModel to the folder `out`, its variables in TensorFlow's V2 format. Returns how many it has.

    The folder is there when it is whole. Raises AlreadyExistsError where there is one with something in it, and what
    restoring raises.
    """
    out = os.path.abspath(out)
    if os.path.isfile(out) or (os.path.isdir(out) and os.listdir(out)):
        raise AlreadyExistsError(f"{out} exists. Give another folder, or remove that one")
    temporary, count = temporaries.temporary(out), 0
    os.makedirs(os.path.dirname(out), exist_ok=True)
    try:
        folder = os.path.join(export_dir, VARIABLES_DIRECTORY)
        held = os.path.join(folder, VARIABLES_FILENAME)
        shutil.copytree(export_dir, temporary, ignore=lambda path, names: names if path == folder else [])
        if os.path.isfile(held + INDEX_SUFFIX):  # a model may have no variables
            converted = os.path.join(temporary, VARIABLES_DIRECTORY, VARIABLES_FILENAME)
            count = checkpoint_convert.to_tensorflow(held, converted)
        os.replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count
