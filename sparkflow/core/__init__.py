"""tensorflow.core: the protobuf messages by the files that TensorFlow has them in: `core.framework.summary_pb2`.

Nothing is defined here. The messages are those of the `tensorboard` package, and our own of what it does not have.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_PROTOS = "tensorboard.compat.proto"
_OURS = {  # what the `tensorboard` package has no copy of
    "example_pb2": "sparkflow.train",
    "feature_pb2": "sparkflow.train",
    "meta_graph_pb2": "sparkflow.saved_model.proto",
    "saved_model_pb2": "sparkflow.saved_model.proto",
}


class _Folder(ModuleType):
    def __getattr__(self, name: str) -> ModuleType:
        if name in _OURS:
            return import_module(_OURS[name])
        if name.endswith("_pb2") and find_spec(f"{_PROTOS}.{name}") is not None:
            return import_module(f"{_PROTOS}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


for _name in ("example", "framework", "protobuf", "util"):
    _made = sys.modules[f"{__name__}.{_name}"] = _Folder(f"{__name__}.{_name}", "Files of messages.")
    _made.__path__ = []
    setattr(sys.modules[__name__], _name, _made)
