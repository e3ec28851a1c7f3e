"""tf.contrib.deprecated: summaries by the names that they had before TensorFlow 1."""

from __future__ import annotations

from typing import Any

from sparkflow import summary
from sparkflow.old_names import histogram_summary, image_summary, scalar_summary


def audio_summary(
    tag: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, name: str | None = None
) -> Any:
    """tf.summary.audio(tag, tensor)."""
    return summary.audio(tag, tensor, sample_rate, max_outputs, collections)


def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """tf.summary.merge(inputs)."""
    return summary.merge(inputs, collections, name)


def merge_all_summaries(key: str = "summaries") -> Any:
    """tf.summary.merge_all(key)."""
    return summary.merge_all(key)
