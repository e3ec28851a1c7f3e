"""Names that TensorFlow had before 1.0 and scripts still use: what each is called since. Found by `tf.<name>`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MATH, _ARRAY, _JOIN = "sparkflow.ops.math", "sparkflow.ops.array", "sparkflow.ops.array_join"

OLD_NAMES = {
    "mul": (_MATH, "multiply"),
    "sub": (_MATH, "subtract"),
    "neg": (_MATH, "negative"),
    "inv": (_MATH, "reciprocal"),
    "complex_abs": (_MATH, "abs"),
    "batch_matmul": (_MATH, "matmul"),
    "select": ("sparkflow.ops.array_select", "where"),
    "listdiff": ("sparkflow.ops.array_select", "setdiff1d"),
    "pack": (_JOIN, "stack"),
    "unpack": (_JOIN, "unstack"),
    "merge_summary": ("sparkflow.summary", "merge"),
    "merge_all_summaries": ("sparkflow.summary", "merge_all"),
    "scalar_summary": ("sparkflow.old_names", "scalar_summary"),
    "histogram_summary": ("sparkflow.old_names", "histogram_summary"),
    "image_summary": ("sparkflow.old_names", "image_summary"),
}


def find(name: str) -> Any:
    """What `tf.<name>` is, None where TensorFlow had no such name."""
    if name not in OLD_NAMES:
        return None
    module, attribute = OLD_NAMES[name]
    return getattr(import_module(module), attribute)


def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """tf.summary.scalar(tags, values)."""
    return _summary().scalar(tags, values, collections)


def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """tf.summary.histogram(tag, values)."""
    return _summary().histogram(tag, values, collections)


def image_summary(tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None) -> Any:
    """tf.summary.image(tag, tensor)."""
    return _summary().image(tag, tensor, max_images, collections)


def _summary() -> Any:
    return import_module("sparkflow.summary")
