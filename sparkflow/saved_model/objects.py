"""What TensorFlow 2 saves objects by. Here a session saves a graph: these say how."""

from __future__ import annotations

from typing import Any, NoReturn

from sparkflow.framework.tracked import Tracked
from sparkflow_runtime.wire.errors import UnimplementedError


class Asset(Tracked):
    """A file that a model needs."""

    def __init__(self, path: Any):
        self._path = path

    asset_path = property(lambda self: self._path)


def save(obj: Any, export_dir: str, signatures: Any = None, options: Any = None) -> NoReturn:
    raise UnimplementedError(
        f"tf.saved_model.save({type(obj).__name__}, {export_dir!r}): an object's functions have nodes only in a graph. "
        "Call them with placeholders, and use tf.saved_model.simple_save(session, export_dir, inputs, outputs)"
    )


def load_v2(export_dir: str, tags: Any = None, options: Any = None) -> NoReturn:
    raise UnimplementedError(
        f"tf.saved_model.load_v2({export_dir!r}): use tf.saved_model.load(session, tags, export_dir), whose signatures "
        "name the tensors to run"
    )
