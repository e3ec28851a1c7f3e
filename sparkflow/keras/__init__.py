"""tf.keras as graph-mode programs use it: layers and models that are called on tensors, or compiled and fitted; with
optimizers, losses, metrics, callbacks, activations, initializers, penalties, constraints, data, functions of tensors.

Models are trained in the session of `backend.get_session()`, in this process; tf.train's optimizers and tf.estimator
train what they compute across a cluster.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
    *(
        "activations",
        "backend",
        "callbacks",
        "constraints",
        "datasets",
        "estimator",
        "experimental",
        "initializers",
        "layers",
        "losses",
        "metrics",
    ),
    *("models", "optimizers", "preprocessing", "regularizers", "utils"),
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
