"""tf.keras: what graph-mode programs take of it beside models: data, categories, activations, initializers, penalties,
and functions of tensors by Keras' names.

There are no Keras layers and models; tf.layers and tf.estimator have what programs of this kind train.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = ("activations", "backend", "datasets", "initializers", "regularizers", "utils")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"sparkflow.keras.{name}")
    raise AttributeError(
        f"tf.keras has no {name!r} here; it has {', '.join(_PARTS)}. tf.layers has layers, tf.estimator trains models"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
