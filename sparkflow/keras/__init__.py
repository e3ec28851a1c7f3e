"""tf.keras: what graph-mode programs take of it: layers and models that are called on tensors, data, categories,
activations, initializers, penalties, constraints, losses, and functions of tensors by Keras' names.

Models are not compiled and fitted: tf.train's optimizers and tf.estimator train what they compute.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
    *("activations", "backend", "constraints", "datasets", "initializers", "layers", "losses", "models"),
    *("regularizers", "utils"),
)
_NAMES = {"Input": "layers", "Model": "models", "Sequential": "models"}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"sparkflow.keras.{name}")
    if name in _NAMES:
        return getattr(import_module(f"sparkflow.keras.{_NAMES[name]}"), name)
    raise AttributeError(
        f"tf.keras has no {name!r} here, but {', '.join(_PARTS)}. tf.train's optimizers and tf.estimator train models"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS, *_NAMES})
