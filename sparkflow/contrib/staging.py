"""tf.contrib.staging: values kept ahead of time."""

from sparkflow.ops.staging import StagingArea

__all__ = ["StagingArea"]
