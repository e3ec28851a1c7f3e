"""Names that late TensorFlow 1 and programs on tf.compat.v1 use: where each is, loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

LATE_NAMES = {
    "function": ("sparkflow.functions", "function"),
    "GradientTape": ("sparkflow.grads.tape", "GradientTape"),
    "Module": ("sparkflow.module", "Module"),
}


def find(name: str) -> Any:
    """What `tf.<name>` is, None where it is none of these."""
    if name not in LATE_NAMES:
        return None
    module, attribute = LATE_NAMES[name]
    return getattr(import_module(module), attribute)
